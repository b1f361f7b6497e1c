"""One run from settings to exit code: the run directory, and what of a failure is said. No process is started."""

import io
import json
import resource

import pytest
from rich.console import Console

from autoassist import launch as module
from autoassist.config import load
from autoassist.launch import launch, resume
from autoassist.machine import Machine
from autoassist.rundir import locked, sweep_folder
from autoassist.status import show
from proto import checkpoint
from proto.config import RunConfig
from proto.errors import ConfigError


@pytest.fixture
def console():
    return Console(file=io.StringIO(), width=200)


@pytest.fixture
def ending(monkeypatch):
    """Has the supervisor of the next run end with an exit code and a reason."""

    def ending(code, reason):
        class Supervisor:
            def __init__(self, settings, run_dir, *_, **__):
                (run_dir / "logs").mkdir()
                self.refused = {}

            def run(self):
                machine = Machine("digest", RunConfig(), 0.0)
                machine.exit_code, machine.reason = code, reason
                return machine

        monkeypatch.setattr(module, "Supervisor", Supervisor)

    return ending


@pytest.fixture
def settings(tmp_path):
    def settings(*overrides):
        return load(None, [f"run.dir={tmp_path / 'runs'}", *overrides])

    return settings


@pytest.mark.parametrize("code", [0, 1, 130, 143])
def test_the_exit_code_is_the_supervisors_and_the_summary_is_kept(code, ending, settings, console, tmp_path):
    ending(code, "why it ended")
    assert launch(settings("run.name=r"), console) == code
    summary = json.loads((tmp_path / "runs" / "r" / "summary.json").read_text())
    assert (summary["exit_code"], summary["exit_reason"], summary["name"]) == (code, "why it ended", "r")


def test_a_signal_that_comes_when_the_weights_are_written_leaves_the_run_complete(
    ending, settings, console, tmp_path, monkeypatch
):
    ending(143, "stopped by SIGTERM")
    stopped = module.Supervisor.run

    def run(self):
        (tmp_path / "runs" / "r" / "model.safetensors").write_bytes(b"")
        return stopped(self)

    monkeypatch.setattr(module.Supervisor, "run", run)
    assert launch(settings("run.name=r"), console) == 0
    summary = json.loads((tmp_path / "runs" / "r" / "summary.json").read_text())
    assert (summary["exit_code"], summary["exit_reason"]) == (0, "the budget is used up")
    assert "SIGTERM" not in console.file.getvalue()


def test_what_the_user_can_mend_leaves_no_run_directory(ending, settings, console, tmp_path):
    ending(2, "boss.model = 'x': no")
    with pytest.raises(ConfigError, match=r"^boss\.model = 'x': no$"):
        launch(settings("run.name=r"), console)
    assert list((tmp_path / "runs").iterdir()) == []


def test_a_run_that_cannot_go_back_to_its_checkpoint_now_keeps_it(settings, console, tmp_path, monkeypatch):
    run_dir = tmp_path / "runs" / "r"

    class Supervisor:
        clock, refused = None, {}

        def __init__(self, settings, run_dir, view, resume, *_, **__):
            self.resume = resume

        def run(self):
            if self.resume is not None:
                raise ConfigError("run.dir", str(run_dir), "cannot be written to: Read-only file system")
            name = checkpoint.name_of(3)
            files = checkpoint.write_part(run_dir, name, "boss", lambda path: path.write_text("weights"), {})
            checkpoint.complete(run_dir, name, {"files": files, "cpu_s": {}})
            machine = Machine("digest", RunConfig(), 0.0)
            machine.again = True
            return machine

    monkeypatch.setattr(module, "Supervisor", Supervisor)
    assert launch(settings("run.name=r"), console) == module.RESUMABLE
    assert "cannot be written to: Read-only file system" in console.file.getvalue()
    assert checkpoint.newest(run_dir) is not None


@pytest.mark.parametrize("reason", ["boss crashed: ValueError: [/x]", "boss crashed: KeyError: '[red]'"])
def test_a_failure_is_said_in_the_words_of_its_reason(reason, ending, settings, console):
    ending(1, reason)
    assert launch(settings("run.name=r"), console) == 1
    assert reason in console.file.getvalue()


