"""MNIST, from the files as they are distributed."""

import gzip
import hashlib
import math
import os
import shutil
import zlib
from pathlib import Path

import numpy as np

from batcher.datasets.arrays import ArraySplit
from batcher.plugin import Data
from proto.errors import ConfigError
from proto.types import Array

FILES = [f"{part}-{kind}-ubyte" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")]


def mnist(root: str, download: bool = False) -> Data:
    """60,000 training and 10,000 test images [1, 28, 28] uint8, 10 classes, from `root`/MNIST/raw.

    Packed files are unpacked into our cache, never beside the user's. Raises ConfigError when there are none.
    """
    if not root:
        raise ConfigError("data.root", root, "mnist needs the folder that holds MNIST/raw (or one to download to)")
    raw = Path(root) / "MNIST" / "raw"
    try:
        if not any(all((raw / f"{name}{end}").is_file() for name in FILES) for end in ("", ".gz")):
            if not download:
                problem = f"{raw} does not hold the four MNIST files; data.download=true fetches them"
                raise ConfigError("data.root", root, problem)
            # Imported here, and only to fetch: torchvision takes seconds, and the Batcher needs no torch.
            from torchvision.datasets import MNIST

            MNIST(root, download=True)
        folder = raw if all((raw / name).is_file() for name in FILES) else _unpacked(raw)
        arrays = [_read(folder / name) for name in FILES]
    except ConfigError:
        raise
    except (OSError, EOFError, RuntimeError, ValueError, zlib.error) as error:  # as torchvision and gzip do
        raise ConfigError("data.root", root, f"MNIST cannot be read: {error}") from None
    train, test = (ArraySplit(images[:, None], labels) for images, labels in (arrays[:2], arrays[2:]))
    names = [str(digit) for digit in range(10)]
    return Data(train, test, class_names=names, mean=(0.1307,), std=(0.3081,))


def _read(path: Path) -> Array:
    """The array in an IDX file of unsigned bytes. Raises ValueError when it is none, or not whole."""
    content = np.fromfile(path, np.uint8)
    ndim = int(content[3]) if len(content) > 3 else 0
    head = 4 + 4 * ndim
    shape = tuple(content[4:head].view(">i4").tolist()) if len(content) >= head else ()
    if content[:3].tolist() != [0, 0, 8] or len(shape) != ndim or math.prod(shape) != len(content) - head:
        raise ValueError(f"{path.name} is no IDX file of bytes, or not whole")
    return content[head:].reshape(shape)


def _unpacked(raw: Path) -> Path:
    """The folder in a cache of ours with the files of `raw` unpacked. Files that changed since are unpacked again."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    marks = [str(raw.resolve()), *(str((raw / f"{name}.gz").stat().st_mtime_ns) for name in FILES)]
    folder = home / "autoassist" / f"mnist-{hashlib.sha256(' '.join(marks).encode()).hexdigest()[:12]}"
    target = folder / "MNIST" / "raw"
    target.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        if not (target / name).is_file():
            partial = target / f".{name}.{os.getpid()}"
            try:
                with gzip.open(raw / f"{name}.gz") as packed, partial.open("wb") as unpacked:
                    shutil.copyfileobj(packed, unpacked)
                partial.replace(target / name)
            finally:
                partial.unlink(missing_ok=True)
    return target
