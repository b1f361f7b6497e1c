"""Data sets with a mistake in each; worker processes can load them, too."""

import itertools
import os
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

SIZE = 12
COUNT = itertools.count()


def vector(index: int) -> Any:
    return np.full(3, index, np.float32)


class Split:
    """Item i is `item(i)`; further offers are attributes."""

    def __init__(self, item: Callable[[int], Any], size: int = SIZE, **offers: Any) -> None:
        self.item, self.size = item, size
        self.__dict__.update(offers)

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> Any:
        if index >= SIZE:
            raise IndexError(f"no item {index}")
        return self.item(index)


def torn(index: int) -> Any:
    if index == 7:
        raise OSError("image file is truncated")
    return vector(index), index % 2


def sound(index: int) -> Any:
    return vector(index), index % 2


def half_filled(ids: Any, out: Mapping[str, Any]) -> None:
    out["inputs"][1:] = np.stack([vector(int(index)) for index in ids[1:]])
    out["targets"][...] = ids % 2


def drawn(index: int) -> Any:
    """Random as it should be: from the generator that is seeded for each instance."""
    return vector(index) + np.random.random(3).astype(np.float32), index % 2  # noqa: NPY002


MADE: dict[str, Callable[[], Split]] = {
    "sound": lambda: Split(sound, targets=np.arange(SIZE) % 2),
    "random": lambda: Split(drawn),
    "to be predicted": lambda: Split(lambda index: (vector(index), index / 2)),
    "len": lambda: Split(sound, size=20),
    "torn": lambda: Split(torn),
    "no pair": lambda: Split(vector),
    "text input": lambda: Split(lambda index: ("words", 0)),
    "text label": lambda: Split(lambda index: (vector(index), "cat")),
    "object": lambda: Split(lambda index: (np.array([None]), 0)),
    "mixed dtypes": lambda: Split(lambda index: (vector(index).astype(("f4", "i8")[index % 2]), 0)),
    "not finite": lambda: Split(lambda index: (np.where(index, vector(index), np.float32("nan")), 0)),
    "too large": lambda: Split(lambda index: (np.full(3, 1e39), 0)),
    "shapes": lambda: Split(lambda index: (np.ones((2, 3 + index % 2)), 0)),
    "ragged": lambda: Split(lambda index: (np.ones(1 + index % 3), 0)),
    "ragged, with lengths": lambda: Split(lambda index: (np.ones(1 + index % 3), 0), lengths=lambda ids: 1 + ids % 3),
    "short lengths": lambda: Split(lambda index: (np.ones(1 + index % 3), 0), lengths=lambda ids: 1 + ids * 0),
    "lengths of no shape": lambda: Split(lambda index: (np.ones(1 + index), 0), lengths=lambda ids: ids.max()),
    "negative": lambda: Split(lambda index: (vector(index), index % 3 - 1)),
    "negative targets": lambda: Split(lambda i: (vector(i), i % 2 - 1), targets=np.arange(SIZE) % 2 - 1),
    "nan": lambda: Split(lambda index: (vector(index), float("nan") if index == 3 else 0.5)),
    "over names": lambda: Split(lambda index: (vector(index), index % 4), class_names=("a", "b", "c")),
    "lengths that raise": lambda: Split(sound, lengths=lambda ids: ids["x"]),
    "token features": lambda: Split(sound, features=lambda ids: [np.arange(i + 1) for i in ids]),
    "few token features": lambda: Split(sound, features=lambda ids: [np.arange(3)]),
    "labels of shapes": lambda: Split(lambda index: (vector(index), np.ones(1 + index % 2))),
    "few targets": lambda: Split(sound, targets=np.zeros(5, int)),
    "other labels": lambda: Split(sound, labels=lambda ids: 1 - ids % 2),
    "clock": lambda: Split(lambda index: (vector(index) + time.perf_counter() % 1, 0)),
    "own generator": lambda: Split(lambda index: (vector(index) + next(COUNT), 0)),
    "process": lambda: Split(lambda index: (np.array([os.getpid()]), 0)),
    "fill": lambda: Split(sound, fill=half_filled),
    "features": lambda: Split(sound, features=lambda ids: np.zeros(len(ids), np.float32)),
    "features that differ": lambda: Split(sound, features=lambda ids: np.full((len(ids), 2), len(ids), np.float32)),
    "features that raise": lambda: Split(sound, features=lambda ids: ids["x"]),
    "collate": lambda: Split(sound, collate=lambda items: [item[0] for item in items]),
    "describe": lambda: Split(sound, describe=lambda index: np.zeros((2, 2))),
}


def data(kind: str) -> Split:
    return MADE[kind]()


def of_another_shape() -> tuple[Split, Split]:
    return Split(sound), Split(lambda index: (np.ones(4, np.float32), 0))


def here_alone() -> Split:
    """A data set that a fresh interpreter cannot load."""
    import __main__

    if "batcher/worker.py" in str(getattr(__main__, "__file__", "")):
        raise FileNotFoundError("no such notebook here")
    return Split(sound)
