import json
from collections.abc import Sequence

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score
from toys import features, losses, spec

from assistant.config import AssistantConfig
from assistant.joiner import WAITING
from assistant.learner import Learner
from proto import scorer
from proto.learning import Features, Losses

RNG = np.random.default_rng(0)


@pytest.fixture
def learner() -> Learner:
    return Learner(spec(feature_dim=2, classes=3), AssistantConfig())


def pair(batch_id: int, ids: list[int], values: list[float], incarnation: int = 0) -> tuple[Features, Losses]:
    """Features and losses of one batch."""
    shown = features(batch_id, ids, np.arange(2 * len(ids)).reshape(-1, 2), np.zeros(len(ids)), incarnation)
    return shown, losses(batch_id, ids, values, incarnation=incarnation)


def fold(learner: Learner, messages: tuple[Features, Losses]) -> None:
    learner.fold_features(messages[0])
    learner.fold_losses(messages[1])


def learned(learner: Learner) -> bool:
    return any(array.any() for array in learner.snapshot().arrays.values())


def test_the_mean_is_a_running_one_over_reports(learner: Learner) -> None:
    for batch_id, values in enumerate([[2.0, 4.0], [7.0], [1.0, 1.0, 1.0]]):
        learner.fold_losses(losses(batch_id, range(len(values)), values))
    assert learner.mean_loss == pytest.approx(0.75 * (0.75 * 3 + 0.25 * 7) + 0.25 * 1)


def test_confidence_is_a_running_one_over_the_accuracy_of_predictions_made_before(learner: Learner) -> None:
    # Untrained, q = 1/2 says "below the mean" for all: right for 3 of 4.
    fold(learner, pair(0, [0, 1, 2, 3], [0.0, 0.0, 0.0, 4.0]))
    assert learner.confidence == pytest.approx(0.05 * 0.75)
    shown, reported = pair(1, [0, 1], [9.0, 9.0])
    q = scorer.score(learner.snapshot().arrays, shown.features, shown.labels)
    learner.fold_features(shown)
    learner.fold_losses(reported)
    accuracy = ((q > 0.5) == (reported.losses > learner.mean_loss)).mean()
    assert learner.confidence == pytest.approx(0.95 * 0.05 * 0.75 + 0.05 * accuracy)


def test_one_step_is_one_of_logistic_regression(learner: Learner) -> None:
    x, y = RNG.normal(size=(4, 2)).astype(np.float16), np.array([0, 1, 1, 7])
    learner.fold_features(features(0, range(4), x, y))
    learner.fold_losses(losses(0, range(4), [1, 5, 1, 1]))  # their mean is 2: only the second is above
    slope = (0.5 - np.array([0, 1, 0, 0])) / 4
    arrays = learner.snapshot().arrays
    np.testing.assert_allclose(arrays["w"], -x.T @ slope, atol=1e-6)
    np.testing.assert_allclose(arrays["u"], [-slope[0], -slope[1] - slope[2], 0], atol=1e-6)
    np.testing.assert_allclose(arrays["b"], [-slope.sum()], atol=1e-6)


@pytest.mark.parametrize("features_first", [True, False])
def test_it_learns_whichever_half_arrives_first(learner: Learner, features_first: bool) -> None:
    shown, reported = pair(5, [1, 2], [0.0, 1.0])
    if features_first:
        learner.fold_features(shown)
        assert not learned(learner)
        learner.fold_losses(reported)
    else:
        learner.fold_losses(reported)
        assert learner.metrics()["reports_unlearned"] == 1
        learner.fold_features(shown)
    assert learned(learner)
    assert learner.metrics()["reports_unlearned"] == 0


def test_batches_of_another_incarnation_are_not_joined(learner: Learner) -> None:
    learner.fold_features(pair(5, [1, 2], [0.0, 1.0], incarnation=1)[0])
    learner.fold_losses(pair(5, [1, 2], [0.0, 1.0], incarnation=2)[1])
    assert not learned(learner)


def test_what_waits_for_its_other_half_is_bounded(learner: Learner) -> None:
    surplus = 10
    for batch_id in range(WAITING + surplus):
        learner.fold_features(pair(batch_id, [0], [1.0], incarnation=1)[0])
        learner.fold_losses(pair(batch_id, [0], [1.0], incarnation=2)[1])
    assert (len(learner._joiner._features), len(learner._joiner._reports)) == (WAITING, WAITING)
    assert learner.metrics()["reports_unlearned"] == WAITING + surplus
    # The oldest were given up, the newest still wait.
    learner.fold_features(pair(0, [0], [1.0], incarnation=2)[0])
    assert not learned(learner)
    learner.fold_features(pair(WAITING + surplus - 1, [0], [1.0], incarnation=2)[0])
    assert learned(learner)


