"""Fashion-MNIST and rotated MNIST; MNIST itself is in tests/batcher/test_datasets.py."""

from pathlib import Path

import made_data
import numpy as np
import pytest

from batcher.config import DataConfig
from batcher.datasets.arrays import ArraySplit
from batcher.datasets.rotated import angles, turned
from batcher.plugin import load
from proto.errors import ConfigError


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_fashion_mnist_is_read_as_mnist_is(tmp_path: Path) -> None:
    made_data.idx_files(tmp_path, "FashionMNIST")
    data = load(DataConfig(name="fashion_mnist", root=str(tmp_path)))
    assert isinstance(data.train, ArraySplit)
    assert data.train.inputs.shape == (40, 1, 28, 28)
    assert data.train.targets.tolist() == [k % 10 for k in range(40)]
    assert data.mean == pytest.approx([data.train.inputs.mean() / 255], abs=1e-5)
    assert data.class_names[9] == "ankle boot"
    with pytest.raises(ConfigError, match=r"FashionMNIST/raw does not hold the four FashionMNIST files"):
        load(DataConfig(name="fashion_mnist", root=str(tmp_path / "cache")))


def test_fashion_mnist_of_mnist_files_is_not_mnist(tmp_path: Path) -> None:
    made_data.idx_files(tmp_path)
    with pytest.raises(ConfigError, match="FashionMNIST"):
        load(DataConfig(name="fashion_mnist", root=str(tmp_path)))


def test_each_image_of_rotated_mnist_is_turned_by_its_own_angle_and_always_by_it(tmp_path: Path) -> None:
    made_data.idx_files(tmp_path)
    plain = load(DataConfig(name="mnist", root=str(tmp_path))).train
    first, again = (load(DataConfig(name="rotated_mnist", root=str(tmp_path))) for _ in range(2))
    assert isinstance(plain, ArraySplit)
    assert isinstance(first.train, ArraySplit)
    assert isinstance(again.train, ArraySplit)
    np.testing.assert_array_equal(first.train.inputs, again.train.inputs)
    assert first.train.targets.tolist() == plain.targets.tolist()
    degrees = angles(40, 0)
    np.testing.assert_array_equal(first.train.inputs[7:8], turned(plain.inputs[7:8], degrees[7:8]))
    assert len(set(degrees.tolist())) == 40
    assert not set(degrees.tolist()) & set(angles(40, 1).tolist())


def test_angles_are_spread_over_the_whole_turn() -> None:
    degrees = angles(60_000, 0)
    assert degrees.min() >= 0
    assert degrees.max() < 360
    np.testing.assert_allclose(np.histogram(degrees, 12, (0, 360))[0], 5000, rtol=0.06)


def test_quarter_turns_are_exact_and_others_are_those_of_pillow() -> None:
    from PIL import Image, ImageFilter

    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (3, 1, 28, 28)).astype(np.uint8)
    for quarter in range(4):
        found = turned(images, np.full(3, 90 * quarter, np.float32))
        np.testing.assert_array_equal(found, np.rot90(images, quarter, axes=(2, 3)))
    smooth = Image.fromarray(np.pad(images[0, 0, :16, :16], 6)).filter(ImageFilter.GaussianBlur(2))
    expected = np.asarray(smooth.rotate(37, Image.Resampling.BILINEAR))
    found = turned(np.asarray(smooth)[None, None], np.array([37], np.float32))[0, 0]
    np.testing.assert_allclose(found.astype(int), expected.astype(int), atol=2)


def test_what_comes_in_from_outside_is_black() -> None:
    white = np.full((1, 1, 28, 28), 255, np.uint8)
    found = turned(white, np.array([45], np.float32))[0, 0]
    assert found[0, 0] == found[0, -1] == found[-1, 0] == found[-1, -1] == 0
    assert (found[8:20, 8:20] == 255).all()
