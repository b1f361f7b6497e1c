"""What a worker knows of its run."""

import os
import shutil
from pathlib import Path

import pytest

from proto.config import RunInfo
from proto.lifecycle import Worker
from proto.sockets import make_socket_dir


def test_it_finds_its_run_directory_wherever_the_users_code_changes_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_dir, socket_dir = tmp_path / "run", make_socket_dir()
    run_dir.mkdir()
    (run_dir / "config.toml").touch()
    RunInfo(run_id="toy", socket_dir=socket_dir, supervisor_pid=os.getpid()).save(run_dir)
    monkeypatch.chdir(tmp_path)
    try:
        worker = Worker("batcher", Path("run"))
        worker.close()
    finally:
        shutil.rmtree(socket_dir)
    monkeypatch.chdir("/")
    assert worker.run_dir.samefile(run_dir)
