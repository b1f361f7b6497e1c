"""Labels that are no class numbers, and class numbers that cannot be."""

from typing import Any

import numpy as np
import pytest
from toys import batches, opened

from batcher.datasets.arrays import ArraySplit
from batcher.plugin import Data
from batcher.source import Source
from proto.errors import ConfigError

INPUTS = np.random.default_rng(0).normal(size=(40, 6)).astype(np.float32)


class Items:
    """A split that offers nothing but its items."""

    def __init__(self, labels: Any, inputs: Any = INPUTS) -> None:
        self._labels, self._inputs = labels, inputs

    def __len__(self) -> int:
        return len(self._labels)

    def __getitem__(self, index: int) -> Any:
        return self._inputs[index], self._labels[index]


TARGETS = {
    "numbers": np.arange(40) / 8,
    "vectors": np.arange(120).reshape(40, 3) / 8,
    "multi-hot": np.arange(200).reshape(40, 5) % 3 == 0,
}


@pytest.mark.parametrize("make", [ArraySplit, lambda inputs, labels: Items(labels)], ids=["arrays", "items"])
@pytest.mark.parametrize("name", TARGETS)
def test_targets_that_are_no_class_numbers_travel_as_they_are(name: str, make: Any) -> None:
    targets = TARGETS[name]
    core = opened(Data(make(INPUTS, targets)), batch_size=8)
    spec = core.spec
    assert (spec.classes, spec.target_shape, spec.outputs) == (0, targets.shape[1:], max(targets[0].size, 1))
    assert spec.target_dtype == ("int64" if name == "multi-hot" else "float32")
    for batch in batches(core):
        np.testing.assert_array_equal(batch.arrays["targets"], targets[batch.ids].astype(spec.target_dtype))
        assert batch.dropped.tolist() == [0]


def test_the_assistant_is_told_of_no_class() -> None:
    core = opened(Data(ArraySplit(INPUTS, TARGETS["numbers"])), batch_size=8)
    _, features = core.next(0, 0, lambda slot, layout: {n: np.empty(*kind) for n, kind in layout.items()})
    assert features is not None
    assert set(features.labels.tolist()) == {-1}
    assert np.abs(features.features).sum() > 0


class Labelled(Items):
    def labels(self, ids: Any) -> Any:
        return np.asarray(self._labels)[ids]


@pytest.mark.parametrize(
    ("split", "text"),
    [
        (Labelled([1.0, np.nan, 2.0]), r"the label of instance 1 is not finite; leave such instances out \(1 of them"),
        (Labelled([1, 0, -2]), r"label -2 is none of its classes 0, 1, \.\.\., that of instance 2; leave it out"),
        (Items([1, 0, float("nan")]), "the label of instance 2 is nan; leave such instances out"),
        (Items([1, 0, -2]), "label -2 is none of its classes"),
    ],
)
def test_labels_that_cannot_be_are_one_line(split: Any, text: str) -> None:
    with pytest.raises(ConfigError, match=rf"data\.name = 'mine': {text}"):
        Source(split, "mine").classes()


def test_class_numbers_offered_as_floats_must_be_whole() -> None:
    class Floats(Items):
        def labels(self, ids: Any) -> Any:
            return np.array([0.0, 1.0, np.nan])[ids]

    with pytest.raises(ConfigError, match="the label of instance 2 is nan, no class number"):
        Source(Floats([0, 1, 1]), "mine").classes()


@pytest.mark.parametrize(
    ("labels", "options", "text"),
    [
        ([0, 1] * 19 + [0, 7], {"class_names": ("a", "b")}, "its label 7 is none of the classes 0 to 1"),
        ([0.5] * 39 + [np.inf], {}, "its label is not finite"),
    ],
)
def test_a_bad_label_that_shows_only_in_its_item_is_skipped_by_name(labels: Any, options: Any, text: str) -> None:
    core = opened(Data(Items(labels), Items(labels), **options), batch_size=8, budget=1.0)
    found = batches(core)
    assert sorted(core.skipped) == [39, 39]
    assert text in str(core.metrics()["skipped_errors"])
    assert 39 not in np.concatenate([batch.ids for batch in found])


def test_splits_whose_labels_differ_in_kind_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"labels of its test split have shape \[2\] float32, .* \[\] int64"):
        opened(Data(ArraySplit(INPUTS, np.zeros(40, int)), Items(np.zeros((40, 2)))), batch_size=8)
