"""MNIST, read by torchvision."""

import gzip
import hashlib
import os
import shutil
import zlib
from pathlib import Path
from typing import Any

from batcher.datasets.arrays import ArraySplit
from batcher.plugin import Data
from proto.errors import ConfigError

FILES = [f"{part}-{kind}-ubyte" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")]


def mnist(root: str, download: bool = False) -> Data:
    """60,000 training and 10,000 test images [1, 28, 28] uint8, 10 classes, from `root`/MNIST/raw.

    Packed files are unpacked into our cache, never beside the user's. Raises ConfigError when there are none.
    """
    if not root:
        raise ConfigError("data.root", root, "mnist needs the folder that holds MNIST/raw (or one to download to)")
    # Imported here: torchvision takes seconds, and other data sets do not need it.
    from torchvision.datasets import MNIST

    raw = Path(root) / "MNIST" / "raw"
    try:
        if all((raw / name).is_file() for name in FILES):
            folder, fetch = Path(root), False
        elif all((raw / f"{name}.gz").is_file() for name in FILES):
            folder, fetch = _unpacked(raw), False
        elif download:
            folder, fetch = Path(root), True
        else:
            problem = f"{raw} does not hold the four MNIST files; data.download=true fetches them"
            raise ConfigError("data.root", root, problem)
        train, test = (MNIST(folder, train=part, download=fetch) for part in (True, False))
    except ConfigError:
        raise
    except (OSError, EOFError, RuntimeError, ValueError, AssertionError, zlib.error) as error:  # as torchvision does
        raise ConfigError("data.root", root, f"MNIST cannot be read: {error}") from None
    names = [str(digit) for digit in range(10)]
    return Data(_in_memory(train), _in_memory(test), class_names=names, mean=(0.1307,), std=(0.3081,))


def _in_memory(split: Any) -> ArraySplit:
    return ArraySplit(split.data.numpy()[:, None], split.targets.numpy())


def _unpacked(raw: Path) -> Path:
    """A cache folder of ours with the files of `raw` unpacked. Files that changed since are unpacked again."""
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
    return folder
