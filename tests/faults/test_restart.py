"""A Batcher or an Assistant that dies or hangs in training is started again: nothing is lost or trained twice."""

import os
import signal
from collections import Counter

import numpy as np
import pytest
from logged_ids import BUDGET, CODE, WORDS, N, assert_whole, trained_ids, until_trained


@pytest.fixture
def start(start_run, tmp_path):
    (tmp_path / "net.py").write_text(CODE)
    return lambda *words, **how: start_run(*WORDS, *words, **how)


NUMBERS = pytest.mark.parametrize(
    "number", [signal.SIGKILL, pytest.param(signal.SIGSTOP, marks=pytest.mark.slow)], ids=["killed", "stopped"]
)


@NUMBERS
def test_batcher_killed_or_stopped_no_id_of_a_pass_is_lost_or_trained_twice(number, start):
    run = start("policy.name=uniform", "run.hang_s=1")
    run.kill(until_trained(run, 150)["batcher"], number)
    killed = number == signal.SIGKILL
    reason = "batcher was killed by SIGKILL" if killed else "batcher gave no sign of life for 1 s"
    summary = assert_whole(run, reason)
    ids = trained_ids(run)
    for begin in range(0, BUDGET * N, N):
        assert sorted(ids[begin : begin + N]) == list(range(N))
    assert summary["candidates"] == BUDGET * N
    assert summary["reports_unread"] == 0, "the Assistant had them all"


@NUMBERS
def test_assistant_killed_or_stopped_the_new_one_goes_on_with_what_it_knew(number, start):
    run = start("run.hang_s=1", "boss.loss_queue=20", "policy.max_lag=100")
    run.kill(until_trained(run, 150)["assistant"], number)
    until_trained(run, 330)
    (run.folder / "hold").touch()  # until the new one is there
    (taken,) = run.until(lambda: run.records("taken_over"), "a new Assistant")
    assert taken["source"] == "the Batcher's mirror"
    assert taken["version"] > 50
    (run.folder / "hold").unlink()
    killed = number == signal.SIGKILL
    reason = "assistant was killed by SIGKILL" if killed else "assistant gave no sign of life for 1 s"
    summary = assert_whole(run, reason)
    assert summary["reports_dropped"] > 0
    assert summary["batches_without_news"] >= summary["batches_uniform"] > 0, "everything was kept while it was away"
    assert summary["batches_uniform"] < 300, "and not any more once it was back"


@pytest.mark.slow
def test_both_killed_at_once(start):
    run = start("boss.checkpoint_every=0.5")
    pids = until_trained(run, 150)
    for role in ("batcher", "assistant"):
        run.kill(pids[role])
    summary = assert_whole(run, *(f"{role} was killed by SIGKILL" for role in ("batcher", "assistant")))
    (taken,) = run.records("taken_over")
    assert taken["source"].startswith(("checkpoint batch-", "the Batcher's mirror"))
    # Instances may be trained more than once in a pass only where they were dropped in none.
    assert summary["candidates"] >= summary["boss_instances"]


RAISING = """

class Raising:
    calls = 0

    def __call__(self, candidates):
        self.calls += 1
        if self.calls == 150 and not os.path.exists("raised"):
            open("raised", "w").close()
            raise RAISED
        return np.ones(len(candidates), np.float32), np.ones(len(candidates), np.float32)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("raised", "reason"),
    [
        ("ArithmeticError('planned')", "batcher crashed: ArithmeticError: planned"),
        ("SystemExit(3)", "batcher crashed: SystemExit: 3"),
    ],
)
def test_batcher_that_raises_once_is_started_again(raised, reason, start_run, tmp_path):
    (tmp_path / "net.py").write_text(CODE + RAISING.replace("RAISED", raised))
    run = start_run(*WORDS, "policy.name=./net.py:Raising")
    assert_whole(run, reason)
    assert set(Counter(trained_ids(run)).values()) == {BUDGET}


FAILING_ASSISTANT = """
import os, sys

if sys.orig_argv[2:3] == ["assistant"] and not os.path.exists("raised"):
    from assistant.inlet import Inlet

    def pump(inlet, original=Inlet.pump):
        if inlet.learner.version > 100:
            open("raised", "w").close()
            raise RAISED
        return original(inlet)

    Inlet.pump = pump
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("raised", "reason"),
    [
        ("ArithmeticError('planned')", "assistant crashed: ArithmeticError: planned"),
        ("SystemExit(3)", "assistant crashed: SystemExit: 3"),
    ],
)
def test_assistant_that_raises_once_is_started_again(raised, reason, start, tmp_path):
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(FAILING_ASSISTANT.replace("RAISED", raised))
    run = start(PYTHONPATH=os.pathsep.join([str(tmp_path / "site"), os.environ.get("PYTHONPATH", "")]))
    until_trained(run, 250)
    (run.folder / "hold").touch()  # until the new one is there
    (taken,) = run.until(lambda: run.records("taken_over"), "a new Assistant")
    assert (taken["source"], taken["version"] > 50) == ("the Batcher's mirror", True)
    (run.folder / "hold").unlink()
    assert_whole(run, reason)


@pytest.mark.slow
def test_restarts_used_up_the_run_ends_and_can_be_resumed(start):
    run = start("run.max_restarts=1", "boss.checkpoint_every=0.1", "run.budget=1000")
    run.kill(until_trained(run, 100)["batcher"])
    run.until(lambda: run.records("event"), "the restart")
    old = run.seen["batcher"]
    run.kill(run.until(lambda: {pid for r, pid in run.workers().items() if r == "batcher"} - {old}, "another").pop())
    assert run.wait() == 75
    assert run.summary()["exit_reason"] == "batcher was killed by SIGKILL (run.max_restarts is used up)"
    assert "to go on: autoassist launch --resume" in run.stdout
    assert np.isfinite(run.summary()["train_s"])
