import pickle
from pathlib import Path

import made_data
import numpy as np
import pytest

from batcher.config import DataConfig
from batcher.datasets.arrays import ArraySplit
from batcher.plugin import load
from proto.errors import ConfigError


def test_images_are_in_the_order_of_the_files(tmp_path: Path) -> None:
    made_data.cifar_files(tmp_path)
    data = load(DataConfig(name="cifar10", root=str(tmp_path)))
    assert isinstance(data.train, ArraySplit)
    assert data.train.inputs.shape == (200, 3, 32, 32)
    place = tmp_path / "cifar-10-batches-py"
    for number in range(5):
        batch = pickle.loads((place / f"data_batch_{number + 1}").read_bytes())
        rows = slice(40 * number, 40 * number + 40)
        np.testing.assert_array_equal(data.train.inputs[rows].reshape(40, -1), batch["data"])
        assert data.train.targets[rows].tolist() == batch["labels"]
    assert list(data.class_names) == [f"class {k}" for k in range(10)]
    pixels = data.train.inputs.swapaxes(0, 1).reshape(3, -1) / 255
    assert data.mean == pytest.approx(pixels.mean(axis=1), abs=1e-5)
    assert data.std == pytest.approx(pixels.std(axis=1), abs=1e-5)


def test_cifar100_has_the_fine_labels(tmp_path: Path) -> None:
    made_data.cifar_files(tmp_path, hundred=True, size=130)
    data = load(DataConfig(name="cifar100", root=str(tmp_path)))
    assert isinstance(data.train, ArraySplit)
    assert data.train.targets.tolist() == [k % 100 for k in range(130)]
    assert len(data.class_names) == 100


def test_a_root_that_lacks_files_says_what_fetches_them(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"data\.root = .*lacks data_batch_1; data\.download=true fetches CIFAR10"):
        load(DataConfig(name="cifar10", root=str(tmp_path)))
    with pytest.raises(ConfigError, match=r"data\.root = ''"):
        load(DataConfig(name="cifar100"))


def test_a_download_is_left_to_torchvision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    datasets = pytest.importorskip("torchvision.datasets")

    def fetch(root: str, download: bool) -> None:
        assert download
        made_data.cifar_files(Path(root))

    monkeypatch.setattr(datasets, "CIFAR10", fetch)
    data = load(DataConfig(name="cifar10", root=str(tmp_path), download=True))
    assert len(data.train) == 200

    def refuse(root: str, download: bool) -> None:
        raise OSError("no network here")

    monkeypatch.setattr(datasets, "CIFAR100", refuse)
    with pytest.raises(ConfigError, match=r"data\.root = .*CIFAR100 cannot be read: OSError: no network here"):
        load(DataConfig(name="cifar100", root=str(tmp_path), download=True))


def test_a_truncated_file_is_an_error_of_one_line(tmp_path: Path) -> None:
    made_data.cifar_files(tmp_path)
    torn = tmp_path / "cifar-10-batches-py" / "data_batch_3"
    torn.write_bytes(torn.read_bytes()[:1000])
    with pytest.raises(ConfigError, match=r"data\.root = .*CIFAR10 cannot be read: .*set data\.download=true"):
        load(DataConfig(name="cifar10", root=str(tmp_path)))


class Bomb:
    def __reduce__(self) -> object:
        return print, ("code has been run",)


def test_a_file_that_would_run_code_does_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made_data.cifar_files(tmp_path)
    (tmp_path / "cifar-10-batches-py" / "test_batch").write_bytes(pickle.dumps({"data": Bomb()}))
    with pytest.raises(ConfigError, match="which is no part of CIFAR"):
        load(DataConfig(name="cifar10", root=str(tmp_path)))
    assert capsys.readouterr().out == ""


SHEETS = Path(__file__).parents[3].parent / "shared/data/cifar10"


@pytest.mark.slow
@pytest.mark.skipif(not (SHEETS / "sheets").is_dir(), reason="the CIFAR-10 files are not in ../shared/data/cifar10")
def test_the_real_files_are_what_torchvision_reads(tmp_path: Path) -> None:
    import runpy
    import sys
    from unittest.mock import patch

    from torchvision.datasets import CIFAR10

    with patch.object(sys, "argv", ["unpack", str(tmp_path)]):
        runpy.run_path(str(SHEETS / "unpack_cifar10.py"), run_name="__main__")
    data = load(DataConfig(name="cifar10", root=str(tmp_path)))
    for split, train in ((data.train, True), (data.test, False)):
        theirs = CIFAR10(str(tmp_path), train=train)
        assert isinstance(split, ArraySplit)
        np.testing.assert_array_equal(split.inputs, np.moveaxis(theirs.data, -1, 1))
        assert split.targets.tolist() == theirs.targets
        assert list(data.class_names) == theirs.classes