def test_halves_that_name_different_instances_are_not_learned_from(learner: Learner) -> None:
    learner.fold_features(pair(5, [1, 2], [0.0, 1.0])[0])
    learner.fold_losses(pair(5, [2, 1], [0.0, 1.0])[1])
    assert not learned(learner)
    assert learner.metrics()["reports_unlearned"] == 1
    assert learner.ledger.last_loss[[1, 2]].tolist() == [1.0, 0.0]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_loss_that_is_not_finite_is_quarantined_and_the_others_folded(learner: Learner, bad: float) -> None:
    fold(learner, pair(0, [7, 8, 9], [1.0, bad, 3.0]))
    metrics = learner.metrics()
    assert metrics["losses_quarantined"] == 1
    assert metrics["quarantined_ids"] == (8,)
    assert learner.mean_loss == 2.0
    assert learner.ledger.last_loss[[7, 9]].tolist() == [1.0, 3.0]
    assert np.isnan(learner.ledger.last_loss[8])
    assert learner.ledger.times_trained[[7, 8, 9]].tolist() == [1, 0, 1]
    assert learner.snapshot().delta["ids"].tolist() == [7, 9]
    assert learned(learner)
    assert all(np.isfinite(array).all() for array in learner.snapshot().arrays.values())


def test_a_report_of_nothing_finite_leaves_the_mean_to_the_next(learner: Learner) -> None:
    learner.fold_losses(losses(0, [1, 2], [np.nan, np.inf]))
    learner.fold_losses(losses(1, [3], [4.0]))
    assert learner.mean_loss == 4.0
    assert learner.losses_quarantined == 2


@pytest.mark.parametrize("ids", [[], [-1], [100], [5, 2**40]])
def test_a_report_with_ids_outside_the_data_set_is_refused_whole(learner: Learner, ids: list[int]) -> None:
    learner.fold_losses(losses(0, ids, np.ones(len(ids))))
    assert learner.metrics()["reports_refused"] == 1
    assert not learner.ledger.times_trained.any()
    assert learner.mean_loss == 0


@pytest.mark.parametrize("matrix", [np.ones((2, 3)), np.full((2, 2), np.nan), np.full((2, 2), np.inf)])
def test_features_that_do_not_fit_are_counted_and_never_learned_from(learner: Learner, matrix: np.ndarray) -> None:
    learner.fold_losses(losses(0, [1, 2], [0.0, 1.0]))
    learner.fold_features(features(0, [1, 2], matrix, [0, 0]))
    assert learner.metrics()["features_refused"] == 1
    assert not learned(learner)


def test_a_delta_has_what_changed_since_the_last_one_that_was_published(learner: Learner) -> None:
    learner.fold_losses(losses(0, [4, 2], [1.0, 2.0]))
    assert learner.snapshot().delta["ids"].tolist() == [2, 4]
    learner.fold_losses(losses(1, [9], [3.0]))
    postponed = learner.snapshot()
    assert postponed.delta["ids"].tolist() == [2, 4, 9]
    learner.published()
    assert learner.snapshot().delta["ids"].tolist() == []
    assert learner.snapshot().delta_number == postponed.delta_number + 1


def test_an_instance_trained_twice_before_it_is_told_of_is_told_once(learner: Learner) -> None:
    learner.fold_losses(losses(0, [4, 2, 7], [1.0, 2.0, np.nan]))
    learner.fold_losses(losses(1, [4, 1], [3.0, 5.0]))
    delta = learner.snapshot().delta
    assert delta["ids"].tolist() == [1, 2, 4]
    assert delta["last_loss"].tolist() == [5.0, 2.0, 3.0]
    learner.tell_all()
    learner.fold_losses(losses(2, [2], [1.0]))
    assert learner.snapshot().delta["ids"].tolist() == [1, 2, 4]


def test_a_snapshot_does_not_change_with_what_is_learned_later(learner: Learner) -> None:
    before = learner.snapshot()
    copies = {name: array.copy() for name, array in before.arrays.items()}
    fold(learner, pair(0, [1, 2], [0.0, 1.0]))
    for name, array in before.arrays.items():
        np.testing.assert_array_equal(array, copies[name])


def test_versions_count_reports_and_name_the_newest_step(learner: Learner) -> None:
    for batch_id, step in enumerate([3, 9, 5]):
        learner.fold_losses(losses(batch_id, [1], [1.0], step=step))
    snapshot = learner.snapshot()
    assert (snapshot.version, snapshot.step) == (3, 9)


