"""How a data set travels to the Batcher, and what is said when it cannot."""

import os
import sys
import threading
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from torch.utils.data import Subset, TensorDataset

from autoassist.handover import hand_over
from batcher.datasets.arrays import ArraySplit
from batcher.handed import read
from proto.errors import ConfigError


class Items:
    """Items (input, label) with whatever attributes a test gives it."""

    def __init__(self, **attributes):
        vars(self).update(attributes)
        self.inputs = np.arange(12, dtype=np.float32).reshape(6, 2)

    def __len__(self):
        return 6

    def __getitem__(self, index):
        return self.inputs[index], index % 2


@contextmanager
def arrived(train_set=None, factory=None, classes=0):
    descriptor = hand_over(train_set, factory, classes)
    try:
        yield read(descriptor)
    finally:
        os.close(descriptor)


def test_arrays_in_memory_need_no_torch_there_and_are_mapped():
    inputs, labels = torch.arange(24, dtype=torch.float64).reshape(6, 2, 2), torch.arange(6, dtype=torch.int32) % 3
    with arrived(TensorDataset(inputs, labels), classes=3) as data:
        assert type(data.train) is ArraySplit
        assert data.train.inputs.dtype == np.float32
        assert np.array_equal(data.train.inputs, inputs)
        assert data.train.labels(np.array([5, 0])).tolist() == [2, 0]
        assert data.class_names == ["0", "1", "2"]
        data.train.inputs[0] = 7  # ours alone, and no error
        assert inputs[0, 0, 0] == 0
    with arrived(Subset(Subset(TensorDataset(inputs, labels), [4, 5, 1]), [2, 0])) as data:
        out = {"inputs": np.empty((2, 2, 2), np.float32), "targets": np.empty(2, np.int64)}
        data.train.fill(np.array([0, 1]), out)
        assert np.array_equal(out["inputs"], inputs[[1, 4]])
        assert out["targets"].tolist() == [1, 1]


def test_what_no_module_has_travels_by_value():
    """As the classes and functions of a script do, which nobody imports again."""
    scale = 3

    class Local(Items):
        def __getitem__(self, index):
            return self.transform(torch.from_numpy(self.inputs[index])), index

    Local.__module__ = "__main__"
    with arrived(Local(transform=lambda x: x * scale, tensor=torch.ones(3).bfloat16())) as data:
        assert data.train[1][0].tolist() == [6, 9]
        assert data.train.tensor.dtype == torch.bfloat16


def test_modules_are_looked_for_where_the_user_has_them(tmp_path, monkeypatch):
    (tmp_path / "beside_the_script.py").write_text("def build():\n    return [(1.0, 0), (2.0, 1)], 'no test split'\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    descriptor = hand_over(None, "beside_the_script:build", 0)
    monkeypatch.undo()
    before = list(sys.path)
    try:
        data = read(descriptor)
    finally:
        os.close(descriptor)
        sys.path[:] = before
    assert data.train == [(1.0, 0), (2.0, 1)]
    assert data.test is None


class Holder:
    def __init__(self, **attributes):
        vars(self).update(attributes)


def test_the_attribute_that_cannot_travel_is_named():
    lock = threading.Lock()
    with pytest.raises(
        ConfigError, match=r"^train_set\.files\['a'\]\[1\]\.lock = <unlocked .*cannot pickle .*factory="
    ):
        hand_over(Items(files={"a": [0, Holder(lock=lock)]}), None, 0)
    with pytest.raises(ConfigError, match=r"^train_set\.transform uses lock = "):
        hand_over(Items(transform=lambda x: lock and x), None, 0)
    with pytest.raises(ConfigError, match=r"^train_set\.cache = tensor.*on meta cannot travel; use tensor.cpu\(\)"):
        hand_over(Items(cache=torch.empty(2, device="meta")), None, 0)


def test_what_is_no_data_set_is_refused():
    with pytest.raises(ConfigError, match="either a data set or factory="):
        hand_over(None, None, 0)
    with pytest.raises(ConfigError, match="no data set; needed: __len__ and __getitem__, or __iter__"):
        hand_over(object(), None, 0)
    with pytest.raises(ConfigError, match="factory = 3: needed: a callable"):
        hand_over(None, 3, 0)


def test_what_fails_on_arrival_is_said():
    def broken():
        raise FileNotFoundError("no photos here")

    with (
        pytest.raises(ConfigError, match=r"^factory = .*raised FileNotFoundError: no photos here"),
        arrived(factory=broken),
    ):
        pass
    with pytest.raises(ConfigError, match=r"nowhere:build.*no module 'nowhere'"), arrived(factory="nowhere:build"):
        pass
