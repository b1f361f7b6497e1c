from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiring import tiring
from toys import batches, lend, numbered, opened

from batcher.config import BatcherConfig, PolicyConfig
from batcher.core import BatcherCore
from batcher.datasets.arrays import ArraySplit
from batcher.plugin import Data
from batcher.policies import Candidates
from proto.batches import Batch, End
from proto.config import RunConfig
from proto.errors import ConfigError


def coin(p: float) -> Any:
    """A policy that keeps each candidate with probability p."""

    def policy(candidates: Candidates) -> Any:
        return np.full(len(candidates), p, np.float32), np.ones(len(candidates), np.float32)

    return policy


def trained(found: list[Batch]) -> list[int]:
    return [i for batch in found if batch.kind == "train" for i in batch.ids.tolist()]


class Bare:
    """A split that offers nothing but its items."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> tuple[np.ndarray, int]:
        return np.full(6, index, np.float32), index % 3


def test_under_uniform_the_batch_size_does_not_change_what_is_trained() -> None:
    runs = [trained(batches(opened(numbered(100), batch_size=size, budget=2.5))) for size in (32, 48)]
    assert runs[0] == runs[1]
    assert sorted(runs[0][:100]) == sorted(runs[0][100:200]) == list(range(100))
    assert runs[0][:100] != runs[0][100:200]


@pytest.mark.parametrize("budget", [0.001, 0.37, 1.0, 1.01, 2.5, 3.3333])
def test_exactly_the_budget_is_trained(budget: float) -> None:
    core = opened(numbered(100), budget=budget)
    training = [batch for batch in batches(core) if batch.kind == "train"]
    assert sum(len(batch.ids) for batch in training) == max(1, round(budget * 100)) == core.spec.train_total
    assert len(training) == core.spec.train_batches
    assert max(len(batch.ids) for batch in training) == core.spec.max_batch


def test_batches_carry_the_instances_they_name() -> None:
    for batch in batches(opened(numbered(100, 40), eval_every=0.5)):
        sign = 1 if batch.kind == "train" else -1
        np.testing.assert_array_equal(batch.arrays["inputs"], sign * np.tile(batch.ids[:, None], 6))
        np.testing.assert_array_equal(batch.arrays["targets"], batch.ids % 3)


def test_the_test_split_comes_whole_and_in_order_at_each_crossing_and_at_the_end() -> None:
    found = batches(opened(numbered(100, 40), budget=1.5, eval_every=0.5))
    kinds = [batch.kind for batch in found]
    assert kinds == ["train"] * 2 + ["test"] * 2 + ["train"] * 2 + ["test"] * 2 + ["train"] + ["test"] * 2
    ids = [i for batch in found if batch.kind == "test" for i in batch.ids.tolist()]
    assert ids == list(range(40)) * 3


def test_each_split_is_evaluated_whole() -> None:
    data = Data(numbered(100).train, numbered(40).train, numbered(33).train)
    found = batches(opened(data, budget=1.0))
    assert [(batch.kind, len(batch.ids), batch.last) for batch in found[-4:]] == [
        ("validation", 32, False), ("validation", 1, True), ("test", 32, False), ("test", 8, True),
    ]  # fmt: skip


def test_the_sequence_is_gapless_to_the_end() -> None:
    core = opened(numbered(100, 40), eval_every=0.3)
    found = batches(core)
    assert [batch.seq for batch in found] == list(range(len(found)))
    assert [batch.last for batch in found if batch.kind == "train"][-1]


def test_after_the_budget_there_is_only_the_end() -> None:
    core = opened(numbered(100), budget=0.5)
    count = len(batches(core))
    assert core.next(0, 0, lend) == (End(seq=count + 1, incarnation=0), None)


@pytest.mark.parametrize("split", [numbered(100).train, Bare(100)], ids=["offers labels", "offers nothing"])
def test_dropped_per_class_and_kept_are_all_candidates(split: Any) -> None:
    core = opened(Data(split), budget=3.0)
    core.selector.policy = coin(0.4)
    kept, dropped, unknown, candidates = np.zeros(3, int), np.zeros(3, int), 0, 0
    for batch in batches(core):
        kept += np.bincount(batch.ids % 3, minlength=3)
        dropped += batch.dropped[:3]
        unknown += int(batch.dropped[3])
        candidates += batch.candidates
    assert kept.sum() == 300
    assert kept.sum() + dropped.sum() == candidates == core.metrics()["candidates"]
    # Whole passes see each class equally often, but for one instance: 34 of class 0, 33 of the others.
    passes = candidates // 100
    assert all(33 * passes <= n <= 34 * (passes + 1) for n in (kept + dropped).tolist())


def test_a_policy_that_keeps_nothing_ends_all_the_same() -> None:
    core = opened(numbered(100), budget=2.0)
    core.selector.policy = coin(0.0)
    assert all(len(batch.ids) for batch in batches(core))
    assert core.metrics()["forced"] == 200


@pytest.mark.parametrize("split", [numbered(100).train, Bare(100)], ids=["offers features", "offers nothing"])
def test_the_features_of_a_batch_are_those_of_its_instances(split: Any) -> None:
    core = opened(Data(split, numbered(20).train), policy="autoassist")
    for seq in range(4):
        batch, features = core.next(0, 7, lend)
        assert isinstance(batch, Batch)
        assert features is not None
        assert (features.batch_id, features.incarnation) == (batch.seq, batch.incarnation) == (seq, 7)
        np.testing.assert_array_equal(features.ids, batch.ids)
        np.testing.assert_array_equal(features.labels, batch.ids % 3)
        np.testing.assert_allclose(features.features, core.store.scale * np.tile(batch.ids[:, None], 6), rtol=1e-3)


def test_evaluation_batches_have_no_features() -> None:
    core = opened(numbered(32, 32), budget=1.0, policy="autoassist")
    (_, of_training), (batch, of_test) = core.next(0, 0, lend), core.next(0, 0, lend)
    assert of_training is not None
    assert isinstance(batch, Batch)
    assert batch.kind == "test"
    assert of_test is None


def test_a_batch_is_collated_into_the_slot_it_was_given() -> None:
    lent = {}

    def lend_and_note(slot: int, layout: Any) -> Any:
        lent[slot] = lend(slot, layout)
        return lent[slot]

    batch, _ = opened(numbered(100)).next(3, 0, lend_and_note)
    assert isinstance(batch, Batch)
    assert batch.slot == 3
    assert batch.arrays["inputs"] is lent[3]["inputs"]


def test_a_batch_larger_than_the_data_set_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"batcher\.batch_size = 101.*toy has 100 training instances"):
        opened(numbered(100), batch_size=101)
    assert opened(numbered(100), batch_size=100).spec.max_batch == 100


def labelled(labels: list[int]) -> ArraySplit:
    return ArraySplit(np.zeros((len(labels), 2), np.float32), np.array(labels))


@pytest.mark.parametrize("split", ["train", "validation", "test"])
def test_a_label_without_a_class_name_is_refused_before_anything_is_trained(split: str) -> None:
    splits = {"train": labelled([0, 1] * 4), split: labelled([0, 2] * 4)}
    with pytest.raises(ConfigError, match="2"):
        opened(Data(**splits, class_names=["cat", "dog"]), batch_size=4)


def test_a_class_that_only_the_test_split_has_is_counted_or_refused() -> None:
    try:
        core = opened(Data(labelled([0, 1] * 4), labelled([0, 2])), batch_size=4)
    except ConfigError:
        return
    assert core.spec.classes == 3


def test_splits_of_another_shape_are_refused_before_anything_is_trained() -> None:
    other = ArraySplit(np.zeros((8, 3), np.float32), np.zeros(8, int))
    with pytest.raises(ConfigError, match="shape"):
        opened(Data(labelled([0, 1] * 4), other), batch_size=4)


@pytest.mark.parametrize(("mean", "std"), [((0.1, 0.2, 0.3), (1.0, 1.0, 1.0)), ((0.1,), (1.0, 1.0, 1.0)), ((0.1,), ())])
def test_a_normalisation_that_does_not_fit_the_channels_is_refused(mean: Any, std: Any) -> None:
    images = ArraySplit(np.zeros((8, 2, 4, 4), np.uint8), np.zeros(8, int))
    with pytest.raises(ConfigError, match="2 channels"):
        opened(Data(images, mean=mean, std=std), batch_size=4)


@pytest.mark.parametrize("split", [numbered(100).train, Bare(100)], ids=["offers labels", "offers nothing"])
def test_an_instance_that_is_not_finite_is_skipped_and_said_so(split: Any) -> None:
    class Broken:
        """The split, without `fill` and with broken inputs of some ids."""

        targets = np.arange(100) % 3

        def __len__(self) -> int:
            return 100

        def __getitem__(self, index: int) -> Any:
            inputs, label = split[index]
            return (np.full_like(inputs, np.inf) if index in (7, 50) else inputs), label

    core = opened(Data(Broken()), budget=2.0)
    found = batches(core)
    assert len(trained(found)) == 200
    assert not {7, 50} & set(trained(found))
    assert core.metrics()["skipped"] == 2
    assert [batch.seq for batch in found] == list(range(len(found)))
    candidates = sum(batch.candidates for batch in found)
    assert 200 + sum(int(batch.dropped.sum()) for batch in found) == candidates


@pytest.mark.parametrize(
    ("end", "problem"),
    [
        ("raise KeyError(candidates.size)", r"raises KeyError: 100 \(mine\.py, line 10\); needed: p and w"),
        ("raise SystemExit('enough')", r"raises SystemExit: enough \(mine\.py, line 10\)"),
        ("return None", r"raises TypeError: .*; needed: p and w, float32 \[n\] each"),
        ("return [], []", r"returned p with shape \[0\] for \d+ candidates"),
    ],
)
def test_what_a_policy_does_wrong_in_training_is_one_line_that_names_it(end: str, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(tiring(3, end))
    core = opened(numbered(100), policy=f"{path}:Tiring", budget=2.0)
    with pytest.raises(ConfigError, match=rf"^policy\.name = '.*/mine\.py:Tiring': {problem}"):
        batches(core)
    assert core.metrics()["candidates"] > 0, "in training"


def test_what_a_fill_raises_in_training_is_one_line_that_names_the_data_set() -> None:
    class Torn(ArraySplit):
        def fill(self, ids: Any, out: Any) -> None:
            if 50 in ids:
                raise OSError("the file was replaced")
            super().fill(ids, out)

    split = Torn(np.zeros((100, 6), np.float32), np.arange(100) % 3)
    core = opened(Data(split))
    with pytest.raises(ConfigError, match=r"^data\.name = 'toy': its fill\(ids, out\) raises OSError: the file was"):
        batches(core)


def test_unknown_policies_and_arguments_are_refused() -> None:
    def build(**policy: Any) -> BatcherCore:
        return BatcherCore(RunConfig(), BatcherConfig(), PolicyConfig(**policy), numbered(100), "toy")

    with pytest.raises(ConfigError, match=r"policy\.name = 'unifrom'.*did you mean 'uniform'"):
        build(name="unifrom")
    with pytest.raises(ConfigError, match=r"policy\.args"):
        build(name="uniform", args={"gama": 1})
