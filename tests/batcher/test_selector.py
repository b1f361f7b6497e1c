import math
from typing import Any

import numpy as np
import pytest
from toys import numbered, weights

from batcher.features import FeatureStore
from batcher.policies import Assist, AutoAssist
from batcher.selector import Selector
from batcher.source import Source
from proto import scorer
from proto.errors import ConfigError
from proto.learning import Weights
from proto.ledger import Ledger

SIZE, DIM, CLASSES = 12, 6, 3


@pytest.fixture
def selector() -> Selector:
    store = FeatureStore(Source(numbered(SIZE).train, "toy"), 256, 0)
    return Selector(store, AutoAssist(0.0), CLASSES)


def snapshot(version: int, delta_number: int, ids: list[int] | None = None, **changes: Any) -> Weights:
    """Snapshot `version`, all of its numbers made from it."""
    arrays = {name: array + version for name, array in scorer.initial("above", DIM, CLASSES).items()}
    source = Ledger(SIZE)
    source.fold(np.arange(SIZE), np.full(SIZE, version, np.float32), version)
    changed = np.array([version] if ids is None else ids)
    fields: dict[str, Any] = {
        "step": version * 10, "arrays": arrays, "mean_loss": float(version),
        "confidence": 1.0, "delta_number": delta_number,
        "delta": {"ids": changed, **source.take(np.clip(changed, 0, SIZE - 1))},
    }  # fmt: skip
    return weights(version, **fields | changes)


def state(selector: Selector) -> list[Any]:
    ids = np.arange(SIZE)
    ledger = {field: values.tolist() for field, values in selector.ledger.take(ids).items()}
    p, w = selector.select(ids, 0, 100, 1)
    progress = [selector.version, selector.version_step, selector.mean_loss, selector.confidence]
    return [repr(ledger), p.tolist(), w.tolist(), progress]


def test_a_snapshot_is_taken_over_whole(selector: Selector) -> None:
    selector.fold(snapshot(1, 0))
    assert (selector.version, selector.version_step) == (1, 10)
    assert (selector.mean_loss, selector.confidence) == (1.0, 1.0)
    assert selector.ledger.last_loss[1] == 1.0
    assert np.isnan(selector.ledger.last_loss[0])
    ids = np.arange(SIZE)
    features, labels, _ = selector.store.get(ids)
    np.testing.assert_allclose(
        selector.select(ids, 0, 100, 1)[0], scorer.score(snapshot(1, 0).arrays, features, labels), atol=1e-6
    )


def test_versions_may_be_left_out_but_deltas_may_not(selector: Selector) -> None:
    selector.fold(snapshot(1, 0))
    selector.fold(snapshot(7, 1))
    assert (selector.version, selector.weights_refused) == (7, 0)
    selector.fold(snapshot(8, 3))
    assert (selector.version, selector.weights_refused) == (7, 1)


INITIAL = scorer.initial("above", DIM, CLASSES)
REFUSED: dict[str, dict[str, Any]] = {
    "older": {"version": 2},
    "skipped delta": {"delta_number": 2},
    "repeated delta": {"delta_number": 0},
    "no such array": {"arrays": {**INITIAL, "more": INITIAL["b"]}},
    "missing array": {"arrays": {"w": INITIAL["w"], "u": INITIAL["u"]}},
    "other shape": {"arrays": {**INITIAL, "w": np.zeros(DIM + 1, np.float32)}},
    "other dtype": {"arrays": {**INITIAL, "w": np.zeros(DIM, np.float64)}},
    "nan": {"arrays": {**INITIAL, "w": np.full(DIM, np.nan, np.float32)}},
    "infinite": {"arrays": {**INITIAL, "b": np.full(1, np.inf, np.float32)}},
    "ledger without fields": {"delta": {"ids": np.array([1])}},
    "nan confidence": {"confidence": math.nan},
    "confidence above 1": {"confidence": 1.5},
    "infinite mean": {"mean_loss": math.inf},
}


@pytest.mark.parametrize("changes", REFUSED.values(), ids=REFUSED)
def test_weights_that_do_not_fit_change_nothing_and_are_counted(selector: Selector, changes: dict[str, Any]) -> None:
    selector.fold(snapshot(3, 0))
    before = state(selector)
    try:
        refused = snapshot(**{"version": 4, "delta_number": 1, **changes})
    except ValueError:
        return  # it cannot even be made, so it cannot arrive
    selector.fold(refused)
    assert state(selector) == before
    assert selector.weights_refused == 1
    selector.fold(snapshot(5, 1))
    assert selector.version == 5, "the next one that fits is taken"


def test_of_weights_refused_in_a_row_the_first_is_logged(selector: Selector, caplog: pytest.LogCaptureFixture) -> None:
    for first in (1, 101):
        for version in range(first, first + 50):
            selector.fold(snapshot(version, 99, ids=[1]))
        selector.fold(snapshot(first + 99, 0, ids=[1], full=True))
    assert selector.weights_refused == 100
    assert [record.args[0] for record in caplog.records if "refused" in record.msg] == [1, 101]


@pytest.mark.parametrize("bad", [-1, SIZE, 2**40])
def test_ledger_ids_out_of_range_change_nothing_and_are_counted(selector: Selector, bad: int) -> None:
    selector.fold(snapshot(3, 0))
    before = state(selector)
    selector.fold(snapshot(4, 1, ids=[1, bad]))
    assert state(selector) == before
    assert selector.weights_refused == 1


def test_the_arrays_are_copied(selector: Selector) -> None:
    # Those of a message are views of its frame, which they would keep alive.
    sent = snapshot(1, 0)
    selector.fold(sent)
    before = state(selector)
    sent.arrays["w"][:] = 99
    assert state(selector) == before


