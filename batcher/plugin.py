"""The interface people attach their own data with.

A plugin is a callable that returns `Data`, a `(train, test)` pair, or a train split alone. A split is any map-style
torch `Dataset` whose items are `(input, label)`; `__getitems__` is used where it is offered. It may offer more, and is
then read faster:

- `labels(ids)`: int64 [n], without loading the inputs;
- `features(ids)`: float32 [n, D], what the Assistant looks at;
- `fill(ids, out)`: writes the instances straight into `out["inputs"]` [n, ...] and `out["targets"]` [n].

With `describe(id)`, which says in a few words what an instance is (its file, say), suspects.csv is easier to read.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from batcher.config import DATASETS, DataConfig
from proto.errors import ConfigError
from proto.resolver import build, resolve
from proto.types import Int64s

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
        if describe := getattr(split, "describe", None):
            self.describe = lambda one: describe(int(ids[one]))
        if many := getattr(split, "__getitems__", None):
            self.__getitems__ = lambda some: many(ids[some].tolist())
        if (targets := getattr(split, "targets", None)) is not None:
            self.targets = np.asarray(targets)[ids]

    def __len__(self) -> int:
        return len(self._ids)

    def __getitem__(self, index: int) -> Any:
        return self._split[int(self._ids[index])]
