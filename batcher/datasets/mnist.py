"""MNIST, read by torchvision."""

import hashlib
import os
import shutil
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
    if all((raw / name).is_file() for name in FILES):
        folder, unpack = root, False
    elif all((raw / f"{name}.gz").is_file() for name in FILES):
        folder, unpack = str(_copy_packed(raw)), True
    elif download:
        folder, unpack = root, True
    else:
        raise ConfigError(
            "data.root", root, f"{raw} does not hold the four MNIST files; data.download=true fetches them"
        )
    try:
        train, test = (MNIST(folder, train=part, download=unpack) for part in (True, False))
    except (OSError, RuntimeError, ValueError) as error:
        raise ConfigError("data.root", root, f"MNIST cannot be read: {error}") from None
    names = [str(digit) for digit in range(10)]
    return Data(_in_memory(train), _in_memory(test), class_names=names, mean=(0.1307,), std=(0.3081,))


def _in_memory(split: Any) -> ArraySplit:
    return ArraySplit(split.data.numpy()[:, None], split.targets.numpy())


def _copy_packed(raw: Path) -> Path:
    """A cache folder of ours that holds the packed files of `raw`, for torchvision to check and unpack."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    key = hashlib.sha256(str(raw.resolve()).encode()).hexdigest()[:12]
    folder = home / "autoassist" / f"mnist-{key}"
    for name in (f"{name}.gz" for name in FILES):
        target = folder / "MNIST" / "raw" / name
        if not target.is_file() or target.stat().st_size != (raw / name).stat().st_size:
            target.parent.mkdir(parents=True, exist_ok=True)
            partial = target.with_name(f"{name}.{os.getpid()}")
            shutil.copyfile(raw / name, partial)
            partial.replace(target)
    return folder
