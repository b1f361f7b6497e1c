"""CIFAR-10 and CIFAR-100, from the files as they are distributed (the "python version")."""

import codecs
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from batcher.datasets.arrays import ArraySplit, moments
from batcher.plugin import Data
from proto.errors import ConfigError


def cifar10(root: str, download: bool = False) -> Data:
    """50,000 training and 10,000 test images [3, 32, 32] uint8, 10 classes, from `root`/cifar-10-batches-py."""
    train = [f"data_batch_{number}" for number in range(1, 6)]
    return _cifar("CIFAR10", "cifar-10-batches-py", train, "test_batch", ("batches.meta", "label"), root, download)


def cifar100(root: str, download: bool = False) -> Data:
    """As `cifar10`, in 100 classes (the fine labels), from `root`/cifar-100-python."""
    return _cifar("CIFAR100", "cifar-100-python", ["train"], "test", ("meta", "fine_label"), root, download)


def _cifar(
    name: str, folder: str, train: Sequence[str], test: str, meta: tuple[str, str], root: str, download: bool
) -> Data:
    if not root:
        raise ConfigError("data.root", root, f"needed: the folder that holds {folder} (or one to download to)")
    place = Path(root) / folder
    missing = [file for file in (*train, test, meta[0]) if not (place / file).is_file()]
    try:
        if missing:
            if not download:
                problem = f"{place} lacks {missing[0]}; data.download=true fetches {name}, or unpacks what lies there"
                raise ConfigError("data.root", root, problem)
            # Imported here, and only to fetch: torchvision takes seconds, and the Batcher needs no torch.
            from torchvision import datasets

            getattr(datasets, name)(root, download=True)
        labels = f"{meta[1]}s" if name == "CIFAR100" else "labels"
        learned, held_out = (_split([_read(place / file) for file in files], labels) for files in (train, [test]))
        names = [str(n) for n in _read(place / meta[0])[f"{meta[1]}_names"]]
    except ConfigError:
        raise
    except Exception as error:  # damaged files raise nearly anything
        problem = f"{name} cannot be read: {type(error).__name__}: {error}; remove {place} and set data.download=true"
        raise ConfigError("data.root", root, problem) from None
    mean, std = moments(learned.inputs)
    return Data(learned, held_out, class_names=names, mean=mean, std=std)


def _split(batches: Sequence[dict[str, Any]], labels: str) -> ArraySplit:
    images = np.concatenate([batch["data"] for batch in batches])
    return ArraySplit(images.reshape(-1, 3, 32, 32), np.concatenate([batch[labels] for batch in batches]))


class _ArraysOnly(pickle.Unpickler):
    """CIFAR is distributed as pickles. These hold dicts, lists, texts and arrays; anything else is refused, so that a
    file from anywhere can run no code."""

    def find_class(self, module: str, name: str) -> Any:
        # The names of numpy in 2009 are what stands in the files.
        allowed = {
            ("numpy.core.multiarray", "_reconstruct"): np._core.multiarray._reconstruct,  # type: ignore[attr-defined]
            ("numpy._core.multiarray", "_reconstruct"): np._core.multiarray._reconstruct,  # type: ignore[attr-defined]
            ("numpy", "ndarray"): np.ndarray,
            ("numpy", "dtype"): np.dtype,
            ("_codecs", "encode"): codecs.encode,
        }
        if (module, name) not in allowed:
            raise pickle.UnpicklingError(f"holds {module}.{name}, which is no part of CIFAR")
        return allowed[module, name]


def _read(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        content: dict[str, Any] = _ArraysOnly(file, encoding="latin1").load()
    return content
