"""kill -9: whoever dies, nothing of the run outlives it, and who died is said."""

import os
import signal

import pytest


def test_supervisor_killed_in_training_takes_everything_along(start_endless):
    run = start_endless()
    run.training()
    run.kill(run.process.pid)
    run.gone(5)
    assert run.wait(1) == -signal.SIGKILL
    assert not (run.run_dir / "summary.json").exists()


def test_supervisor_killed_in_start_up_takes_everything_along(start_endless):
    run = start_endless()
    run.all_started()
    run.kill(run.process.pid)
    run.gone(5)
    assert run.wait(1) == -signal.SIGKILL


def test_boss_killed_in_training_ends_the_run_which_can_be_gone_on_with(start_endless):
    run = start_endless()
    run.kill(run.training()["boss"])
    assert run.wait(8) == 75
    summary = run.summary()
    assert summary["exit_reason"] == "boss was killed by SIGKILL"
    assert summary["exit_reason"] in run.stdout
    assert "to go on: autoassist launch --resume" in run.stdout
    assert "Traceback" not in run.stdout + run.stderr
    assert run.left() == []
    assert summary["boss_instances"] > 0
    assert summary["test_accuracy"] is not None
    assert summary["reports_unread"] is None
    assert not (run.run_dir / "model.safetensors").exists()


@pytest.mark.slow
@pytest.mark.parametrize("role", ["batcher", "assistant"])
def test_without_restarts_a_worker_killed_in_training_ends_the_run_and_is_named(role, start_endless):
    run = start_endless("run.max_restarts=0", "boss.checkpoint_every=0")
    run.kill(run.training()[role])
    assert run.wait(8) == 1
    assert run.summary()["exit_reason"] == f"{role} was killed by SIGKILL"
    assert run.summary()["reports_unread"] >= 0
    assert run.left() == []


def test_worker_killed_in_start_up_ends_the_run_and_is_named(start_endless):
    run = start_endless()
    run.kill(run.all_started()["boss"])
    assert run.wait(8) == 1
    assert run.summary()["exit_reason"] == "boss was killed by SIGKILL"
    assert run.left() == []


def test_what_a_killed_run_left_behind_is_swept_by_the_next(start_run, private_tmpdir):
    tmpdir = private_tmpdir / "swept"
    dead, alive = tmpdir / f"aa-{os.getuid()}-dead", tmpdir / f"aa-{os.getuid()}-alive"
    for folder in (dead, alive):
        folder.mkdir(parents=True, mode=0o700)
        os.mkfifo(folder / "alive", 0o600)
    (dead / "control").touch()
    writer = os.open(alive / "alive", os.O_RDWR)
    try:
        run = start_run("data.name=no.such:thing", tmpdir=tmpdir)
        assert run.wait() == 2
        assert (dead.exists(), alive.exists()) == (False, True)
    finally:
        os.close(writer)
        (alive / "alive").unlink()
        alive.rmdir()
