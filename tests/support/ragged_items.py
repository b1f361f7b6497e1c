"""Instances that differ in length, with and without what a split may offer; worker processes can load them, too."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from batcher.plugin import Data

SIZE = 60
VOCABULARY = 30


def lengths_of(size: int = SIZE) -> Any:
    return 1 + (np.arange(size) * 7) % 11


class Bare:
    """Instance i is i mod 7 + 1 repeated; its length is 1 to 11, its class the parity of that."""

    def __init__(self, size: int = SIZE) -> None:
        self._n = lengths_of(size)

    def __len__(self) -> int:
        return len(self._n)

    def __getitem__(self, index: int) -> Any:
        return np.full(self._n[index], index % 7 + 1), int(self._n[index] % 2)


class Offering(Bare):
    """Says how long its instances are."""

    def lengths(self, ids: Any) -> Any:
        return self._n[ids]

    def labels(self, ids: Any) -> Any:
        return self._n[ids] % 2


class Filling(Offering):
    """Writes its instances itself, and leaves padding and mask alone."""

    def fill(self, ids: Any, out: Mapping[str, Any]) -> None:
        for row, index in enumerate(ids.tolist()):
            out["inputs"][row, : self._n[index]] = index % 7 + 1
        out["targets"][...] = self._n[ids] % 2


class Collating(Offering):
    """Items that are no arrays, and a `collate` that makes arrays of them."""

    def __getitem__(self, index: int) -> Any:
        return {"text": "x" * int(self._n[index]), "id": index}

    def collate(self, items: Sequence[Any]) -> Mapping[str, Any]:
        longest = max(len(item["text"]) for item in items)
        inputs = np.zeros((len(items), longest), np.int64)
        for row, item in enumerate(items):
            inputs[row, : len(item["text"])] = item["id"] % 7 + 1
        targets = np.array([len(item["text"]) % 2 for item in items])
        return {"inputs": inputs, "targets": targets, "attention_mask": inputs > 0}


def data(kind: str = "Bare", test: int = 0, **options: Any) -> Data:
    split = globals()[kind]
    return Data(split(**options), split(test) if test else None, vocabulary=VOCABULARY)
