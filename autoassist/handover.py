"""Hands the user's data set to the Batcher: cloudpickle into memory without a name, which the Batcher inherits.

Functions and classes of the user's script travel by value, so the script is never imported again. Arrays and tensors
are left out of the pickle and lie beside it, where the Batcher and its decoding processes map them: one copy for all.
"""

import fcntl
import io
import json
import os
import pickle
import sys
from collections.abc import Callable, Iterator
from typing import Any

import cloudpickle
import numpy as np
import torch
from torch.utils.data import Subset as TorchSubset
from torch.utils.data import TensorDataset

from batcher.collate import plain
from batcher.datasets.arrays import ArraySplit
from batcher.handed import sizes
from batcher.plugin import Subset, is_stream
from proto.errors import ConfigError

SEALS = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
DEPTH = 6
"""How deep an attribute that cannot travel is looked for."""


def hand_over(train_set: Any, factory: Callable[[], Any] | str | None, classes: int) -> int:
    """The descriptor of memory that `batcher.handed.read` makes `train_set`, or what `factory` returns, of.

    Raises ConfigError when it cannot travel, with the attribute that fails.
    """
    if (train_set is None) == (factory is None):
        raise ConfigError("train_set", train_set, "needed: either a data set or factory=, not both")
    name, thing = ("factory", factory) if factory is not None else ("train_set", adapted(train_set))
    map_style = hasattr(train_set, "__getitem__") and hasattr(train_set, "__len__")
    if factory is None and not map_style and not is_stream(train_set):
        raise ConfigError(name, train_set, "is no data set; needed: __len__ and __getitem__, or __iter__ for a stream")
    if factory is not None and not isinstance(factory, str) and not callable(factory):
        raise ConfigError(name, factory, "needed: a callable that returns the data set, or 'module:callable'")
    buffers: list[pickle.PickleBuffer] = []
    pickled = _pickled(name, thing, buffers)
    parts = [memoryview(pickled), *(buffer.raw() for buffer in buffers)]
    header = {
        "lengths": [part.nbytes for part in parts],
        "factory": factory is not None,
        "classes": classes,
        "shown": f"{train_set if factory is None else factory!r}"[:200],
        "path": [os.path.abspath(path) for path in sys.path],
    }
    return _written(json.dumps(header).encode(), parts)


def _written(header: bytes, parts: list[memoryview]) -> int:
    descriptor = os.memfd_create("autoassist-data", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        with os.fdopen(os.dup(descriptor), "wb") as file:
            file.write(len(header).to_bytes(8, "little") + header)
            start = sizes([8 + len(header)])[1]
            for at, part in zip(sizes([part.nbytes for part in parts]), parts, strict=False):
                file.seek(start + at)
                file.write(part)
        # Nobody changes what will be unpickled.
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, SEALS)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


# -- what travels


class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Cloudpickle's; tensors in the CPU's memory travel as the arrays they are."""

    def reducer_override(self, obj: Any) -> Any:
        if type(obj) is torch.Tensor:
            if obj.device.type != "cpu":
                raise pickle.PicklingError(f"a tensor on {obj.device} cannot travel; use tensor.cpu()")
            if obj.layout == torch.strided and not obj.requires_grad and obj.dtype in NUMPY:
                return torch.from_numpy, (np.ascontiguousarray(obj.numpy()).reshape(obj.shape),)
        return super().reducer_override(obj)


NUMPY = {
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
    torch.float16, torch.float32, torch.float64, torch.complex64, torch.complex128,
}  # fmt: skip
"""Dtypes that numpy has, too."""


def _pickled(name: str, thing: Any, buffers: list[pickle.PickleBuffer]) -> bytes:
    try:
        return _dumps(thing, buffers)
    except Exception as error:  # whatever an object's __reduce__ raises
        where, found, reason = _culprit(name, thing, error)
        raise ConfigError(
            where,
            found,
            f"cannot travel to the Batcher: {reason}; open or make it in the first __getitem__, leave it out in "
            "__getstate__, or pass factory=, a callable or 'module:callable' that makes the data set there",
        ) from error


def _dumps(thing: Any, buffers: list[pickle.PickleBuffer] | None = None) -> bytes:
    file = io.BytesIO()
    keep = None if buffers is None else lambda buffer: buffers.append(buffer)
    Pickler(file, protocol=5, buffer_callback=keep).dump(thing)
    return file.getvalue()


def _culprit(name: str, thing: Any, error: Exception, depth: int = DEPTH) -> tuple[str, Any, str]:
    """The innermost part of `thing` that cannot be pickled: what it is called, itself, and why."""
    for label, part in _parts(thing) if depth else ():
        try:
            _dumps(part)
        except Exception as inner:  # as above
            return _culprit(f"{name}{label}", part, inner, depth - 1)
    return name, thing, f"{error}"


def _parts(thing: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(thing, dict):
        yield from ((f"[{key!r}]", value) for key, value in thing.items())
    elif isinstance(thing, list | tuple):
        yield from ((f"[{k}]", value) for k, value in enumerate(thing))
    elif closure := getattr(thing, "__closure__", None):
        names = thing.__code__.co_freevars
        yield from ((f" uses {name}", cell.cell_contents) for name, cell in zip(names, closure, strict=True))
    elif not isinstance(thing, type):
        yield from ((f".{key}", value) for key, value in getattr(thing, "__dict__", {}).items())


def adapted(train_set: Any) -> Any:
    """`train_set`, or what offers the same instances faster: arrays in memory are gathered without torch's help."""
    if type(train_set) is TensorDataset and len(train_set.tensors) == 2:
        inputs, labels = train_set.tensors
        known = {inputs.dtype, labels.dtype} <= NUMPY and {inputs.device.type, labels.device.type} == {"cpu"}
        if known and labels.ndim == 1 and not labels.dtype.is_floating_point and not labels.dtype.is_complex:
            return ArraySplit(plain(inputs.detach().numpy()), labels.numpy())
    if type(train_set) is TorchSubset:
        return Subset(adapted(train_set.dataset), np.asarray(train_set.indices, np.int64))
    return train_set
