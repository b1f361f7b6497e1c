"""Arrays that numpy has saved: `.npy` files, which are memory-mapped, or one `.npz` file."""

from pathlib import Path

import numpy as np

from batcher.datasets.arrays import ArraySplit, moments
from batcher.datasets.files import found, reading
from batcher.plugin import Data
from proto.errors import ConfigError
from proto.types import Array


def numpy_files(root: str, file: str = "") -> Data:
    """`x_train` [N, ...] and `y_train` [N], and x_val, y_val, x_test, y_test where they are.

    They lie in the `.npz` file `file` in the folder `root`, or each in a `.npy` file there. Grey images uint8 [N, H, W]
    get a channel, colours that come last ([N, H, W, 3]) are moved to [N, 3, H, W]. Labels are class numbers, or float.
    Arrays of a `.npy` file stay on disk and are read as they are needed.
    """
    if file:
        path = found(root, "data.args.file", file)
        with reading(path), np.load(path, allow_pickle=False) as packed:
            arrays = {name: packed[name] for name in packed.files}
    else:
        path = Path(root)
        arrays = {p.stem: _mapped(p) for p in sorted(path.glob("*.npy"))}
    if missing := [name for name in ("x_train", "y_train") if name not in arrays]:
        key, value = ("data.args.file", file) if file else ("data.root", root)
        there = ", ".join(sorted(arrays)) or "none"
        raise ConfigError(key, value, f"{path} has no array {missing[0]!r}; arrays there: {there}")
    train, validation, test = (_split(arrays, name) for name in ("train", "val", "test"))
    assert train is not None
    pictures = train.inputs.dtype == np.uint8 and train.inputs.ndim == 4
    mean, std = moments(train.inputs) if pictures else ((), ())
    return Data(train, test, validation, mean=mean, std=std)


def _mapped(path: Path) -> Array:
    with reading(path):
        array: Array = np.load(path, mmap_mode="r", allow_pickle=False)
    return array


def _split(arrays: dict[str, Array], name: str) -> ArraySplit | None:
    if f"x_{name}" not in arrays:
        return None
    if f"y_{name}" not in arrays:
        raise ValueError(f"there is an array x_{name}, but no y_{name}")
    inputs, labels = arrays[f"x_{name}"], arrays[f"y_{name}"]
    if inputs.dtype == np.uint8 and inputs.ndim == 3:
        inputs = inputs[:, None]
    if inputs.dtype == np.uint8 and inputs.ndim == 4 and inputs.shape[-1] in (1, 3) and inputs.shape[1] not in (1, 3):
        inputs = np.moveaxis(inputs, -1, 1)
    # Keras keeps its labels as a column.
    return ArraySplit(inputs, labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 else labels)
