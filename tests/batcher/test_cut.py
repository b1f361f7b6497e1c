"""Batches of so many padded positions: within the limit, alike in length, the same however they are looked at."""

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planning import Jumpy, keep, plans

from batcher.config import BatcherConfig
from batcher.cut import ByTokens, batch_sizes, expected, make_cuts
from batcher.generator import Generator, Position
from batcher.source import Source
from proto.errors import ConfigError


class Texts:
    """Token ids of the given lengths."""

    def __init__(self, lengths: Any) -> None:
        self.n, self.targets = np.asarray(lengths), np.zeros(len(lengths), int)

    def __len__(self) -> int:
        return len(self.n)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        return np.full(self.n[index], 1 + index), 0

    def lengths(self, ids: Any) -> Any:
        return self.n[ids]


def make(lengths: Any, max_tokens: int, total: int, cls: type[Generator] = Generator, **changes: Any) -> Generator:
    cut = ByTokens(max_tokens, np.asarray(lengths))
    given: dict[str, Any] = {"eval_every": 0, "seed": 3, "select": keep(1.0), "splits": {}}
    return cls(size=len(lengths), total=total, cuts={"train": cut, "test": cut}, **given | changes)


LENGTHS = st.lists(st.integers(1, 12), min_size=3, max_size=60)
P = st.sampled_from([0.0, 0.3, 1.0])


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_batches_stay_within_the_positions_and_add_up_to_the_budget(data: st.DataObject) -> None:
    lengths = np.array(data.draw(LENGTHS, "lengths"))
    max_tokens = int(3 * lengths.max() + data.draw(st.integers(0, 60), "more"))
    total = data.draw(st.integers(2, 150), "total")
    p = data.draw(st.lists(P, min_size=len(lengths), max_size=len(lengths)), "p")
    generator = make(lengths, max_tokens, total, select=keep(p), splits={"test": len(lengths)})
    found = plans(generator)
    training = [plan for plan in found if plan.kind == "train"]
    for plan in found:
        assert len(plan.ids) * lengths[plan.ids].max() <= max_tokens
    assert sum(len(plan.ids) for plan in training) == total
    assert min(len(plan.ids) for plan in training) > 1
    assert max(len(plan.ids) for plan in training) <= generator.cuts["train"].largest  # type: ignore[attr-defined]
    for plan in training:
        assert plan.candidates == len(plan.ids) + len(plan.dropped)
    assert sum(plan.candidates for plan in training) == training[-1].passes * len(lengths) + training[-1].cursor
    assert np.concatenate([plan.ids for plan in found if plan.kind == "test"]).tolist() == list(range(len(lengths)))


@settings(deadline=None)
@given(LENGTHS, P, st.integers(2, 100), st.randoms(use_true_random=False))
def test_where_batches_end_does_not_depend_on_chunk_sizes(lengths: Any, p: float, total: int, random: Random) -> None:
    rates = iter(lambda: random.choice([0.01, 0.05, 0.3, 1.0]), None)
    jumpy: Any = type("Case", (Jumpy,), {"rates": rates})
    case: Any = {"lengths": lengths, "max_tokens": 40, "total": total, "select": keep(max(p, 0.1))}
    for ours, theirs in zip(plans(make(**case)), plans(make(**case, cls=jumpy)), strict=True):
        assert ours.ids.tolist() == theirs.ids.tolist()
        assert ours.dropped.tolist() == theirs.dropped.tolist()
        assert (ours.passes, ours.cursor) == (theirs.passes, theirs.cursor)


def test_a_stream_of_texts_goes_on_from_where_another_one_stood() -> None:
    lengths = np.random.default_rng(0).integers(1, 12, 80)
    case: Any = {"lengths": lengths, "max_tokens": 50, "total": 300, "select": keep(0.5)}
    whole = plans(make(**case))
    batches = done = 0
    for k, plan in enumerate(whole[:-1]):
        batches, done = batches + 1, done + len(plan.ids)
        rest = plans(make(**case, start=Position(plan.passes, plan.cursor, batches, done)))
        assert [a.ids.tolist() for a in rest] == [a.ids.tolist() for a in whole[k + 1 :]]


def test_instances_of_like_length_come_together_in_an_order_that_the_seed_decides() -> None:
    lengths = np.random.default_rng(0).integers(1, 100, 4000)
    found = plans(make(lengths, 1000, 4000))
    padded = sum(len(plan.ids) * lengths[plan.ids].max() for plan in found)
    assert lengths.sum() / padded > 0.9
    assert sorted(np.concatenate([plan.ids for plan in found])) == list(range(4000))
    means = [lengths[plan.ids].mean() for plan in found]
    assert np.corrcoef(means, np.arange(len(means)))[0, 1] < 0.5, "not from short to long"
    again, other = plans(make(lengths, 1000, 4000)), plans(make(lengths, 1000, 4000, seed=4))
    assert [plan.ids.tolist() for plan in again] == [plan.ids.tolist() for plan in found]
    assert [plan.ids.tolist() for plan in other] != [plan.ids.tolist() for plan in found]


def test_about_as_many_batches_come_as_are_expected() -> None:
    lengths = np.random.default_rng(0).integers(1, 100, 4000)
    generator = make(lengths, 1000, 8000)
    number, largest = expected(generator.cuts["train"], 8000, 4000)
    assert number == pytest.approx(len(plans(generator)), rel=0.1)
    assert largest == 1000


def test_sizes_by_count_are_told_beforehand() -> None:
    assert batch_sizes(65, 32) == (2, 33)


class Alike:
    """Instances of one shape."""

    targets = np.zeros(9, int)

    def __len__(self) -> int:
        return 9

    def __getitem__(self, index: int) -> tuple[Any, int]:
        return np.ones(3), 0


@pytest.mark.parametrize(
    ("split", "max_tokens", "text"),
    [
        (Texts([4, 9, 2]), 26, r"= 26: the longest instance of the train split of mine has 9 positions; at least 27"),
        (Alike(), 20, r"offers no lengths; use batcher\.batch_size"),
    ],
)
def test_positions_that_cannot_be_counted_or_are_too_few_are_refused(split: Any, max_tokens: int, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        make_cuts({"train": Source(split, "mine")}, BatcherConfig(max_tokens=max_tokens))
