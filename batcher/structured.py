"""Instances of any structure as what the Batcher reads: pairs of input and label, with the other values beside them."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from batcher.collate import Rich
from batcher.look import first_items
from batcher.plugin import Data, Split, is_stream
from proto.structure import INPUTS, PAIR, TARGETS, structure_of, take_apart

OFFERED = ("labels", "targets", "features", "lengths", "classes", "class_names")
NO_LABEL = 0


def structured(data: Data, name: str) -> Data:
    """`data` with a training split whose items are `Rich` pairs, unless they are pairs of two values anyway. Those of a
    stream must be.

    Raises ValueError for a value that is no numbers.
    """
    if hasattr(data.train, "fill") or hasattr(data.train, "collate") or is_stream(data.train):
        return data
    structure = structure_of(first_items(data.train, name, 1)[0])
    if structure == PAIR:
        return data
    train = Structured(data.train, structure)
    names = data.class_names if train.labelled else [str(NO_LABEL)]
    return replace(data, train=train, class_names=names, structure=json.dumps(structure))


class Structured:
    """A split whose items are `Rich` pairs, their values named by `structure`; offers what the split offers."""

    def __init__(self, split: Split, structure: Any) -> None:
        self._split, self._structure = split, structure
        self.labelled = TARGETS in _names(structure)
        for name in OFFERED:
            if (offered := getattr(split, name, None)) is not None:
                setattr(self, name, offered)
        if many := getattr(split, "__getitems__", None):
            self.__getitems__ = lambda ids: self._all(many(ids))

    def __len__(self) -> int:
        return len(self._split)

    def __getitem__(self, index: int) -> Rich:
        return self._rich(self._split[index])

    def _all(self, items: Sequence[Any]) -> list[Rich]:
        return [self._rich(item) for item in items]

    def _rich(self, item: Any) -> Rich:
        values = take_apart(self._structure, item)
        found = Rich((values.pop(INPUTS), values.pop(TARGETS, NO_LABEL)))
        found.beside = values
        return found


def _names(structure: Any) -> set[str]:
    if isinstance(structure, str):
        return {structure}
    parts = structure.get("of") or structure.get("tuple") or structure.get("list")
    parts = [part for _, part in structure["dict"]] if parts is None else parts
    return set().union(*map(_names, parts))
