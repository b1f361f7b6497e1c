"""A Batcher or an Assistant that dies or hangs in training is started again: nothing is lost or trained twice."""

import os
import signal
from collections import Counter

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


FAILING = """
import os, sys

if sys.orig_argv[2:3] == ["ROLE"] and not os.path.exists("raised"):
    from ROLE.inlet import Inlet

    def pump(inlet, original=Inlet.pump):
        if WHEN:
            open("raised", "w").close()
            raise RAISED
        return original(inlet)

    Inlet.pump = pump
"""
"""Has a worker raise what no code of the user's does: it may not raise again."""


@pytest.fixture
def start_failing(start, tmp_path):
    def start_failing(role, when, raised):
        code = FAILING.replace("ROLE", role).replace("WHEN", when).replace("RAISED", raised)
        (tmp_path / "site").mkdir()
        (tmp_path / "site" / "sitecustomize.py").write_text(code)
        path = os.pathsep.join([str(tmp_path / "site"), os.environ.get("PYTHONPATH", "")])
        return start(*(["policy.name=uniform"] if role == "batcher" else []), PYTHONPATH=path)

    return start_failing


EITHER = pytest.mark.parametrize(
    ("raised", "told"),
    [("ArithmeticError('planned')", "ArithmeticError: planned"), ("SystemExit(3)", "SystemExit: 3")],
)


@pytest.mark.slow
@EITHER
def test_batcher_that_raises_once_is_started_again(raised, told, start_failing):
    run = start_failing("batcher", "inlet.core.metrics()['candidates'] > 1000", raised)
    assert_whole(run, f"batcher crashed: {told} (sitecustomize.py, line 10)")
    assert set(Counter(trained_ids(run)).values()) == {BUDGET}


@pytest.mark.slow
@EITHER
def test_assistant_that_raises_once_is_started_again(raised, told, start_failing):
    run = start_failing("assistant", "inlet.learner.version > 100", raised)
    until_trained(run, 250)
    (run.folder / "hold").touch()  # until the new one is there
    (taken,) = run.until(lambda: run.records("taken_over"), "a new Assistant")
    assert (taken["source"], taken["version"] > 50) == ("the Batcher's mirror", True)
    (run.folder / "hold").unlink()
    assert_whole(run, f"assistant crashed: {told} (sitecustomize.py, line 10)")
