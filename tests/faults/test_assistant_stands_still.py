"""The Boss never waits for the Assistant."""

import signal

import pytest

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def run(start_shared_run):
    """A finished run of thousands of small batches whose Assistant was stopped (SIGSTOP) as soon as training began."""
    run = start_shared_run(
        "run.name=still", "run.budget=5", "batcher.batch_size=4", "boss.loss_queue=4", "boss.model=linear",
        "boss.threads=1", "boss.eval_every=0.1",
    )  # fmt: skip
    run.kill(run.training(seconds=0)["assistant"], signal.SIGSTOP)
    run.exit_code = run.wait()
    return run


def test_the_boss_finishes_its_budget(run):
    assert run.exit_code == 0
    assert run.summary()["boss_instances"] == 5 * 1437
    assert run.summary()["test_accuracy"] > 0.8
    assert (run.run_dir / "model.safetensors").exists()


def test_reports_overflow_and_every_one_is_accounted_for(run):
    summary = run.summary()
    assert summary["reports_dropped"] > 0
    assert summary["reports_sent"] == summary["optimizer_steps"] == 5 * 1437 // 4, "a remainder of one joins"
    assert summary["reports_sent"] == summary["reports_folded"] + summary["reports_dropped"] + summary["reports_unread"]
    assert summary["reports_folded"] < summary["reports_sent"] - summary["reports_dropped"]


def test_features_for_it_are_dropped_and_counted(run):
    assert run.summary()["features_dropped"] > 0


def test_the_stopped_assistant_is_gone_afterwards(run):
    assert run.summary()["killed"] == ["assistant"]
    assert run.left() == []
