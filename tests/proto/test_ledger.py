import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proto.ledger import FIELDS, Ledger

SIZE = 6
REPORT = st.lists(st.tuples(st.integers(0, SIZE - 1), st.floats(0, 100, width=32)), min_size=1, max_size=8)


def records(ledger: Ledger) -> list[tuple[float, ...]]:
    return [tuple(getattr(ledger, field)[i].item() for field in FIELDS) for i in range(len(ledger))]


def full(ledger: Ledger) -> dict[str, np.ndarray]:
    ids = np.arange(len(ledger))
    return {"ids": ids, **ledger.take(ids)}


@settings(deadline=None)
@given(st.lists(REPORT, max_size=6))
def test_it_agrees_with_a_plain_dict(reports: list[list[tuple[int, float]]]) -> None:
    ledger = Ledger(SIZE)
    model = {i: (float("nan"), float("nan"), 0, -1) for i in range(SIZE)}
    for step, report in enumerate(reports):
        for i, loss in report:
            model[i] = (loss, model[i][0], model[i][2] + 1, step)
        ids, losses = zip(*report, strict=True)
        ledger.fold(np.array(ids), np.array(losses, np.float32), step)
    np.testing.assert_array_equal(records(ledger), list(model.values()))


@settings(deadline=None)
@given(st.lists(REPORT, min_size=1, max_size=6))
def test_deltas_of_what_changed_make_an_equal_mirror(reports: list[list[tuple[int, float]]]) -> None:
    ledger, mirror = Ledger(SIZE), Ledger(SIZE)
    for step, report in enumerate(reports):
        ids = np.array([i for i, _ in report])
        ledger.fold(ids, np.array([loss for _, loss in report], np.float32), step)
        changed = np.unique(ids)
        mirror.apply({"ids": changed, **ledger.take(changed)})
    np.testing.assert_array_equal(records(mirror), records(ledger))


def test_an_empty_delta_changes_nothing() -> None:
    ledger = Ledger(SIZE)
    none = np.empty(0, np.int64)
    ledger.apply({"ids": none, **ledger.take(none)})
    np.testing.assert_array_equal(records(ledger), records(Ledger(SIZE)))


@pytest.mark.parametrize(
    "change",
    [
        {"ids": np.array([0, 1, 2, 3, 4, SIZE])},
        {"ids": np.array([-1, 1, 2, 3, 4, 5])},
        {"ids": np.arange(SIZE, dtype=np.int32)},
        {"ids": np.arange(SIZE)[:, None]},
        {"ids": np.arange(SIZE - 1)},
        {"last_loss": np.zeros(SIZE)},
        {"last_step": np.zeros(SIZE - 1, np.int64)},
        {"more": np.zeros(SIZE)},
    ],
)
def test_a_delta_that_does_not_fit_changes_nothing(change: dict[str, np.ndarray]) -> None:
    source, ledger = Ledger(SIZE), Ledger(SIZE)
    source.fold(np.arange(SIZE), np.ones(SIZE, np.float32), 3)
    with pytest.raises(ValueError):  # noqa: PT011 - that nothing changed is the point
        ledger.apply({**full(source), **change})
    np.testing.assert_array_equal(records(ledger), records(Ledger(SIZE)))


@pytest.mark.parametrize("field", ["ids", *FIELDS])
def test_a_delta_without_a_field_is_refused(field: str) -> None:
    delta = full(Ledger(SIZE))
    del delta[field]
    with pytest.raises(ValueError, match="every field"):
        Ledger(SIZE).apply(delta)
