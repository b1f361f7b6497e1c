"""What comes out when: the joiner alone, without a learner."""

import numpy as np
import pytest
from toys import features, losses, spec

from assistant.joiner import Joiner


def joiner(*, ordered: bool = False, learns: bool = True) -> Joiner:
    return Joiner(spec(feature_dim=2), ordered=ordered, learns=learns)


def half(batch_id: int, ids: list[int] | None = None, incarnation: int = 0):
    ids = ids or [batch_id]
    return features(batch_id, ids, np.ones((len(ids), 2)), np.zeros(len(ids)), incarnation)


def other(batch_id: int, ids: list[int] | None = None, value: float = 1.0, incarnation: int = 0):
    ids = ids or [batch_id]
    return losses(batch_id, ids, [value] * len(ids), incarnation=incarnation)


def shown(joined) -> list[tuple[int, bool]]:
    """Batch ids, and whether they came with features."""
    return [(report.losses.batch_id, found is not None) for report, found in joined]


def test_late_features_bring_the_same_report_a_second_time() -> None:
    made = joiner()
    [(first, found)] = made.losses(other(0))
    assert found is None
    first.records = {}
    [(second, found)] = made.features(half(0))
    assert second is first
    assert found is not None
    assert list(made.features(half(0))) == []


def test_in_order_a_gap_holds_back_what_comes_after_it() -> None:
    made = joiner(ordered=True)
    for batch_id in (0, 1, 2):
        assert shown(made.losses(other(batch_id))) == []
    assert shown(made.features(half(1))) == []
    assert made.waits
    assert shown(made.features(half(0))) == [(0, True), (1, True)]
    assert shown(made.features(half(0))) == []  # a copy
    assert made.metrics() == {"reports_refused": 0, "reports_unlearned": 1, "features_refused": 1}


def test_in_order_a_report_that_teaches_nothing_takes_its_turn() -> None:
    made = joiner(ordered=True)
    for message in (other(0), other(1, value=np.nan), other(2)):
        assert shown(made.losses(message)) == []
    assert shown(made.features(half(0, [7]))) == [(0, False)]
    assert shown(made.features(half(1))) == [(1, False)]
    assert shown(made.features(half(2))) == [(2, True)]
    assert made.reports_unlearned == 2


@pytest.mark.parametrize("ordered", [True, False])
def test_copies_and_batches_that_are_too_large_are_refused(ordered: bool) -> None:
    made = joiner(ordered=ordered)
    list(made.features(half(5, incarnation=1)))
    assert shown(made.losses(other(5, incarnation=1))) == [(5, True)]
    assert shown(made.losses(other(5, incarnation=1))) == []
    assert shown(made.losses(other(9))) == []  # of a Batcher that is dead
    large = list(range(spec().max_batch + 1))
    assert shown(made.losses(other(6, large, incarnation=1))) == []
    assert shown(made.features(half(6, large, incarnation=1))) == []
    assert made.metrics() == {"reports_refused": 3, "reports_unlearned": 0, "features_refused": 1}


def test_where_nothing_is_learned_no_features_are_waited_for() -> None:
    made = joiner(ordered=True, learns=False)
    assert shown(made.losses(other(3))) == [(3, False)]
    assert not made.waits
