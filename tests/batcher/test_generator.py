from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from planning import Jumpy, keep, plans

from batcher.cut import ByCount, batch_sizes
from batcher.generator import Generator, Plan, Position
from batcher.walk import Shuffled
from proto.types import Float32s, Int64s


def make(cls: type[Generator] = Generator, p: float | Sequence[float] = 1.0, **changes: Any) -> Generator:
    given: dict[str, Any] = {
        "size": 100, "splits": {}, "total": 250, "eval_every": 0, "seed": 3, "select": keep(p),
    }  # fmt: skip
    cut = ByCount(changes.pop("batch_size", 32))
    return cls(**{**given, "cuts": dict.fromkeys(("train", "validation", "test"), cut), **changes})


def trained(found: Sequence[Plan]) -> list[int]:
    return [i for plan in found if plan.kind == "train" for i in plan.ids.tolist()]


@pytest.mark.parametrize("p", [1.0, 0.3])
def test_the_batch_size_does_not_change_the_sequence_of_trained_ids(p: float) -> None:
    assert trained(plans(make(p=p, batch_size=32))) == trained(plans(make(p=p, batch_size=48)))


def test_banned_instances_are_not_kept_and_to_ban_them_draws_no_order_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[int] = []
    begin = Shuffled.begin
    monkeypatch.setattr(Shuffled, "begin", lambda walk, passes: (drawn.append(passes), begin(walk, passes)))
    generator, bad = make(total=60, batch_size=20), list[int]()
    while len(bad) < 6:
        before, plan = generator.position, generator.next()
        assert plan is not None
        bad += plan.ids[[0, -1]].tolist()
        generator.ban(bad[-2:])
        generator.go_to(before)
    assert generator.banned == 6
    assert not set(bad) & set(trained(plans(generator)))
    assert drawn == [0]


def test_of_a_stream_nothing_behind_is_banned() -> None:
    generator = make(total=10_000, batch_size=20, in_order=True)
    for k in range(100):
        before = generator.position
        for bad in (0, -1):  # two of one batch, found one after the other
            plan = generator.next()
            assert plan is not None
            generator.ban([int(plan.ids[bad])])
            generator.go_to(before)
        plan = generator.next()
        assert plan is not None
        assert len(plan.ids) == 20
        assert plan.ids[0] == 22 * k + 1, "the first of 22 was banned"
        assert generator.banned == 2


def test_every_id_comes_exactly_once_per_pass_in_another_order_each_time() -> None:
    ids = np.array(trained(plans(make(total=300)))).reshape(3, 100)
    np.testing.assert_array_equal(np.sort(ids), np.tile(np.arange(100), (3, 1)))
    assert len({row.tobytes() for row in ids}) == 3


def test_the_seed_decides_the_order_and_the_coins() -> None:
    assert trained(plans(make(p=0.5, seed=1))) == trained(plans(make(p=0.5, seed=1)))
    assert trained(plans(make(p=0.5, seed=1))) != trained(plans(make(p=0.5, seed=2)))


def test_order_and_coins_of_a_pass_are_independent() -> None:
    firsts = [make(p=0.5, size=1000, total=1, batch_size=1, seed=seed).next() for seed in range(300)]
    skipped = [plan.cursor - 1 for plan in firsts if plan is not None]
    assert np.mean(skipped) == pytest.approx(1, abs=0.3)  # a fair coin is wrong once on average before it is right


def test_batches_straddle_passes_and_say_where_they_end() -> None:
    found = plans(make(size=50, total=100))
    assert [(plan.passes, plan.cursor) for plan in found] == [(0, 32), (1, 14), (1, 46), (1, 50)]
    assert len(set(found[1].ids[:18].tolist()) & set(found[0].ids.tolist())) == 0


@pytest.mark.parametrize(
    ("total", "sizes"),
    [(64, [32, 32]), (65, [32, 33]), (66, [32, 32, 2]), (33, [33]), (32, [32]), (31, [31]), (1, [1]), (2, [2])],
)
def test_a_remainder_of_one_joins_its_predecessor(total: int, sizes: list[int]) -> None:
    found = plans(make(total=total))
    assert [len(plan.ids) for plan in found] == sizes
    assert [plan.last for plan in found] == [False] * (len(sizes) - 1) + [True]
    assert batch_sizes(total, 32) == (len(sizes), max(sizes))


def test_batches_of_one_are_made_only_where_they_are_asked_for() -> None:
    assert [len(plan.ids) for plan in plans(make(batch_size=1, total=3))] == [1, 1, 1]


def test_instance_weights_are_those_of_the_rule() -> None:
    for plan in plans(make(p=0.5)):
        assert plan.weights.tolist() == plan.ids.tolist()


def test_the_rule_is_told_where_the_run_stands() -> None:
    seen = []

    def select(ids: Int64s, trained: int, total: int, passes: int) -> tuple[Float32s, Float32s]:
        seen.append((trained, total, passes))
        return np.ones(len(ids), np.float32), np.ones(len(ids), np.float32)

    plans(make(select=select, size=40, total=96))
    assert seen == [(32, 96, 0), (64, 96, 0), (64, 96, 1), (96, 96, 1), (96, 96, 2)]


