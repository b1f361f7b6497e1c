"""The interface people attach their own data with; docs/plugins.md has examples.

A plugin is a callable that returns `Data`, a tuple `(train, test)` or `(train, validation, test)`, or a train split
alone. A split is any map-style torch `Dataset` whose items are `(input, label)`; `__getitems__` is used where it is
offered. It may offer more, which is otherwise derived from the items:

- `labels(ids)`: the labels [n] of the instances `ids`, int64 [n], without loading the inputs;
- `features(ids)`: float32 [n, D], what the Assistant looks at; or int64 [n, L], token ids padded with 0;
- `fill(ids, out)`: writes the instances straight into `out["inputs"]` [n, ...] and `out["targets"]` [n];
- `lengths(ids)`: int64 [n], the lengths of inputs that differ in it;
- `collate(items)`: a list of n items as a dict of arrays of n rows;
- `class_names`: the names of the classes, in the order of their numbers;
- `describe(id)`: what a report may show of an instance: a text, or an image uint8 [H, W] or [H, W, 3].
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
    """A data set: its splits, the names of its classes, the per-channel mean and deviation (of inputs in [0, 1]) that
    the Boss normalises uint8 inputs with, and for token ids how many different ones there are (0 is padding)."""

    train: Split
    test: Split | None = None
    validation: Split | None = None
    class_names: Sequence[str] = ()
    mean: Sequence[float] = ()
    std: Sequence[float] = ()
    vocabulary: int = 0
    structure: str = ""
    """What instances are put together to where batches arrive, as `proto.structure` has it in JSON; "": pairs."""


def load(config: DataConfig) -> Data:
    """The data set that `config` names.

    Raises ConfigError, naming it, when there is none such, when its callable raises, or when a split is empty.
    """
    plugin = resolve("data.name", config.name, DATASETS)
    offered = {"root": config.root, "download": config.download}
    try:
        made = build("data.args", plugin, offered, config.args)
        data = _named(_as_data(made))
        for split in ("train", "validation", "test"):
            _check(config.name, split, getattr(data, split))
        return _with_validation(data, config)
    except ConfigError:
        raise
    except ModuleNotFoundError as error:
        raise ConfigError("data.name", config.name, f"needs the package {error.name!r}; install it") from error
    except Exception as error:  # whatever a user's callable raises is theirs to read
        raise ConfigError("data.name", config.name, f"loading it failed: {type(error).__name__}: {error}") from error


def no_test(name: str) -> str:
    """What a run says once of a data set without a test split."""
    return f"data set {name} has no test split: no test accuracy is measured"


def _as_data(made: Any) -> Data:
    if isinstance(made, tuple) and len(made) == 2:
        return Data(made[0], made[1])
    if isinstance(made, tuple) and len(made) == 3:
        return Data(made[0], validation=made[1], test=made[2])
    return made if isinstance(made, Data) else Data(made)


def _named(data: Data) -> Data:
    """`data` with the class names that its train split offers, where it gives none itself."""
    for offered in ("class_names", "classes"):  # torchvision's data sets have `classes`
        names = getattr(data.train, offered, None)
        if not len(data.class_names) and isinstance(names, list | tuple) and all(isinstance(n, str) for n in names):
            return replace(data, class_names=tuple(names))
    return data


def _check(name: str, split: str, part: Any) -> None:
    if part is None and split != "train":
        return
    if not (hasattr(part, "__len__") and hasattr(part, "__getitem__")):
        raise ConfigError(
            "data.name", name, f"its {split} split is a {type(part).__name__}; needed: __len__, __getitem__"
        )
    if len(part) == 0:
        raise ConfigError("data.name", name, f"its {split} split is empty; check data.root and data.args")


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
        for name in ("labels", "features", "lengths"):
            if offered := getattr(split, name, None):
                setattr(self, name, lambda some, offered=offered: offered(ids[some]))
        if fill := getattr(split, "fill", None):
            self.fill = lambda some, out: fill(ids[some], out)
        if many := getattr(split, "__getitems__", None):
            self.__getitems__ = lambda some: many(ids[some].tolist())
        if describe := getattr(split, "describe", None):
            self.describe = lambda index: describe(int(ids[index]))
        if (targets := getattr(split, "targets", None)) is not None:
            self.targets = np.asarray(targets)[ids]
        for name in ("collate", "class_names", "classes"):
            if (value := getattr(split, name, None)) is not None:
                setattr(self, name, value)

    def __len__(self) -> int:
        return len(self._ids)

    def __getitem__(self, index: int) -> Any:
        return self._split[int(self._ids[index])]
