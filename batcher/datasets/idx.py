"""MNIST and Fashion-MNIST, from the IDX files as they are distributed."""

import gzip
import hashlib
import math
import os
import shutil
import zlib
from pathlib import Path

import numpy as np

from batcher.datasets.arrays import ArraySplit, moments
from batcher.plugin import Data
from proto.errors import ConfigError
from proto.types import Array

FILES = [f"{part}-{kind}-ubyte" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")]
CLOTHES = ("T-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot")


def mnist(root: str, download: bool = False) -> Data:
    """60,000 training and 10,000 test images [1, 28, 28] uint8, 10 classes, from `root`/MNIST/raw.

    Packed files are unpacked into our cache, never beside the user's. Raises ConfigError when there are none.
    """
    train, test = _splits("MNIST", root, download)
    names = [str(digit) for digit in range(10)]
    return Data(train, test, class_names=names, mean=(0.1307,), std=(0.3081,))


def fashion_mnist(root: str, download: bool = False) -> Data:
    """As `mnist`, of clothes, from `root`/FashionMNIST/raw."""
    train, test = _splits("FashionMNIST", root, download)
    mean, std = moments(train.inputs)
    return Data(train, test, class_names=CLOTHES, mean=mean, std=std)


def _splits(name: str, root: str, download: bool) -> tuple[ArraySplit, ArraySplit]:
    """The two splits of torchvision's data set `name`."""
    if not root:
        raise ConfigError("data.root", root, f"needed: the folder that holds {name}/raw (or one to download to)")
    raw = Path(root) / name / "raw"
    try:
        if not any(all((raw / f"{file}{end}").is_file() for file in FILES) for end in ("", ".gz")):
            if not download:
                problem = f"{raw} does not hold the four {name} files; data.download=true fetches them"
                raise ConfigError("data.root", root, problem)
            # Imported here, and only to fetch: torchvision takes seconds, and the Batcher needs no torch.
            from torchvision import datasets

            getattr(datasets, name)(root, download=True)
        folder = raw if all((raw / file).is_file() for file in FILES) else _unpacked(raw, name)
        arrays = [_read(folder / file) for file in FILES]
    except ConfigError:
        raise
    except (OSError, EOFError, RuntimeError, ValueError, zlib.error) as error:  # as torchvision and gzip do
        raise ConfigError("data.root", root, f"{name} cannot be read: {error}") from None
    train, test = (ArraySplit(images[:, None], labels) for images, labels in (arrays[:2], arrays[2:]))
    return train, test


def _read(path: Path) -> Array:
    """The array in an IDX file of unsigned bytes. Raises ValueError when it is none, or not whole."""
    content = np.fromfile(path, np.uint8)
    ndim = int(content[3]) if len(content) > 3 else 0
    head = 4 + 4 * ndim
    shape = tuple(content[4:head].view(">i4").tolist()) if len(content) >= head else ()
    if content[:3].tolist() != [0, 0, 8] or len(shape) != ndim or math.prod(shape) != len(content) - head:
        raise ValueError(f"{path.name} is no IDX file of bytes, or not whole")
    return content[head:].reshape(shape)


def _unpacked(raw: Path, name: str) -> Path:
    """The folder in a cache of ours with the files of `raw` unpacked. Files that changed since are unpacked again."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    marks = [str(raw.resolve()), *(str((raw / f"{file}.gz").stat().st_mtime_ns) for file in FILES)]
    digest = hashlib.sha256(" ".join(marks).encode()).hexdigest()[:12]
    target = home / "autoassist" / f"{name.lower()}-{digest}" / name / "raw"
    target.mkdir(parents=True, exist_ok=True)
    for file in FILES:
        if not (target / file).is_file():
            partial = target / f".{file}.{os.getpid()}"
            try:
                with gzip.open(raw / f"{file}.gz") as packed, partial.open("wb") as unpacked:
                    shutil.copyfileobj(packed, unpacked)
                partial.replace(target / file)
            finally:
                partial.unlink(missing_ok=True)
    return target