def expected_kinds(sizes: Sequence[int], splits: dict[str, int], eval_every: int, batch_size: int) -> list[str]:
    """The kinds of all plans, told from the training batches' sizes alone."""
    kinds, before, total = [], 0, sum(sizes)
    for size in sizes:
        kinds.append("train")
        now = before + size
        if now == total or (eval_every and any(n % eval_every == 0 for n in range(before + 1, now + 1))):
            kinds += [kind for kind, n in splits.items() for _ in range(-(-n // batch_size))]
        before = now
    return kinds


P = st.sampled_from([0.0, 0.05, 0.5, 1.0])


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_the_plans_add_up(data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 40), "size")
    batch_size = data.draw(st.integers(1, size), "batch size")
    total = data.draw(st.integers(1, 150), "total")
    eval_every = data.draw(st.integers(0, 60), "eval every")
    splits = data.draw(st.dictionaries(st.sampled_from(["validation", "test"]), st.integers(1, 50)), "splits")
    p = data.draw(st.lists(P, min_size=size, max_size=size), "p")
    found = plans(make(p=p, size=size, batch_size=batch_size, total=total, eval_every=eval_every, splits=splits))

    training = [plan for plan in found if plan.kind == "train"]
    sizes = [len(plan.ids) for plan in training]
    assert sum(sizes) == total
    assert (len(sizes), max(sizes)) == batch_sizes(total, batch_size)
    assert min(sizes) > 1 or batch_size == 1 or total == 1
    for plan in training:
        assert plan.candidates == len(plan.ids) + len(plan.dropped)
    considered = sum(plan.candidates for plan in training)
    assert considered == training[-1].passes * size + training[-1].cursor

    assert [plan.kind for plan in found] == expected_kinds(sizes, splits, eval_every, batch_size)
    for kind, n in splits.items():
        of_kind = [plan for plan in found if plan.kind == kind]
        ids = np.concatenate([plan.ids for plan in of_kind])
        np.testing.assert_array_equal(ids, np.tile(np.arange(n), len(ids) // n))
        assert [plan.last for plan in of_kind] == [plan.ids[-1] == n - 1 for plan in of_kind]


def compare_chunk_sizes(p: list[float], batch_size: int, total: int, random: Random) -> None:
    rates = iter(lambda: random.choice([0.01, 0.05, 0.3, 1.0]), None)
    case = {"p": p, "size": len(p), "batch_size": min(batch_size, len(p)), "total": total}
    jumpy = make(type("Case", (Jumpy,), {"rates": rates}), **case)
    for ours, theirs in zip(plans(make(**case)), plans(jumpy), strict=True):
        assert ours.ids.tolist() == theirs.ids.tolist()
        assert ours.dropped.tolist() == theirs.dropped.tolist()
        assert (ours.passes, ours.cursor) == (theirs.passes, theirs.cursor)


def chunk_cases(p: Any) -> Any:
    return st.tuples(p, st.integers(1, 20), st.integers(1, 60), st.randoms(use_true_random=False))


@settings(deadline=None)
@given(chunk_cases(st.lists(st.sampled_from([0.5, 0.8, 1.0]), min_size=20, max_size=60)))
def test_what_is_kept_does_not_depend_on_chunk_sizes(case: Any) -> None:
    compare_chunk_sizes(*case)


@settings(deadline=None)
@given(chunk_cases(st.lists(P, min_size=1, max_size=40)))
@example(([0.0] * 40, 20, 60, Random(0)))
def test_what_is_kept_does_not_depend_on_chunk_sizes_even_where_nothing_is_kept(case: Any) -> None:
    compare_chunk_sizes(*case)


@pytest.mark.parametrize("p", [0.0, -1.0, float("nan")])
def test_a_rule_that_keeps_nothing_makes_neither_an_endless_loop_nor_an_empty_batch(p: float) -> None:
    generator = make(p=p, size=50, total=200)
    found = plans(generator)
    assert [len(plan.ids) for plan in found] == [32] * 6 + [8]
    assert generator.forced == 200
    assert max(plan.candidates for plan in found) <= 3 * 50


def test_nothing_is_forced_while_the_rule_keeps_something() -> None:
    generator = make(p=[1.0] * 5 + [0.0] * 95, total=50, batch_size=4)
    assert set(trained(plans(generator))) == set(range(5))
    assert generator.forced == 0


def test_a_stream_goes_on_from_where_another_one_stood() -> None:
    case = {"p": 0.4, "size": 50, "total": 200, "splits": {"test": 40}, "eval_every": 60}
    whole = plans(make(**case))
    batches = done = evaluated = 0
    for k, plan in enumerate(whole[:-1]):
        if plan.kind == "train":
            batches, done = batches + 1, done + len(plan.ids)
        elif plan.last:
            evaluated = done
        else:
            continue  # inside an evaluation there is no position to go on from
        rest = plans(make(**case, start=Position(plan.passes, plan.cursor, batches, done, evaluated)))
        assert [(a.kind, a.ids.tolist()) for a in rest] == [(a.kind, a.ids.tolist()) for a in whole[k + 1 :]]


def test_a_split_that_is_left_to_the_end_is_planned_there_alone() -> None:
    found = plans(make(splits={"validation": 10, "test": 20}, eval_every=100, at_end=("test",)))
    assert [plan.kind for plan in found if plan.kind != "train"] == ["validation"] * 3 + ["test"]
    assert found[-1].kind == "test"