def messages(n: int) -> list[Features | Losses]:
    """Features and losses of n batches of 8, each before its losses."""
    found: list[Features | Losses] = []
    for batch_id in range(n):
        ids = RNG.choice(100, 8, replace=False)
        found.append(features(batch_id, ids, RNG.normal(size=(8, 2)), ids % 3))
        found.append(losses(batch_id, ids, RNG.gamma(2, size=8)))
    return found


def take(learner: Learner, given: Sequence[Features | Losses]) -> None:
    for message in given:
        if isinstance(message, Features):
            learner.fold_features(message)
        else:
            learner.fold_losses(message)


def everything(learner: Learner) -> dict[str, bytes]:
    arrays, plain = learner.state()
    return {name: array.tobytes() for name, array in arrays.items()} | {"plain": repr(plain).encode()}


def test_in_order_what_is_learned_does_not_depend_on_what_arrives_first() -> None:
    given = messages(12)
    late_features, late_losses, mixed = (
        Learner(spec(feature_dim=2), AssistantConfig(), ordered=True) for _ in range(3)
    )
    take(late_features, given[1::2] + given[::2])
    take(late_losses, given[::2] + given[1::2])
    take(mixed, given)
    assert everything(late_features) == everything(late_losses) == everything(mixed)
    assert mixed.version == 12


def test_in_order_each_report_makes_a_version() -> None:
    learner = Learner(spec(feature_dim=2), AssistantConfig(), ordered=True)
    versions = []
    learner.on_version = lambda: versions.append(learner.version)
    given = messages(4)
    take(learner, given[1::2])
    assert versions == []
    take(learner, given[::2])
    assert versions == [1, 2, 3, 4]


@pytest.mark.parametrize("ordered", [True, False])
def test_a_learner_that_takes_over_a_state_goes_on_as_the_old_one(ordered: bool) -> None:
    given = messages(12)
    old, new = (Learner(spec(feature_dim=2), AssistantConfig(), ordered=ordered) for _ in range(2))
    take(old, given[:12])
    arrays, plain = old.state()
    new.load(arrays, json.loads(json.dumps(plain)))
    before = everything(new)
    take(old, given[12:])
    assert everything(new) == before, "the two share no memory"
    take(new, given[12:])
    new.deltas = old.deltas  # the new one counts its deltas to the Batcher from 0
    assert everything(new) == everything(old)


@pytest.mark.parametrize("tell", ["features", "label"])
def test_a_hard_half_gets_the_higher_q(tell: str) -> None:
    size, dim = 1000, 16
    hard = np.arange(size) % 2 == 1
    x = RNG.normal(size=(size, dim)) / dim**0.5
    y = np.zeros(size, int)
    if tell == "features":
        x[hard, 0] += 1
        x[~hard, 0] -= 1
        x /= 2**0.5
    else:
        y = hard.astype(int)
    values = np.where(hard, 2.0, 0.1) * RNG.gamma(4, 0.25, size)
    learner = Learner(spec(train_size=size, feature_dim=dim, classes=2), AssistantConfig(window=1000))
    for batch_id in range(150):
        ids = RNG.choice(size, 32, replace=False)
        learner.fold_features(features(batch_id, ids, x[ids], y[ids]))
        learner.fold_losses(losses(batch_id, ids, values[ids]))
    q = scorer.score(learner.snapshot().arrays, x.astype(np.float32), y)
    assert q[hard].mean() > q[~hard].mean() + 0.3
    assert roc_auc_score(hard, q) > 0.9
    metrics = learner.metrics()
    assert isinstance(metrics["auc"], float)
    assert isinstance(metrics["accuracy"], float)
    assert metrics["auc"] > 0.8
    assert metrics["accuracy"] > 0.7
    assert learner.confidence > 0.7


def test_accuracy_and_auc_look_back_over_the_window_only() -> None:
    learner = Learner(spec(feature_dim=1, classes=1), AssistantConfig(window=6, lr=1e-9))
    above = [0, 0, 0, 0, 0, 1]  # of each batch but the first few: q stays 1/2, "not above" is right for 5 of 6
    for batch_id in range(10):
        values = [float(v) * 5 for v in above] if batch_id >= 8 else [0.0] * 6
        learner.fold_features(features(batch_id, range(6), np.zeros((6, 1)), np.zeros(6)))
        learner.fold_losses(losses(batch_id, range(6), values))
    assert learner.metrics()["accuracy"] == pytest.approx(5 / 6)
    assert learner.metrics()["auc"] == pytest.approx(0.5)