def test_the_policy_is_told_the_progress(selector: Selector) -> None:
    seen = []

    def policy(candidates: Any) -> Any:
        seen.append(candidates.progress)
        return np.ones(len(candidates), np.float32), np.ones(len(candidates), np.float32)

    selector.policy = policy
    selector.fold(snapshot(2, 0))
    selector.select(np.array([5]), 40, 100, 3)
    [progress] = seen
    assert (progress.trained, progress.total, progress.passes) == (40, 100, 3)
    assert (progress.mean_loss, progress.confidence) == (2.0, 1.0)


def nothing_but_p(candidates: Any) -> Any:
    return np.ones(len(candidates), np.float32)


def shape_of_three(candidates: Any) -> Any:
    return np.ones(3), np.ones(3)


def p_not_finite(candidates: Any) -> Any:
    return np.full(len(candidates), np.nan), np.ones(len(candidates))


def p_in_percent(candidates: Any) -> Any:
    return np.full(len(candidates), 50), np.ones(len(candidates))


def w_below_zero(candidates: Any) -> Any:
    return np.ones(len(candidates)), np.full(len(candidates), -0.5)


def misspelt(candidates: Any) -> Any:
    return candidates.last_los


@pytest.mark.parametrize(
    ("policy", "problem"),
    [
        (nothing_but_p, r"raises ValueError: .*; needed: p and w, float32 \[n\] each"),
        (shape_of_three, r"returned p with shape \[3\] for 4 candidates; needed: finite float32 \[n\]"),
        (p_not_finite, "returned p with one that is not finite for 4 candidates"),
        (p_in_percent, r"returned p = 50 for 4 candidates; needed: finite float32 \[n\], from 0 to 1"),
        (w_below_zero, r"returned w = -0\.5 for 4 candidates; needed: finite float32 \[n\], 0 or more"),
        (misspelt, "raises AttributeError: 'Candidates' object has no attribute 'last_los'"),
    ],
)
def test_a_policy_that_does_not_answer_is_named_before_training(policy: Any, problem: str) -> None:
    store = FeatureStore(Source(numbered(SIZE).train, "toy"), 256, 0)
    with pytest.raises(ConfigError, match=rf"^policy\.name = './mine\.py:Mine': {problem}"):
        Selector(store, policy, CLASSES, name="./mine.py:Mine").try_out()


def test_rounding_may_take_p_a_little_above_1() -> None:
    def rounded(candidates: Any) -> Any:
        return np.full(len(candidates), 1 + 1e-6), np.ones(len(candidates))

    selector = Selector(FeatureStore(Source(numbered(SIZE).train, "toy"), 256, 0), rounded, CLASSES)
    p, _ = selector.select(np.arange(3), 0, SIZE, 0)
    assert (p == 1).all()
    assert selector.histogram.sum() == 3


def gated(selecting: float) -> Selector:
    store = FeatureStore(Source(numbered(SIZE).train, "toy"), 256, 0)
    selector = Selector(store, Assist(0.1, alpha=0.5), CLASSES)
    arrays = scorer.initial("loss", store.dim, CLASSES)
    arrays["b3"][:] = -2  # all losses are predicted far below the mean
    selector.fold(weights(1, arrays=arrays, selecting=selecting, mean_loss=1.0))
    return selector


COINS = np.array([0.05, 0.5, 0.9])


def test_behind_a_closed_gate_all_are_kept_and_all_are_the_sample() -> None:
    selector, ids = gated(0.0), np.array([2, 5, 7])
    p, w = selector.select(ids, 8, 100, 0)
    assert p.tolist() == w.tolist() == [1.0] * 3
    wanted = selector.wanted(ids, COINS)
    assert ((wanted > 0.1) & (wanted < 0.5)).all(), "what the policy wants, not what the gate made of it"
    np.testing.assert_array_equal(wanted, gated(1.0).select(ids, 8, 100, 0)[0])


def test_behind_an_open_one_the_policy_decides_and_the_base_coin_makes_the_sample() -> None:
    selector, ids = gated(1.0), np.array([2, 5, 7])
    p, w = selector.select(ids, 8, 100, 0)
    assert p.max() < 0.5
    assert w.min() > 1
    assert np.isnan(selector.wanted(ids, COINS)).tolist() == [False, True, True]
    assert selector.histogram.sum() == 3


def test_while_it_opens_the_policy_decides_in_part() -> None:
    ids = np.array([2, 5, 7])
    (p, w), (whole_p, whole_w) = (gated(share).select(ids, 8, 100, 0) for share in (0.25, 1.0))
    np.testing.assert_allclose(p, 1 - 0.25 * (1 - whole_p), rtol=1e-6)
    np.testing.assert_allclose(w, 1 + 0.25 * (whole_w - 1), rtol=1e-6)
    halfway = gated(0.25)
    halfway.select(ids, 8, 100, 0)
    np.testing.assert_array_equal(halfway.wanted(ids, np.zeros(3)), whole_p)


def test_a_starved_boss_gets_batches_that_are_not_chosen() -> None:
    selector, ids = gated(1.0), np.array([2, 5, 7])
    selector.starved = True
    assert selector.select(ids, 8, 100, 0)[0].tolist() == [1.0] * 3
    assert np.isnan(selector.wanted(ids, COINS)).all()


def test_a_policy_without_a_base_is_not_gated(selector: Selector) -> None:
    selector.fold(snapshot(2, 0))
    assert not selector.selecting
    assert selector.select(np.arange(SIZE), 8, 100, 1)[0].min() < 1
    assert np.isnan(selector.wanted(np.arange(3), COINS)).all()
