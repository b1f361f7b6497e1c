"""Rows of docs/reliability.md that other files of this folder do not have."""

import os
import signal
import subprocess
import sys
import time

import pytest


def autoassist(run, *words):
    """Runs `autoassist WORDS` beside `run`."""
    env = {**os.environ, "TMPDIR": str(run.tmpdir)}
    command = [sys.executable, "-m", "autoassist", *words]
    return subprocess.run(command, cwd=run.folder, env=env, capture_output=True, text=True, timeout=60)


def test_two_runs_in_one_directory_ctrl_c_twice_and_what_status_says_meanwhile(start_endless):
    run = start_endless()
    run.training()
    second = autoassist(run, "launch", "run.name=r")
    assert second.returncode == 2
    assert f"under way (pid {run.process.pid})" in second.stderr
    said = autoassist(run, "status", str(run.run_dir))
    assert said.returncode == 0
    assert f"r is under way (supervisor pid {run.process.pid})" in said.stdout
    for role, pid in run.workers().items():
        assert f"{role} (pid {pid})" in said.stdout
    run.kill(run.workers()["boss"], signal.SIGSTOP)  # it will not end by itself
    run.kill(run.process.pid, signal.SIGINT)
    time.sleep(0.3)
    run.kill(run.process.pid, signal.SIGINT)
    began = time.monotonic()
    assert run.wait(5) == 130
    assert run.left() == []
    assert "boss" in run.summary()["killed"]
    assert time.monotonic() - began < 3.0, "no deadline was waited for"
    assert autoassist(run, "status", str(run.run_dir)).returncode == 1


@pytest.mark.parametrize("serial", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_run_directory_that_is_removed_ends_the_run(serial, start_endless):
    run = start_endless(f"run.serial={str(serial).lower()}", "boss.checkpoint_every=0.1")
    run.until(lambda: run.records("progress"), "the first steps")
    run.run_dir.rename(run.folder / "moved")
    assert run.wait(20) == 1, run.stdout + run.stderr
    assert "run.dir = " in run.stdout
    assert "was removed or moved in mid-run: nothing can be kept" in run.stdout
    assert "to go on" not in run.stdout
    assert not run.run_dir.exists(), "no checkpoint has made it anew"
    assert "Traceback" not in run.stdout + run.stderr
    assert run.left() == []


@pytest.mark.slow
def test_everything_suspended_is_no_false_alarm(start_run):
    run = start_run("run.budget=30", "boss.model=linear", "boss.threads=1", "run.hang_s=3")
    pids = [run.process.pid, *run.training(0.3).values()]
    for pid in pids:
        run.kill(pid, signal.SIGSTOP)
    time.sleep(8)
    for pid in pids:
        run.kill(pid, signal.SIGCONT)
    assert run.wait() == 0, run.stdout
    assert run.summary()["restarts"] == []
    assert run.summary()["boss_instances"] == 30 * 1437


@pytest.mark.slow
def test_boss_killed_with_restart_boss_all_three_go_on_from_the_checkpoint(start_run):
    run = start_run("run.budget=60", "boss.model=linear", "boss.threads=1", "run.restart_boss=true")
    run.kill(run.training(0.5)["boss"])
    assert run.wait() == 0, run.stdout
    summary = run.summary()
    assert [restart["reason"] for restart in summary["restarts"]] == ["boss was killed by SIGKILL"]
    assert summary["resumed_from"].startswith("batch-")
    assert summary["boss_instances"] == 60 * 1437
    epochs = [record["boss_epochs"] for record in run.records("eval")]
    assert epochs == sorted(set(epochs)), "what was trained again counts once"


@pytest.mark.slow
@pytest.mark.parametrize("role", ["batcher", "assistant"])
def test_in_a_deterministic_run_a_restart_changes_no_bit(role, start_run):
    words = ("run.budget=20", "boss.model=linear", "boss.threads=1", "run.deterministic=true", "boss.eval_every=0.25")
    whole = start_run(*words)
    assert whole.wait() == 0, whole.stdout
    broken = start_run(*words, "run.name=broken")
    broken.kill(broken.training(0.3)[role])
    assert broken.wait() == 0, broken.stdout
    assert [restart["role"] for restart in broken.summary()["restarts"]] == [role]
    weights = [(run.run_dir / "model.safetensors").read_bytes() for run in (whole, broken)]
    assert weights[0] == weights[1]
    assert broken.summary()["reports_folded"] == broken.summary()["reports_sent"]


@pytest.mark.slow
@pytest.mark.parametrize("role", ["batcher", "assistant"])
def test_killed_in_start_up_it_is_started_again(role, start_run):
    run = start_run("run.budget=3", "boss.model=linear", "boss.threads=1")
    run.kill(run.all_started()[role])
    assert run.wait() == 0, run.stdout
    assert [restart["role"] for restart in run.summary()["restarts"]] == [role]
    assert run.summary()["boss_instances"] == 3 * 1437
    assert run.summary()["reports_unread"] == 0
