"""What a worker knows of its run."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from proto.batches import End
from proto.config import RunInfo
from proto.lifecycle import Worker
from proto.sockets import make_socket_dir


@pytest.fixture
def run_dir(tmp_path: Path) -> Iterator[Path]:
    run_dir, socket_dir = tmp_path / "run", make_socket_dir()
    run_dir.mkdir()
    (run_dir / "config.toml").write_text("[run]\ndeterministic = true\n")
    RunInfo(run_id="toy", socket_dir=socket_dir, supervisor_pid=os.getpid()).save(run_dir)
    yield run_dir
    shutil.rmtree(socket_dir)


def test_it_finds_its_run_directory_wherever_the_users_code_changes_to(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(run_dir.parent)
    worker = Worker("batcher", Path("run"))
    worker.close()
    monkeypatch.chdir("/")
    assert worker.run_dir.samefile(run_dir)


def test_a_deterministic_one_does_not_wait_for_a_queue_once_its_supervisor_is_dead(run_dir: Path) -> None:
    class Left(Worker):
        def supervised(self) -> bool:
            return False

    worker = Left("boss", run_dir)
    port = worker.port("losses")
    port.socket.linger = 0
    send = worker.sender(port)
    assert not all(send(End(seq=0, incarnation=0)) for _ in range(1000)), "nobody reads, and the queue is full"
    worker.close()
