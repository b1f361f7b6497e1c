"""Small files of each kind that a built-in data set reads, made in a folder."""

import gzip
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from batcher.config import DataConfig
from batcher.datasets.idx import FILES


def idx_files(folder: Path, name: str = "MNIST", size: int = 40) -> None:
    """`size` training and half as many test images in torchvision's layout, packed."""
    rng = np.random.default_rng(0)
    raw = folder / name / "raw"
    raw.mkdir(parents=True)
    for file in FILES:
        n = size if file.startswith("train") else size // 2
        shape = (n, 28, 28) if "images" in file else (n,)
        content = np.arange(n) % 10 if len(shape) == 1 else rng.integers(0, 256, shape)
        head = bytes([0, 0, 8, len(shape)]) + np.array(shape, ">i4").tobytes()
        (raw / f"{file}.gz").write_bytes(gzip.compress(head + content.astype(np.uint8).tobytes()))


def cifar_files(folder: Path, *, hundred: bool = False, size: int = 40) -> None:
    """Files as CIFAR's authors distribute them."""
    rng = np.random.default_rng(0)
    place = folder / ("cifar-100-python" if hundred else "cifar-10-batches-py")
    place.mkdir(parents=True)
    train = ["train"] if hundred else [f"data_batch_{k}" for k in range(1, 6)]
    classes = 100 if hundred else 10
    for file in [*train, "test" if hundred else "test_batch"]:
        labels = [int(k) % classes for k in range(size)]
        content: dict[str, Any] = {"data": rng.integers(0, 256, (size, 3072)).astype(np.uint8)}
        content |= {"fine_labels": labels, "coarse_labels": labels} if hundred else {"labels": labels}
        (place / file).write_bytes(pickle.dumps(content, protocol=2))
    key = "fine_label_names" if hundred else "label_names"
    (place / ("meta" if hundred else "batches.meta")).write_bytes(
        pickle.dumps({key: [f"class {k}" for k in range(classes)]})
    )


def image_files(folder: Path, splits: tuple[str, ...] = ("train", "test"), size: int = 12) -> None:
    """PNG files of two classes in folders, of different shapes; the second class is brighter."""
    rng = np.random.default_rng(0)
    for split in splits:
        for number, name in enumerate(("dark", "light")):
            place = folder / split / name
            place.mkdir(parents=True)
            for k in range(size):
                shape = (20 + k, 30 - k, 3)
                pixels = rng.integers(0, 128, shape) + 127 * number
                Image.fromarray(pixels.astype(np.uint8)).save(place / f"{k:02}.png")


def numpy_files(folder: Path) -> None:
    rng = np.random.default_rng(0)
    for name, n in (("train", 40), ("test", 20)):
        np.save(folder / f"x_{name}.npy", rng.normal(size=(n, 6)))
        np.save(folder / f"y_{name}.npy", np.arange(n, dtype=np.int32) % 3)


def libsvm_files(folder: Path) -> None:
    (folder / "train").write_text("".join(f"{'+1' if k % 3 else '-1'} 1:{k} {2 + k % 5}:0.5\n" for k in range(40)))
    (folder / "test").write_text("".join(f"{'+1' if k % 2 else '-1'} {1 + k % 8}:2\n" for k in range(20)))


def csv_files(folder: Path) -> None:
    for name, n in (("train.csv", 40), ("test.csv", 20)):
        rows = "".join(f'{k},{k / 3},"{("red", "blue")[k % 2]}",{("no", "yes")[k % 3 == 0]}\n' for k in range(n))
        (folder / name).write_text(f"id,width,colour,sold\n{rows}")


def text_files(folder: Path) -> None:
    words = ("one", "two", "three", "four", "five", "six")
    for name, n in (("train.tsv", 40), ("test.tsv", 20)):
        lines = [f"{('odd', 'even')[k % 2]}\t{' '.join(words[: 1 + k % 6])}!" for k in range(n)]
        (folder / name).write_text("\n".join(lines) + "\n")


def trec_files(folder: Path) -> None:
    for name in ("train_5500.label", "TREC_10.label"):
        lines = [f"{('NUM:count How many', 'HUM:ind Who is')[k % 2]} number {k} ?" for k in range(30)]
        (folder / name).write_text("\n".join(lines) + "\n")


def saved_dataset(folder: Path) -> None:
    from datasets import Dataset, DatasetDict
    from tqdm import tqdm

    tqdm.monitor_interval = 0  # no thread beside its bars
    splits = {
        name: Dataset.from_dict({"x": [[k, k / 2] for k in range(n)], "label": [k % 2 for k in range(n)]})
        for name, n in (("train", 30), ("test", 20))
    }
    DatasetDict(splits).save_to_disk(str(folder))


ARGS: dict[str, dict[str, Any]] = {
    "images": {"size": 16},
    "imagenet": {"size": 16},
    "libsvm": {"train": "train", "test": "test"},
    "csv": {"train": "train.csv", "test": "test.csv", "label": "sold"},
    "text": {"train": "train.tsv", "test": "test.tsv"},
}
MAKERS: dict[str, Callable[[Path], None]] = {
    "digits": lambda folder: None,
    "mnist": idx_files,
    "fashion_mnist": lambda folder: idx_files(folder, "FashionMNIST"),
    "rotated_mnist": idx_files,
    "cifar10": cifar_files,
    "cifar100": lambda folder: cifar_files(folder, hundred=True),
    "images": image_files,
    "imagenet": lambda folder: image_files(folder, ("train", "val")),
    "numpy": numpy_files,
    "libsvm": libsvm_files,
    "csv": csv_files,
    "text": text_files,
    "trec": trec_files,
    "huggingface": saved_dataset,
}
"""What writes the files of each built-in data set."""


def made(name: str, folder: Path) -> DataConfig:
    """The configuration of the built-in data set `name`, whose files are made in `folder`."""
    MAKERS[name](folder)
    return DataConfig(name=name, root=str(folder), args=ARGS.get(name, {}))
