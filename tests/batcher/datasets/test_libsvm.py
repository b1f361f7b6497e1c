from pathlib import Path

import made_data
import numpy as np
import pytest

from batcher.config import DataConfig
from batcher.datasets.libsvm import SparseSplit
from batcher.plugin import load
from proto.errors import ConfigError

A9A = Path(__file__).parents[3].parent / "shared/data/libsvm"


def of(folder: Path, **args: object) -> DataConfig:
    return DataConfig(name="libsvm", root=str(folder), args=dict(args))


def test_a_batch_is_what_the_lines_say(tmp_path: Path) -> None:
    (tmp_path / "train").write_text("-1 1:0.5 4:2\n+1 2:3\n-1\n")
    (tmp_path / "test").write_text("+1 5:1\n")
    data = load(of(tmp_path, train="train", test="test"))
    assert isinstance(data.train, SparseSplit)
    out = {"inputs": np.full((4, 5), 9, np.float32), "targets": np.full(4, 9)}
    data.train.fill(np.array([1, 0, 2, 1]), out)
    second = [0, 3, 0, 0, 0]
    assert out["inputs"].tolist() == [second, [0.5, 0, 0, 2, 0], [0] * 5, second]
    assert out["targets"].tolist() == [1, 0, 0, 1]
    assert data.train[0][0].tolist() == [0.5, 0, 0, 2, 0]
    assert list(data.class_names) == ["-1", "1"]
    assert data.test is not None
    assert data.test[0][0].tolist() == [0, 0, 0, 0, 1]


def test_rows_stay_sparse_and_features_are_columns_folded_together(tmp_path: Path) -> None:
    (tmp_path / "train").write_text("0 1:1 257:2 300:4\n1 1000000:8\n")
    split = load(of(tmp_path, train="train")).train
    assert isinstance(split, SparseSplit)
    assert split.width == 1_000_000
    features = split.features(np.array([1, 0]))
    assert features.shape == (2, 256)
    assert features[1, 0] == 3
    assert features[1, 299 % 256] == 4
    assert features[0, 999_999 % 256] == 8
    assert features.sum() == 15


def test_numbers_to_be_predicted_stay_numbers(tmp_path: Path) -> None:
    (tmp_path / "train").write_text("0.5 1:1\n24 2:3\n")
    data = load(of(tmp_path, train="train", regression=True))
    assert [data.train[index][1] for index in range(2)] == [0.5, 24.0]
    assert list(data.class_names) == []


def test_what_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    made_data.libsvm_files(tmp_path)
    with pytest.raises(ConfigError, match=r"data\.args\.train = 'trian': no such file .*files there: test, train"):
        load(of(tmp_path, train="trian"))
    with pytest.raises(ConfigError, match=r"missing a required argument: 'train'"):
        load(of(tmp_path))
    (tmp_path / "test").write_text("+1 1:2\n-1 2:\n")
    with pytest.raises(ConfigError, match=r"data\.name = 'libsvm': .*test cannot be read or is cut off"):
        load(of(tmp_path, train="train", test="test"))
    (tmp_path / "test").write_text("3 1:2\n")
    with pytest.raises(ConfigError, match=r"test: label 3\.0 is none of the training split's: -1, 1"):
        load(of(tmp_path, train="train", test="test"))


@pytest.mark.skipif(not (A9A / "a9a.xz").is_file(), reason="a9a is not in ../shared/data/libsvm")
def test_a9a_is_as_its_authors_count_it() -> None:
    data = load(of(A9A, train="a9a", test="a9a.t"))
    assert isinstance(data.train, SparseSplit)
    assert isinstance(data.test, SparseSplit)
    assert (len(data.train), len(data.test)) == (32_561, 16_281)
    assert data.train.width == data.test.width == 123
    assert np.bincount(data.train.targets).tolist() == [24_720, 7_841]
    assert data.train.features(np.arange(len(data.train))).sum() == 451_592
