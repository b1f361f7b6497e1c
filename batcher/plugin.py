"""The interface people attach their own data with; docs/plugins.md has examples.

A plugin is a callable that returns `Data`, a tuple `(train, test)` or `(train, validation, test)`, or a train split
alone. A split is any map-style torch `Dataset` whose items are `(input, label)`; `__getitems__` is used where it is
offered. It may offer more, which is otherwise derived from the items:

- `labels(ids)`: the labels [n] of the instances `ids`, int64 [n], without loading the inputs;
- `features(ids)`: what the Assistant looks at: float32 [n, D]; or token ids, n int arrays or [n, L] padded with 0;
- `fill(ids, out)`: writes the instances straight into `out["inputs"]` [n, ...] and `out["targets"]` [n];
- `lengths(ids)`: int64 [n], the lengths of inputs that differ in it;
- `collate(items)`: a list of n items as a dict of arrays of n rows;
- `as_evaluated`: a split of the same instances, not augmented, to cut a validation split from;
- `class_names`: the names of the classes, in the order of their numbers;
- `describe(id)`: what a report may show of an instance: a text, or an image uint8 [H, W] or [H, W, 3].
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from batcher.config import DATASETS, DataConfig
from proto.errors import RAISED, ConfigError, raised
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
    epoch_size: int = 0
    """For a stream: instances that count as one Boss epoch; 0: as many as its len() says."""
    test_at_end: bool = False
    """Whether the test split is evaluated only when the budget is used up."""


def load(config: DataConfig) -> Data:
    """The data set that `config` names.

    Raises ConfigError, naming it, when there is none such, when its callable raises, or when a split is empty.
    """
    plugin = resolve("data.name", config.name, DATASETS)
    offered = {"root": config.root, "download": config.download}
    try:
        made = build("data.args", plugin, offered, config.args)
        data = _named(_as_data(made))
        data = replace(data, test=None if config.test == "never" else data.test, test_at_end=config.test == "end")
        for split in ("validation", "test"):
            _check(config.name, split, getattr(data, split))
        if is_stream(data.train):
            return _with_epoch(data, config)
        _check(config.name, "train", data.train)
        if config.epoch_size:
            raise ConfigError(
                "data.epoch_size", config.epoch_size, f"{config.name} is no stream; needed: 0 (use run.budget)"
            )
        return _with_validation(data, config)
    except ConfigError:
        raise
    except ModuleNotFoundError as error:
        raise ConfigError("data.name", config.name, f"needs the package {error.name!r}; install it") from error
    except RAISED as error:  # whatever a user's callable raises is theirs to read
        raise ConfigError("data.name", config.name, f"loading it failed: {raised(error)}") from error


def is_stream(split: Any) -> bool:
    """Whether `split` can only be walked from its beginning: torch's `IterableDataset`, or any iterable without
    `__getitem__`."""
    # By name, since it takes seconds to import torch. It inherits a `__getitem__` that raises.
    iterable = any(cls.__name__ == "IterableDataset" for cls in type(split).__mro__)
    return hasattr(split, "__iter__") and (iterable or not hasattr(split, "__getitem__"))


def _with_epoch(data: Data, config: DataConfig) -> Data:
    """`data`, whose train split is a stream, with the instances that count as one Boss epoch."""
    size = config.epoch_size or data.epoch_size or (len(data.train) if hasattr(data.train, "__len__") else 0)
    if not size:
        problem = f"the stream of {config.name} has no len(); say how many instances count as one Boss epoch"
        raise ConfigError("data.epoch_size", 0, problem)
    if config.val_fraction:
        problem = f"cannot be cut off a stream, as that of {config.name} is; needed: 0, and a validation split"
        raise ConfigError("data.val_fraction", config.val_fraction, problem)
    return replace(data, epoch_size=size)


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
    return replace(
        data, train=Subset(data.train, rest), validation=Subset(getattr(data.train, "as_evaluated", data.train), cut)
    )


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
