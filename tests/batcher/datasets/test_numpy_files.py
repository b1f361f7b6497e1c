from pathlib import Path

import made_data
import numpy as np
import pytest

from batcher.config import DataConfig
from batcher.datasets.arrays import ArraySplit
from batcher.plugin import load
from batcher.source import Source
from proto.errors import ConfigError


def test_npy_files_stay_on_disk_and_are_read_row_by_row(tmp_path: Path) -> None:
    made_data.numpy_files(tmp_path)
    data = load(DataConfig(name="numpy", root=str(tmp_path)))
    assert isinstance(data.train, ArraySplit)
    assert isinstance(data.train.inputs, np.memmap)
    assert data.train.targets.dtype == np.int64
    source = Source(data.train, "numpy")
    ids, arrays = source.take(np.array([3, 0, 3]))
    assert ids.tolist() == [3, 0, 3]
    assert arrays["inputs"].dtype == np.float32
    np.testing.assert_array_equal(arrays["inputs"], np.load(tmp_path / "x_train.npy")[ids].astype(np.float32))
    assert arrays["targets"].tolist() == [0, 0, 0]


@pytest.mark.parametrize("layout", ["grey", "channels last", "channels first"])
def test_images_get_their_channels_first_whatever_the_file_has(layout: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (9, 1 if layout == "grey" else 3, 5, 6)).astype(np.uint8)
    stored = {"grey": images[:, 0], "channels last": np.moveaxis(images, 1, -1), "channels first": images}[layout]
    np.savez(tmp_path / "toys.npz", x_train=stored, y_train=np.arange(9)[:, None], x_val=stored, y_val=np.arange(9))
    data = load(DataConfig(name="numpy", root=str(tmp_path), args={"file": "toys.npz"}))
    assert data.test is None
    assert data.validation is not None
    ids = np.array([4, 1])
    _, arrays = Source(data.train, "numpy").take(ids)
    np.testing.assert_array_equal(arrays["inputs"], images[ids])
    assert arrays["targets"].tolist() == [4, 1]
    assert data.mean == pytest.approx(images.mean(axis=(0, 2, 3)) / 255, abs=1e-5)


def test_float_labels_stay_floats(tmp_path: Path) -> None:
    np.savez(tmp_path / "toys.npz", x_train=np.ones((3, 2)), y_train=np.array([0.5, 1.5, -2.0]))
    train = load(DataConfig(name="numpy", root=str(tmp_path), args={"file": "toys.npz"})).train
    assert [train[index][1] for index in range(3)] == [0.5, 1.5, -2.0]


def test_a_missing_array_is_named_with_those_there_are(tmp_path: Path) -> None:
    np.save(tmp_path / "x_train.npy", np.ones((3, 2)))
    np.save(tmp_path / "labels.npy", np.ones(3))
    with pytest.raises(ConfigError, match=r"has no array 'y_train'; arrays there: labels, x_train"):
        load(DataConfig(name="numpy", root=str(tmp_path)))
    np.save(tmp_path / "y_train.npy", np.ones(3, int))
    np.save(tmp_path / "x_test.npy", np.ones((3, 2)))
    with pytest.raises(ConfigError, match=r"there is an array x_test, but no y_test"):
        load(DataConfig(name="numpy", root=str(tmp_path)))


def test_files_that_are_cut_off_or_hold_objects_are_named(tmp_path: Path) -> None:
    np.save(tmp_path / "y_train.npy", np.array([None, {}]), allow_pickle=True)
    np.save(tmp_path / "x_train.npy", np.ones((2, 50)))
    with pytest.raises(ConfigError, match=r"data\.name = 'numpy': .*y_train\.npy cannot be read"):
        load(DataConfig(name="numpy", root=str(tmp_path)))
    np.save(tmp_path / "y_train.npy", np.zeros(2, int))
    (tmp_path / "x_train.npy").write_bytes((tmp_path / "x_train.npy").read_bytes()[:300])
    with pytest.raises(ConfigError, match=r"data\.name = 'numpy': .*x_train\.npy cannot be read or is cut off"):
        load(DataConfig(name="numpy", root=str(tmp_path)))
    np.savez(tmp_path / "toys.npz", x_train=np.ones((3, 200)), y_train=np.zeros(3, int))
    (tmp_path / "toys.npz").write_bytes((tmp_path / "toys.npz").read_bytes()[:900])
    with pytest.raises(ConfigError, match=r"toys\.npz cannot be read or is cut off"):
        load(DataConfig(name="numpy", root=str(tmp_path), args={"file": "toys.npz"}))
