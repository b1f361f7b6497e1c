"""The interface people attach their own data with.

A plugin is a callable that returns `Data`, a `(train, test)` pair, or a train split alone. A split is any map-style
torch `Dataset` whose items are `(input, label)`. It may offer more, and is then read faster:

- `labels(ids)`: int64 [n], without loading the inputs;
- `features(ids)`: float32 [n, D], what the Assistant looks at;
- `fill(ids, out)`: writes the instances straight into `out["inputs"]` [n, ...] and `out["targets"]` [n].
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from batcher.config import DATASETS, DataConfig
from proto.errors import ConfigError
from proto.resolver import build, resolve
from proto.transport import Layout
from proto.types import Array, Bools, Float32s, Int64s

VALIDATION_SEED = 0
"""The same instances validate whatever the run's seed, so that runs can be compared."""


class Split(Protocol):
    """What a split must have; see the module for what it may have."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> Any: ...


@dataclass(frozen=True)
class Data:
    """A data set: its splits, the names of its classes, and the per-channel mean and deviation (of inputs in [0, 1])
    that the Boss normalises uint8 inputs with."""

    train: Split
    test: Split | None = None
    validation: Split | None = None
    class_names: Sequence[str] = ()
    mean: Sequence[float] = ()
    std: Sequence[float] = ()


def load(config: DataConfig) -> Data:
    """The data set that `config` names. Raises ConfigError when there is none such or it is empty."""
    plugin = resolve("data.name", config.name, DATASETS)
    made = build("data.args", plugin, {"root": config.root, "download": config.download}, config.args)
    if isinstance(made, tuple) and len(made) == 2:
        made = Data(*made)
    data = made if isinstance(made, Data) else Data(made)
    for split in ("train", "validation", "test"):
        part = getattr(data, split)
        if part is not None and not (hasattr(part, "__len__") and hasattr(part, "__getitem__")):
            raise ConfigError(
                "data.name", config.name, f"its {split} split is a {type(part).__name__}; needed: __len__, __getitem__"
            )
        if part is not None and len(part) == 0:
            raise ConfigError("data.name", config.name, f"its {split} split is empty")
    return _with_validation(data, config)


def _with_validation(data: Data, config: DataConfig) -> Data:
    """`data` with `data.val_fraction` of its training split cut off as validation split, if one is asked for."""
    if not config.val_fraction:
        return data
    if data.validation is not None:
        raise ConfigError(
            "data.val_fraction", config.val_fraction, f"{config.name} has a validation split of its own; use 0"
        )
    size = len(data.train)
    count = round(size * config.val_fraction)
    if not 0 < count < size:
        raise ConfigError(
            "data.val_fraction", config.val_fraction, f"leaves {size - count} of {size} instances to train on"
        )
    ids = np.random.default_rng(VALIDATION_SEED).permutation(size)
    cut, rest = np.sort(ids[:count]), np.sort(ids[count:])
    return replace(data, train=Subset(data.train, rest), validation=Subset(data.train, cut))


class Subset:
    """Those instances of a split whose ids are `ids`, named 0 to len(ids) - 1; offers what the split offers."""

    def __init__(self, split: Split, ids: Int64s) -> None:
        self._split, self._ids = split, ids
        for name in ("labels", "features"):
            if offered := getattr(split, name, None):
                setattr(self, name, lambda some, offered=offered: offered(ids[some]))
        if fill := getattr(split, "fill", None):
            self.fill = lambda some, out: fill(ids[some], out)
        if (targets := getattr(split, "targets", None)) is not None:
            self.targets = np.asarray(targets)[ids]

    def __len__(self) -> int:
        return len(self._ids)

    def __getitem__(self, index: int) -> Any:
        return self._split[int(self._ids[index])]


class Source:
    """A split behind the one interface the Batcher uses; what the split does not offer is derived from its items."""

    def __init__(self, split: Split, name: str) -> None:
        """Raises ConfigError, naming the data set `name`, when its first item is no pair of input and class number."""
        self.split, self.size, self.name = split, len(split), name
        try:
            inputs, label = split[0]
        except (TypeError, ValueError):
            raise ConfigError("data.name", name, "its items are no pairs (input, label)") from None
        example = _plain(inputs)
        if example.dtype.kind not in "fiu" or np.ndim(label) != 0 or np.asarray(label).dtype.kind not in "iub":
            raise ConfigError(
                "data.name",
                name,
                f"an item is ({type(inputs).__name__}, {label!r:.40}); needed: an array or tensor, and a class number",
            )
        self.shape, self.dtype = example.shape, example.dtype
        self._fill = getattr(split, "fill", None)
        self._labels = getattr(split, "labels", None)
        targets = np.asarray(getattr(split, "targets", ()))  # torchvision's data sets keep their labels there
        fits = targets.shape == (self.size,) and targets.dtype.kind in "iu"
        self._targets: Int64s | None = targets.astype(np.int64) if fits else None
        self._features = getattr(split, "features", None)

    def layout(self, n: int) -> Layout:
        """Shapes and dtypes of the arrays of a batch of n instances."""
        return {"inputs": ((n, *self.shape), self.dtype), "targets": ((n,), np.dtype(np.int64))}

    def fill(self, ids: Int64s, out: Mapping[str, Array]) -> None:
        """Writes the instances `ids` into the arrays `out` of `layout(len(ids))`."""
        if self._fill is not None:
            self._fill(ids, out)
            return
        for row, index in enumerate(ids.tolist()):
            inputs, out["targets"][row] = self.split[index]
            array = _plain(inputs)
            if array.shape != self.shape:
                raise ValueError(f"instance {index} has shape {list(array.shape)}, instance 0 {list(self.shape)}")
            out["inputs"][row] = array

    def broken(self, arrays: Mapping[str, Array]) -> Bools:
        """Which of the assembled instances, bool [n], cannot be trained on: their input is not finite."""
        inputs = arrays["inputs"]
        finite = np.ones(len(inputs), bool)
        if inputs.dtype.kind == "f" and not np.isfinite(inputs).all():
            finite &= np.isfinite(inputs.reshape(len(inputs), -1)).all(axis=1)
        return ~finite

    def take(self, ids: Int64s) -> dict[str, Array]:
        """The instances `ids`, in new arrays."""
        arrays = {name: np.empty(shape, dtype) for name, (shape, dtype) in self.layout(len(ids)).items()}
        self.fill(ids, arrays)
        return arrays

    def labels(self, ids: Int64s) -> Int64s | None:
        """Labels int64 [n] of `ids`, or None when they cannot be had without loading the inputs."""
        if self._labels is not None:
            return np.asarray(self._labels(ids), np.int64)
        return None if self._targets is None else self._targets[ids]

    def features(self, ids: Int64s) -> Float32s | None:
        """Features float32 [n, D] of `ids`, or None when the split offers none."""
        return None if self._features is None else np.asarray(self._features(ids), np.float32)

    def classes(self, named: int = 0) -> int:
        """Number of classes: the `named` ones, or the largest label + 1.

        Reads every item where neither names nor labels can be had otherwise. Raises ConfigError when a label is not one
        of the classes.
        """
        labels = self.labels(np.arange(self.size))
        if labels is None and not named:
            labels = self._targets = np.array([self.split[i][1] for i in range(self.size)], np.int64)
        low, high = (0, named - 1) if labels is None else (int(labels.min()), int(labels.max()))
        if low < 0 or (named and high >= named):
            wrong, classes = (low if low < 0 else high), f"0 to {named - 1}" if named else "0, 1, ..."
            raise ConfigError("data.name", self.name, f"label {wrong} is none of its classes {classes}")
        return named or high + 1


def _plain(inputs: Any) -> Array:
    """An input as an array of a dtype that travels: float32, or the integer type it has."""
    array = np.asarray(inputs)
    if array.dtype.kind == "f":
        return array.astype(np.float32, copy=False)
    return array.astype(np.int64, copy=False) if array.dtype.kind in "iub" and array.dtype != np.uint8 else array