def test_a_run_is_named_after_its_data_set_and_the_time(ending, settings, console, tmp_path):
    ending(0, "")
    for _ in range(2):
        launch(settings(), console)
    names = sorted(path.name for path in (tmp_path / "runs").iterdir())
    assert len(names) == 2
    assert all(name.startswith("digits-2") for name in names)
    assert load(tmp_path / "runs" / names[0] / "config.toml", []).run.name == names[0]
    assert str(tmp_path / "runs" / names[1]) in console.file.getvalue()


@pytest.mark.parametrize("name", ["{}/blobs.py:build", "some.blobs:build", "blobs:build"])
def test_a_run_on_a_users_data_set_is_named_after_the_file_of_its_callable(ending, settings, console, tmp_path, name):
    ending(0, "")
    (tmp_path / "blobs.py").touch()
    launch(settings(f"data.name={name.format(tmp_path)}"), console)
    assert [path.name.startswith("blobs-") for path in (tmp_path / "runs").iterdir()] == [True]


def test_the_folder_of_several_runs_is_named_after_files_too(settings, tmp_path):
    (tmp_path / "net.py").write_text("class Deep: ...")
    own = settings("data.name=some.blobs:build", f"boss.model={tmp_path}/net.py:Deep")
    assert sweep_folder(own, "ablate") == tmp_path / "runs" / "ablate-blobs-net"
    assert sweep_folder(settings("boss.model=mlp"), "compare") == tmp_path / "runs" / "compare-digits-mlp"


def test_a_folder_that_is_no_run_cannot_be_gone_on_with(console, tmp_path):
    for folder in (tmp_path / "none", tmp_path):
        with pytest.raises(ConfigError, match=r"^--resume = '.*': no run directory that `autoassist launch` made$"):
            resume(folder, console)


def test_a_serial_run_is_seen_to_be_under_way(settings, console, tmp_path):
    run_dir = tmp_path / "runs" / "r"
    run_dir.mkdir(parents=True)
    (run_dir / "config.toml").touch()
    assert show(run_dir, console) == 1
    with locked(run_dir):
        assert show(run_dir, console) == 0
        with pytest.raises(ConfigError, match=r"is used by a run that is under way; choose another name"):
            launch(settings("run.name=r"), console)
        with pytest.raises(ConfigError, match=r"^--resume = .*: this run is under way; stop it first$"):
            resume(run_dir, console)
    said = [line for line in console.file.getvalue().splitlines() if line.startswith("r ")]
    assert said == ["r ended without a summary: it was killed", "r is under way"]


def test_a_run_that_exists_is_left_alone(settings, console, tmp_path):
    (tmp_path / "runs" / "r").mkdir(parents=True)
    (tmp_path / "runs" / "r" / "precious").write_text("weights")
    with pytest.raises(ConfigError, match=r"run\.name = 'r': .*exists already"):
        launch(settings("run.name=r"), console)
    assert [path.name for path in (tmp_path / "runs" / "r").iterdir()] == ["precious"]


@pytest.mark.parametrize("complete", [False, True])
def test_of_a_run_that_was_cut_off_it_is_said_how_to_go_on(complete, settings, console, tmp_path):
    run_dir = tmp_path / "runs" / "r"
    (run_dir / "checkpoints").mkdir(parents=True)
    if complete:
        (run_dir / "model.safetensors").touch()
    with pytest.raises(ConfigError, match=r"exists already") as caught:
        launch(settings("run.name=r"), console)
    assert (f"autoassist launch --resume {run_dir}" in str(caught.value)) is not complete


def test_a_read_only_place_for_run_directories_is_a_configuration_error(settings, console):
    with pytest.raises(ConfigError, match=r"run\.dir = '/proc/runs': cannot make /proc/runs/r"):
        launch(settings("run.name=r", "run.dir=/proc/runs"), console)


def test_a_run_directory_that_cannot_be_made_is_a_configuration_error(settings, console, tmp_path):
    (tmp_path / "runs").write_text("a file where a folder is needed")
    with pytest.raises(ConfigError, match=r"run\.dir = .*cannot make"):
        launch(settings("run.name=r"), console)


def test_a_disk_without_room_for_the_configuration_leaves_no_run_directory(settings, console, tmp_path):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        with pytest.raises(ConfigError, match=r"cannot make .*/r: File too large"):
            launch(settings("run.name=r"), console)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list((tmp_path / "runs").iterdir()) == []
