"""Ctrl-C and SIGTERM: everything ends soon, and what there was so far is kept."""

import json
import os
import signal
import time

import pytest

from proto.messages import ROLES

SIGNALS = [(signal.SIGINT, 130), (signal.SIGTERM, 143)]


def ended_within(run, seconds):
    """Waits for the end of `run`; the exit code. Fails when anything is left after `seconds`."""
    began = time.monotonic()
    code = run.wait(seconds)
    run.gone(seconds - (time.monotonic() - began))
    return code


def test_ctrl_c_in_training(start_endless):
    run = start_endless()
    run.training()
    os.killpg(run.process.pid, signal.SIGINT)  # as a terminal does it: to every process of the run
    assert ended_within(run, 5) == 130
    assert_stopped_cleanly(run, 130, "stopped by SIGINT")
    for role in ROLES:
        assert "KeyboardInterrupt" not in (run.run_dir / "logs" / f"{role}.log").read_text()


def test_sigterm_in_training(start_endless):
    run = start_endless()
    run.training()
    run.kill(run.process.pid, signal.SIGTERM)
    assert ended_within(run, 5) == 143
    assert_stopped_cleanly(run, 143, "stopped by SIGTERM")
    assert f"summary, metrics, logs and checkpoints: {run.run_dir.relative_to(run.folder)}" in run.stdout


def sigterm_as_timeout_sends_it(run):
    """To the process that was started, and to its group."""
    run.kill(run.process.pid, signal.SIGTERM)
    os.killpg(run.process.pid, signal.SIGTERM)


def test_sigterm_to_all_in_training(start_endless):
    run = start_endless()
    run.training()
    sigterm_as_timeout_sends_it(run)
    assert ended_within(run, 5) == 143
    assert_stopped_cleanly(run, 143, "stopped by SIGTERM")
    summary = run.summary()
    assert (summary["killed"], summary["without_last_words"], summary["restarts"]) == ([], [], [])
    newest = max((run.run_dir / "checkpoints").iterdir())
    assert json.loads((newest / "manifest.json").read_text())["trained"] == summary["boss_instances"]


@pytest.mark.parametrize("workers", [1, 3])
def test_sigterm_to_all_in_start_up(workers, start_endless):
    """Also before they can have said anything about signals."""
    run = start_endless()
    run.until(lambda: len(run.workers()) >= workers, "worker processes")
    sigterm_as_timeout_sends_it(run)
    assert ended_within(run, 5) == 143
    summary = run.summary()
    assert (summary["exit_reason"], summary["boss_instances"]) == ("stopped by SIGTERM", 0)
    assert "Traceback" not in run.stdout + run.stderr


def assert_stopped_cleanly(run, code, reason):
    """`run` kept what there was when it was stopped, and said why it ended."""
    summary = run.summary()
    assert (summary["exit_code"], summary["exit_reason"]) == (code, reason)
    for role in ROLES:
        assert "INFO done" in (run.run_dir / "logs" / f"{role}.log").read_text()
    assert summary["boss_instances"] > 1437
    assert summary["test_accuracy"] > 0.5
    assert summary["reports_sent"] == summary["optimizer_steps"]
    assert summary["reports_unread"] >= 0
    assert "Traceback" not in run.stdout + run.stderr
    assert reason in run.stdout


@pytest.mark.parametrize(("number", "code"), SIGNALS)
def test_in_start_up(number, code, start_endless):
    run = start_endless()
    run.all_started()
    run.kill(run.process.pid, number)
    assert ended_within(run, 5) == code
    summary = run.summary()
    assert (summary["exit_code"], summary["boss_instances"], summary["startup_s"]) == (code, 0, None)
    assert summary["test_accuracy"] is None
    assert "running" not in run.stdout
    assert "Traceback" not in run.stdout + run.stderr


def test_a_worker_that_does_not_react_is_killed_in_time(start_endless):
    # Without checkpoints: a Boss that stands still while it writes one is waited for longer.
    run = start_endless("boss.checkpoint_every=0")
    run.kill(run.training()["boss"], signal.SIGSTOP)
    run.kill(run.process.pid, signal.SIGINT)
    assert ended_within(run, 5) == 130
    assert "boss" in run.summary()["killed"]


def test_sigterm_to_the_workers_alone_changes_nothing(start_endless):
    run = start_endless()
    for pid in run.training().values():
        run.kill(pid, signal.SIGTERM)
    seen = len(run.records("eval"))
    run.until(lambda: len(run.records("eval")) > seen + 2, "further evaluations")
    run.kill(run.process.pid, signal.SIGTERM)
    assert ended_within(run, 5) == 143
    assert_stopped_cleanly(run, 143, "stopped by SIGTERM")
    assert run.summary()["restarts"] == []
