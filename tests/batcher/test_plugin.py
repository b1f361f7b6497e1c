from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import TensorDataset

from batcher.config import DataConfig
from batcher.datasets.arrays import ArraySplit
from batcher.plugin import Subset, load
from batcher.source import Source
from proto.errors import ConfigError

PLUGIN = """
import numpy as np
from batcher.datasets.arrays import ArraySplit
from batcher.plugin import Data

def split(n):
    return ArraySplit(np.ones((n, 2), np.float32), np.zeros(n, int))

def one(n=4):
    return split(n)

def pair():
    return split(4), split(2)

def data(root):
    return Data(split(4), None, class_names=[root])

def own():
    return Data(split(4), validation=split(2))

def number():
    return 5

def empty():
    return split(4), split(0)

def three():
    return split(4), split(3), split(2)

class Named(ArraySplit):
    classes = ["a", "b"]

def named():
    return Named(np.ones((4, 2), np.float32), np.zeros(4, int))

def raising(path="none.bin"):
    raise FileNotFoundError("no file\\n" + path)

def lacking():
    import no_such_package

def labels(value):
    return ArraySplit(np.ones((4, 2), np.float32), [0.5, value, 1, 1])

class Refusing:
    def __len__(self):
        raise RuntimeError("the server is away")

    def __getitem__(self, index):
        return 0, 0
"""


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plugin.py").write_text(PLUGIN)
    return "./plugin.py"


