"""Each worker killed at 20 random moments of a short run: every run ends with exact accounting.

How soon the new ones are there is measured by `python -m benchmarks.restarts`.
"""

import random
from collections import Counter

import pytest
from logged_ids import BUDGET, CODE, WORDS, N, assert_whole, trained_ids, until_trained

pytestmark = pytest.mark.slow
SEEDS = range(20)
BATCHES = BUDGET * N // 8


@pytest.mark.parametrize("seed", SEEDS)
def test_batcher_and_assistant(seed, start_run, tmp_path):
    (tmp_path / "net.py").write_text(CODE)
    chance = random.Random(seed)
    policy = ("uniform", "autoassist")[seed % 2]
    run = start_run(*WORDS, f"policy.name={policy}")
    moments = {role: chance.randrange(BATCHES - 40) for role in ("batcher", "assistant")}
    for role in sorted(moments, key=lambda role: moments[role]):
        run.kill(until_trained(run, moments[role])[role])
    summary = assert_whole(run, *(f"{role} was killed by SIGKILL" for role in moments))
    if policy == "uniform":
        assert summary["candidates"] == BUDGET * N
        assert set(Counter(trained_ids(run)).values()) == {BUDGET}
        ids = trained_ids(run)
        for begin in range(0, BUDGET * N, N):
            assert sorted(ids[begin : begin + N]) == list(range(N))
    else:
        assert summary["candidates"] == BUDGET * N + sum(summary["dropped_per_class"])


@pytest.mark.parametrize("seed", SEEDS)
def test_boss(seed, start_run, tmp_path):
    (tmp_path / "net.py").write_text(CODE)
    run = start_run(*WORDS, "policy.name=uniform", "run.restart_boss=true", "boss.checkpoint_every=0.5")
    run.kill(until_trained(run, 1 + random.Random(seed).randrange(BATCHES - 40))["boss"])
    assert run.wait(400) == 0, run.stdout + run.stderr
    summary = run.summary()
    assert [restart["role"] for restart in summary["restarts"]] == ["boss"]
    assert summary["boss_instances"] == summary["candidates"] == BUDGET * N
    assert summary["optimizer_steps"] == summary["reports_sent"] == BATCHES
    ids = trained_ids(run)[-N:]
    assert sorted(ids) == list(range(N)), "the last pass, whole"
    assert run.left() == []
