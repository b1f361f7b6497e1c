"""The Assistant that predicts losses: what it learns, and that a checkpoint carries all of it."""

from typing import Any

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score
from toys import losses, spec

from assistant.config import AssistantConfig
from assistant.learner import Learner
from proto import scorer
from proto.learning import Features

SIZE, DIM = 1200, 8
RNG = np.random.default_rng(0)
X = RNG.normal(0, DIM**-0.5, (SIZE, DIM)).astype(np.float32)
Y = RNG.integers(0, 3, SIZE)
HARD = X[:, 0] + 0.2 * (Y == 2) > 0.3


def learner(ordered: bool = False) -> Learner:
    described = spec(train_size=SIZE, feature_dim=DIM, max_batch=SIZE, assistant="loss")
    return Learner(described, AssistantConfig(), ordered=ordered)


def batch(seq: int, values: Any, ids: Any) -> tuple[Features, Any]:
    wanted = np.where(ids % 3 == 0, 0.4, np.nan).astype(np.float32)
    shown = Features(
        batch_id=seq, incarnation=0, ids=ids, features=X[ids].astype(np.float16), labels=Y[ids], wanted=wanted
    )
    return shown, losses(seq, ids, values)


def teach(learner: Learner, batches: range) -> None:
    """Instances that are hard have losses about 2, others 0.1."""
    for seq in batches:
        rng = np.random.default_rng(seq)
        ids = rng.choice(SIZE, 64, replace=False)
        shown, reported = batch(seq, np.where(HARD[ids], 2, 0.1) * rng.gamma(4, 0.25, 64), ids)
        learner.fold_features(shown)
        learner.fold_losses(reported)


def forecast(learner: Learner, ids: Any, *, known: bool) -> np.ndarray:
    weights = learner.snapshot()
    blank = type(learner.ledger)(SIZE)
    records = (learner.ledger if known else blank).take(ids)
    history = scorer.history(records, weights.step, weights.mean_loss)
    return scorer.forecast(weights.arrays, X[ids], Y[ids], history) * weights.mean_loss


def test_it_predicts_losses_of_instances_it_has_seen_and_of_others() -> None:
    taught = learner()
    teach(taught, range(60))
    ids = np.arange(SIZE)
    for known in (False, True):
        predicted = forecast(taught, ids, known=known)
        assert roc_auc_score(HARD, predicted) > 0.85
        assert predicted[HARD].mean() == pytest.approx(2, rel=0.5)
        assert predicted[~HARD].mean() == pytest.approx(0.1, abs=0.15)
    metrics = taught.metrics()
    assert isinstance(metrics["auc"], float)
    assert metrics["auc"] > 0.8
    assert isinstance(metrics["prediction_error"], float)
    assert 0 < metrics["prediction_error"] < 1.5
    assert taught.mean_loss == pytest.approx(float(np.where(HARD, 2, 0.1).mean()), rel=0.3)


def test_the_mean_is_that_of_the_sample_and_not_of_what_is_kept() -> None:
    taught = learner()
    for seq in range(30):
        ids = np.random.default_rng(seq).choice(SIZE, 64, replace=False)
        shown, reported = batch(seq, np.where(ids % 3 == 0, 1.0, 9.0), ids)
        taught.fold_features(shown)
        taught.fold_losses(reported)
    assert taught.mean_loss == pytest.approx(1)


def test_history_is_what_the_ledger_said_before_the_batch() -> None:
    early, late = learner(), learner()
    for one in (early, late):
        teach(one, range(3))
    shown, reported = batch(3, np.full(64, 1.5), np.arange(64))
    early.fold_features(shown)
    early.fold_losses(reported)
    late.fold_losses(reported)  # features that come after their losses are joined to the same records
    late.fold_features(shown)
    for name, array in early.snapshot().arrays.items():
        np.testing.assert_array_equal(array, late.snapshot().arrays[name])


@pytest.mark.parametrize("cut", [0, 1, 40])
def test_one_that_goes_on_from_a_checkpoint_ends_with_the_same_bits(cut: int) -> None:
    whole, first, second = learner(ordered=True), learner(ordered=True), learner(ordered=True)
    teach(whole, range(70))
    teach(first, range(cut))
    arrays, plain = first.state()
    second.load(arrays, plain)
    teach(second, range(cut, 70))
    for found, expected in zip(second.state(), whole.state(), strict=True):
        assert found.keys() == expected.keys()
        for name in expected:
            np.testing.assert_array_equal(found[name], expected[name])


def test_a_loss_that_is_not_finite_changes_nothing_for_the_others() -> None:
    taught = learner()
    teach(taught, range(5))
    ids = np.arange(64)
    shown, reported = batch(5, np.where(ids == 7, np.nan, 1.0), ids)
    taught.fold_features(shown)
    taught.fold_losses(reported)
    assert all(np.isfinite(array).all() for array in taught.snapshot().arrays.values())
    assert taught.losses_quarantined == 1


@pytest.mark.parametrize("value", [0.0, 1e38])
def test_losses_of_any_size_leave_the_weights_finite(value: float) -> None:
    taught = learner()
    for seq in range(30):
        ids = np.random.default_rng(seq).choice(SIZE, 64, replace=False)
        shown, reported = batch(seq, np.where(ids < 5, value, 0.5), ids)
        taught.fold_features(shown)
        taught.fold_losses(reported)
    assert np.isfinite(forecast(taught, np.arange(SIZE), known=True)).all()


def test_a_policy_without_a_model_has_the_ledger_all_the_same() -> None:
    plain = Learner(spec(train_size=SIZE, assistant="none"), AssistantConfig(), ordered=True)
    plain.fold_losses(losses(0, [3, 4], [1.0, 2.0]))
    weights = plain.snapshot()
    assert (weights.version, weights.arrays, weights.mean_loss) == (1, {}, 1.5)
    assert weights.delta["ids"].tolist() == [3, 4]


def test_one_that_is_started_anew_goes_on_with_what_the_batcher_heard() -> None:
    taught = learner()
    teach(taught, range(60))
    taught.tell_all()
    told, another = taught.snapshot(), learner()
    assert another.adopt(told)
    ids = np.arange(SIZE)
    np.testing.assert_array_equal(forecast(another, ids, known=True), forecast(taught, ids, known=True))
    assert (another.mean_loss, another.version) == (pytest.approx(taught.mean_loss), taught.version)
    assert (another.untrained_loss, another.gate.open) == (taught.untrained_loss, taught.gate.open)
    assert not learner().adopt(told.model_copy(update={"arrays": {"w": np.zeros(1, np.float32)}}))