def test_a_callable_may_return_a_split_a_pair_or_data(plugin: str) -> None:
    assert len(load(DataConfig(name=f"{plugin}:one", args={"n": 7})).train) == 7
    pair = load(DataConfig(name=f"{plugin}:pair"))
    assert pair.test is not None
    assert (len(pair.train), len(pair.test)) == (4, 2)
    assert load(DataConfig(name=f"{plugin}:data", root="here")).class_names == ["here"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("number", r"data\.name = .*:number'.*train split is a int; needed: __len__, __getitem__"),
        ("empty", r"data\.name = .*:empty'.*test split is empty; check"),
        (
            "raising",
            r"data\.name = .*:raising': loading it failed: FileNotFoundError: no file none\.bin \(plugin\.py, line",
        ),
        ("lacking", r"data\.name = .*:lacking': needs the package 'no_such_package'; install it"),
        ("Refusing", r"data\.name = .*:Refusing': loading it failed: RuntimeError: the server is away"),
    ],
)
def test_what_is_no_data_set_is_refused(plugin: str, name: str, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        load(DataConfig(name=f"{plugin}:{name}"))


def test_a_callable_may_return_a_validation_split_in_the_middle(plugin: str) -> None:
    data = load(DataConfig(name=f"{plugin}:three"))
    assert data.validation is not None
    assert data.test is not None
    assert (len(data.train), len(data.validation), len(data.test)) == (4, 3, 2)


def test_classes_of_a_torchvision_data_set_are_its_class_names(plugin: str) -> None:
    assert load(DataConfig(name=f"{plugin}:named")).class_names == ("a", "b")
    assert load(DataConfig(name=f"{plugin}:named", val_fraction=0.5)).class_names == ("a", "b")


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_label_that_is_not_finite_is_named_with_its_instance(plugin: str, value: float) -> None:
    with pytest.raises(ConfigError, match=rf"the label of instance 1 is {value}; mend it or leave the instance out"):
        load(DataConfig(name=f"{plugin}:labels", args={"value": value}))


def test_arguments_that_the_callable_does_not_take_are_refused(plugin: str) -> None:
    with pytest.raises(ConfigError, match=r"data\.args = .*arguments taken: n"):
        load(DataConfig(name=f"{plugin}:one", args={"m": 7}))


class Items:
    """A split made of a list."""

    def __init__(self, *items: Any) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> Any:
        return self.items[index]


@pytest.mark.parametrize(
    ("item", "text"),
    [
        (5, "no pairs"),
        ((np.zeros((0, 4)), 1), r"the input of an item has shape \[0, 4\]: it is empty"),
        ((1, 2, 3), "no pairs"),
        (("text", 0), "an item is"),
        ((np.ones(2), None), "an item is"),
        ((object(), 0), r"an item is \(object, 0\)"),
        ((np.ones(2, complex), 0), "an item is"),
    ],
)
def test_items_that_cannot_be_trained_on_are_refused_by_name(item: object, text: str) -> None:
    with pytest.raises(ConfigError, match=rf"data\.name = 'mine'.*{text}"):
        Source(Items(item), "mine")


@pytest.mark.parametrize(
    ("inputs", "dtype"),
    [
        (np.ones(2, np.float64), "float32"), (np.ones(2, np.float16), "float32"), (np.ones(2, np.uint8), "uint8"),
        (np.ones(2, np.int32), "int64"), (np.ones(2, bool), "int64"), (torch.ones(2), "float32"),
        ([1.0, 2.0], "float32"), (1.5, "float32"), (np.ones(2, ">f4"), "float32"), (np.ones(2, ">i8"), "int64"),
    ],
)  # fmt: skip
def test_inputs_become_a_dtype_that_travels(inputs: object, dtype: str) -> None:
    source = Source(Items((inputs, 1), (inputs, 0)), "mine")
    assert source.dtype == np.dtype(dtype)
    assert source.shape == np.shape(inputs)
    arrays = {name: np.empty(shape, kind) for name, (shape, kind) in source.layout(2).items()}
    source.fill(np.array([1, 0]), arrays)
    np.testing.assert_array_equal(arrays["inputs"], np.stack([np.asarray(inputs)] * 2))
    assert arrays["targets"].tolist() == [0, 1]


def test_a_torch_data_set_is_read_item_by_item() -> None:
    source = Source(TensorDataset(torch.arange(12.0).reshape(4, 3), torch.tensor([2, 0, 1, 2])), "mine")
    arrays = {name: np.empty(shape, kind) for name, (shape, kind) in source.layout(2).items()}
    source.fill(np.array([3, 1]), arrays)
    assert arrays["inputs"].tolist() == [[9, 10, 11], [3, 4, 5]]
    assert arrays["targets"].tolist() == [2, 0]
    assert source.labels(np.array([0])) is None
    assert source.features(np.array([0])) is None
    assert source.classes() == 3


def test_classes_are_counted_without_the_items_where_labels_are_offered() -> None:
    class Lazy(ArraySplit):
        def __getitem__(self, index: int) -> tuple[Any, int]:
            assert index == 0, "only the first item is looked at"
            return super().__getitem__(index)

    assert Source(Lazy(np.ones((4, 2)), np.array([0, 5, 1, 0])), "mine").classes() == 6


def test_a_negative_label_is_refused() -> None:
    with pytest.raises(ConfigError, match="label -1 is none of its classes"):
        Source(ArraySplit(np.ones((2, 2)), np.array([0, -1])), "mine").classes()


def test_an_item_of_another_shape_is_not_stretched_to_fit() -> None:
    source = Source(Items((np.ones((2, 4), np.float32), 0), (np.ones((2, 1), np.float32), 0)), "mine")
    arrays = {name: np.empty(shape, kind) for name, (shape, kind) in source.layout(1).items()}
    with pytest.raises(ValueError, match="shape"):
        source.fill(np.array([1]), arrays)


def test_arrays_of_different_length_are_refused() -> None:
    with pytest.raises(ValueError, match="3 inputs but 2 labels"):
        ArraySplit(np.ones(3), np.ones(2))


def test_a_validation_split_is_cut_off_the_training_split(plugin: str) -> None:
    data = load(DataConfig(name="digits", val_fraction=0.1))
    whole = load(DataConfig(name="digits")).train
    assert data.validation is not None
    assert (len(data.train), len(data.validation)) == (1293, 144)

    def images(split: Any) -> list[bytes]:
        return [split[i][0].tobytes() for i in range(len(split))]

    assert sorted(images(data.train) + images(data.validation)) == sorted(images(whole))


def test_what_a_subset_offers_is_what_its_items_are() -> None:
    data = load(DataConfig(name="digits", val_fraction=0.1))
    subset, ids = data.train, np.array([5, 0, 1200])
    images, labels = zip(*(subset[i] for i in ids), strict=True)
    source = Source(subset, "subset")
    arrays = {name: np.empty(shape, dtype) for name, (shape, dtype) in source.layout(3).items()}
    source.fill(ids, arrays)
    np.testing.assert_array_equal(arrays["inputs"], images)
    assert arrays["targets"].tolist() == list(labels)
    offered = source.labels(ids)
    assert offered is not None
    assert offered.tolist() == list(labels)
    plain = Source(Subset(Items(*[(np.ones(2), i) for i in range(9)]), np.array([8, 3])), "plain")
    assert plain.labels(np.array([0])) is None
    assert plain.classes() == 9


@pytest.mark.parametrize(("name", "fraction"), [("one", 0.01), ("one", 0.99), ("own", 0.5)])
def test_a_validation_split_that_cannot_be_cut_is_refused(plugin: str, name: str, fraction: float) -> None:
    with pytest.raises(ConfigError, match=r"data\.val_fraction"):
        load(DataConfig(name=f"{plugin}:{name}", val_fraction=fraction))


@pytest.mark.parametrize(("when", "there", "at_end"), [("always", 1, False), ("end", 1, True), ("never", 0, False)])
def test_the_test_split_is_there_when_it_may_be_seen(when: str, there: int, at_end: bool) -> None:
    data = load(DataConfig(name="digits", test=when))
    assert (data.test is not None, data.test_at_end) == (bool(there), at_end)


def test_a_subset_forwards_everything_that_is_offered() -> None:
    class Rich(Items):
        class_names = ("a", "b")

        def lengths(self, ids: Any) -> Any:
            return ids + 1

        def describe(self, index: int) -> str:
            return f"item {index}"

        def collate(self, items: Any) -> Any:
            return {"inputs": items, "targets": items}

        def __getitems__(self, indices: list[int]) -> list[Any]:
            return [self.items[index] for index in indices]

    ids = np.array([2, 0])
    part = Subset(Rich(*[(np.full(i + 1, i), i) for i in range(3)]), ids)
    assert part.lengths(np.array([0, 1])).tolist() == [3, 1]
    assert part.describe(0) == "item 2"
    assert part.collate([5]) == {"inputs": [5], "targets": [5]}
    assert part.class_names == ("a", "b")
    assert [label for _, label in part.__getitems__(np.array([1, 0]))] == [0, 2]
    bare = Subset(Items((np.ones(2), 0)), np.array([0]))
    offers = ("labels", "features", "lengths", "fill", "describe", "collate", "class_names", "__getitems__", "targets")
    assert [offer for offer in offers if hasattr(bare, offer)] == []
