"""Pieces of a run, for tests without processes."""

import io

import pytest
from rich.console import Console

from autoassist.config import load
from autoassist.report import picture
from proto.control import DataSpec


@pytest.fixture
def data_spec():
    """A data set of 100 images in 10 classes; a budget of 2 Boss epochs."""
    sizes = {name: 0 for name in DataSpec.model_fields if name.endswith("_size")}
    return DataSpec(
        **{**sizes, "train_size": 100},
        classes=10, class_names=(), input_shape=(1, 8, 8), input_dtype="uint8", mean=(), std=(), feature_dim=64,
        train_total=200, train_batches=7, max_batch=32,
    )  # fmt: skip


TOY = """
import numpy as np
from batcher.datasets.arrays import ArraySplit
from batcher.plugin import Data

def split(n, seed):
    draw = np.random.default_rng(seed)
    labels = draw.integers(0, 3, n)
    return ArraySplit((draw.normal(size=(n, 4)) + 1.2 * np.eye(3, 4)[labels]).astype(np.float32), labels)

def toy():
    return Data(split(400, 0), split(300, 1))

def validated():
    return Data(split(400, 0), split(300, 1), split(100, 2))

def trained_only():
    return split(400, 0)

def numbers():
    draw = np.random.default_rng(0)
    return tuple(ArraySplit(draw.normal(size=(n, 4)).astype(np.float32), draw.normal(size=n)) for n in (400, 300))
"""


@pytest.fixture
def console():
    return Console(file=io.StringIO(), width=250)


@pytest.fixture(scope="session")
def fonts(tmp_path_factory):
    """Matplotlib keeps the files of its fonts open from the first picture on."""
    with picture(tmp_path_factory.mktemp("fonts") / "x.png", (1, 1), "x") as (axes,):
        axes.plot([0, 1])


@pytest.fixture
def toy_settings(fonts, tmp_path, monkeypatch):
    """A serial run of a linear model on 400 instances in 3 classes."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "toy.py").write_text(TOY)
    words = ["data.name=./toy.py:toy", "boss.model=linear", "run.serial=true", "boss.threads=1", "run.name=c"]
    return load(None, words)
