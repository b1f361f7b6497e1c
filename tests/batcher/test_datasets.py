from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import URLError

import numpy as np
import pytest

from batcher.config import DATASETS, POLICIES, DataConfig
from batcher.datasets.arrays import ArraySplit
from batcher.datasets.idx import FILES
from batcher.plugin import load
from batcher.source import Source
from proto.errors import ConfigError
from proto.resolver import resolve

MNIST = Path(__file__).parents[2].parent / "shared/data/mnist"


def rows(split: ArraySplit) -> set[bytes]:
    return {image.tobytes() for image in split.inputs}


@pytest.mark.parametrize("key", [*DATASETS, *POLICIES])
def test_every_builtin_name_leads_to_something(key: str) -> None:
    builtins = DATASETS if key in DATASETS else POLICIES
    assert callable(resolve("name", key, builtins))
    assert builtins[key].summary


def test_digits_have_the_sizes_they_say() -> None:
    data = load(DataConfig(name="digits"))
    for split, size in ((data.train, 1437), (data.test, 360)):
        assert isinstance(split, ArraySplit)
        assert split.inputs.shape == (size, 1, 8, 8)
        assert split.inputs.dtype == np.uint8
        assert (split.inputs.min(), split.inputs.max()) == (0, 255)
        assert split.targets.shape == (size,)
    assert list(data.class_names) == [str(digit) for digit in range(10)]


def test_digits_are_split_disjoint_and_stratified() -> None:
    data = load(DataConfig(name="digits"))
    assert isinstance(data.train, ArraySplit)
    assert isinstance(data.test, ArraySplit)
    assert not rows(data.train) & rows(data.test)
    shares = [np.bincount(split.targets, minlength=10) / len(split) for split in (data.train, data.test)]
    np.testing.assert_allclose(*shares, atol=0.003)


def test_digits_are_the_same_each_time() -> None:
    first, second = (load(DataConfig(name="digits")).train for _ in range(2))
    assert isinstance(first, ArraySplit)
    assert isinstance(second, ArraySplit)
    np.testing.assert_array_equal(first.inputs, second.inputs)


def test_digits_normalise_to_about_mean_0_and_deviation_1() -> None:
    data = load(DataConfig(name="digits"))
    assert isinstance(data.train, ArraySplit)
    pixels = data.train.inputs / 255
    assert data.mean == pytest.approx([pixels.mean()], abs=0.01)
    assert data.std == pytest.approx([pixels.std()], abs=0.01)


def test_a_split_in_arrays_fills_a_batch_with_its_own_rows() -> None:
    split = ArraySplit(np.arange(24, dtype=np.uint8).reshape(8, 3), np.arange(8) * 2)
    out = {"inputs": np.empty((3, 3), np.uint8), "targets": np.empty(3, np.int64)}
    split.fill(np.array([7, 0, 7]), out)
    assert out["inputs"].tolist() == [[21, 22, 23], [0, 1, 2], [21, 22, 23]]
    assert out["targets"].tolist() == [14, 0, 14]


@pytest.mark.parametrize("root", ["", "nowhere"])
def test_mnist_without_its_files_is_refused(root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"data\.root"):
        load(DataConfig(name="mnist", root=root))
    assert list(tmp_path.iterdir()) == []


def state(folder: Path) -> dict[Path, tuple[int, int]]:
    return {path: (path.stat().st_size, path.stat().st_mtime_ns) for path in folder.rglob("*")}


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.skipif(not (MNIST / "MNIST/raw").is_dir(), reason="the MNIST files are not in ../shared/data/mnist")
def test_mnist_is_read_without_writing_beside_it(cache: Path) -> None:
    before = state(MNIST)
    data = load(DataConfig(name="mnist", root=str(MNIST)))
    assert state(MNIST) == before
    for split, size in ((data.train, 60_000), (data.test, 10_000)):
        assert isinstance(split, ArraySplit)
        assert Source(split, "mnist").shape == (1, 28, 28)
        assert split.inputs.shape == (size, 1, 28, 28)
        assert split.inputs.dtype == np.uint8
        assert np.unique(split.targets).tolist() == list(range(10))
    assert isinstance(data.train, ArraySplit)
    assert data.train.targets[:5].tolist() == [5, 0, 4, 1, 9]
    assert data.mean == pytest.approx([data.train.inputs.mean() / 255], abs=1e-3)
    unpacked = state(cache)
    load(DataConfig(name="mnist", root=str(MNIST)))
    assert state(cache) == unpacked, "the second time the cache is used as it is"


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_damaged_mnist_files_are_an_error_and_nothing_is_fetched(
    suffix: str, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched = []

    def no_network(request: Any, *_: Any, **__: Any) -> None:
        fetched.append(request)
        raise URLError("not in a test")

    monkeypatch.setattr("urllib.request.urlopen", no_network)
    raw = tmp_path / "MNIST" / "raw"
    raw.mkdir(parents=True)
    for name in FILES:
        (raw / f"{name}{suffix}").write_bytes(b"junk")
    with pytest.raises(ConfigError, match=r"data\.root = .*cannot be read"):
        load(DataConfig(name="mnist", root=str(tmp_path)))
    assert fetched == []
