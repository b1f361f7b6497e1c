"""Instances of any structure as named arrays, and back.

A *structure* is JSON: a string is the name of an array; {"tuple": [...]}, {"list": [...]}, {"dict": [[key, ...], ...]}
and {"named": [module, class, fields], "of": [...]} are what Python calls so. The Batcher takes an instance apart, the
receiver of a batch puts its arrays together in the same way. A pair is ("inputs", "targets").
"""

import math
import sys
from collections import namedtuple
from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from typing import Any

import numpy as np

INPUTS, TARGETS = "inputs", "targets"
LABEL_KEYS = ("label", "labels", "target", "targets", "y", "class")
"""Keys under which a dict is taken to have its label."""
MAX_LEAVES = 48
"""Values that an instance may consist of: a message has no more arrays."""
PAIR: dict[str, Any] = {"tuple": [INPUTS, TARGETS]}


def structure_of(item: Any) -> dict[str, Any] | str:
    """The structure of instances like `item`.

    Its label, "targets", is the last of a tuple or list, or what a dict has under one of `LABEL_KEYS`, if that is one
    value. Of the others the largest one is "inputs", which the Assistant looks at. Any other is named by where it is:
    "item['image'][0]". Raises ValueError for a value that is no numbers, with where it is.
    """
    leaves = dict(_leaves(item, "item"))
    for path, value in leaves.items():
        if not _numbers(value):
            what = f"{path} is a {type(value).__name__}"
            raise ValueError(f"{what}; needed: an array, a tensor or a number; turn it into numbers, or leave it out")
    if not 0 < len(leaves) <= MAX_LEAVES:
        raise ValueError(f"an item has {len(leaves)} values; 1 to {MAX_LEAVES} travel")
    label = _label(item, leaves)
    rest = {path: math.prod(np.shape(value)) for path, value in leaves.items() if path != label}
    names = {max(rest, key=lambda path: rest[path]): INPUTS, label: TARGETS}
    return _structure(item, "item", lambda path: names.get(path, path))


def take_apart(structure: Any, item: Any) -> dict[str, Any]:
    """The values of `item` by the names in `structure`. Raises ValueError when it has another structure."""
    match structure:
        case str():
            return {structure: item}
        case {"dict": entries}:
            if not isinstance(item, Mapping) or len(item) != len(entries):
                raise ValueError(f"it is {_described(item)}, the first item a dict of {[key for key, _ in entries]}")
            missing = [key for key, _ in entries if key not in item]
            if missing:
                raise ValueError(f"it has no {missing[0]!r}, as the first item has")
            parts = [(part, item[key]) for key, part in entries]
        case {"tuple": of} | {"list": of} | {"named": _, "of": of}:
            if not isinstance(item, tuple | list) or len(item) != len(of):
                raise ValueError(f"it is {_described(item)}, the first item has {len(of)} values there")
            parts = list(zip(of, item, strict=True))
        case _:
            raise AssertionError(f"no structure: {structure!r}")
    return reduce(lambda found, part: found | take_apart(*part), parts, dict[str, Any]())


def put_together(structure: Any, arrays: Mapping[str, Any]) -> Any:
    """What `structure` makes of `arrays`. Raises KeyError when one is missing."""
    match structure:
        case str():
            return arrays[structure]
        case {"dict": entries}:
            return {key: put_together(part, arrays) for key, part in entries}
        case {"list": of}:
            return [put_together(part, arrays) for part in of]
        case {"tuple": of}:
            return tuple(put_together(part, arrays) for part in of)
        case {"named": [module, name, fields], "of": of}:
            return _class(module, name, fields)(*(put_together(part, arrays) for part in of))
        case _:
            raise AssertionError(f"no structure: {structure!r}")


def _structure(item: Any, path: str, name: Callable[[str], str]) -> dict[str, Any] | str:
    if _is_one(item):
        return name(path)
    parts = [_structure(value, below, name) for below, value in _children(item, path)]
    if isinstance(item, Mapping):
        return {"dict": [[key, part] for key, part in zip(item, parts, strict=True)]}
    if isinstance(item, tuple) and hasattr(item, "_fields"):
        cls = type(item)
        return {"named": [cls.__module__, cls.__qualname__, list(item._fields)], "of": parts}
    return {"tuple" if isinstance(item, tuple) else "list": parts}


def _children(item: Any, path: str) -> Iterator[tuple[str, Any]]:
    """What `item` consists of, each with where it is, as one would write it in Python."""
    if isinstance(item, Mapping):
        for key, value in item.items():
            if not isinstance(key, str | int):
                raise ValueError(f"{path} has the key {key!r}; needed: strings or integers")
            yield f"{path}[{key!r}]", value
    else:
        for index, value in enumerate(item):
            yield f"{path}[{index}]", value


def _leaves(item: Any, path: str) -> Iterator[tuple[str, Any]]:
    if _is_one(item):
        yield path, item
    else:
        for below, value in _children(item, path):
            yield from _leaves(value, below)


def _is_one(item: Any) -> bool:
    """Whether `item` is one value: a list of numbers is."""
    return not isinstance(item, Mapping | tuple | list) or (isinstance(item, list) and _numbers(item))


def _label(item: Any, leaves: Mapping[str, Any]) -> str:
    """Where the label of `item` is; "" where it has none that is one value."""
    if len(leaves) > 1 and isinstance(item, Mapping):
        return next((path for key in LABEL_KEYS if (path := f"item[{key!r}]") in leaves), "")
    last = f"item[{len(item) - 1}]" if len(leaves) > 1 else ""
    return last if last in leaves else ""


def _numbers(value: Any) -> bool:
    if isinstance(value, str | bytes | Mapping):
        return False
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, RuntimeError):  # as ragged lists raise, and tensors that are not the CPU's
        return False
    return array.dtype.kind in "fiub" and array.size > 0


def _class(module: str, name: str, fields: list[str]) -> Callable[..., Any]:
    """The named tuple's own class where this process has it, else one like it."""
    try:
        found = reduce(getattr, name.split("."), sys.modules[module])
    except (KeyError, AttributeError):
        return namedtuple(name.rpartition(".")[2], fields)
    assert isinstance(found, type)
    return found


def _described(item: Any) -> str:
    if isinstance(item, Mapping):
        return f"a dict of {list(item)}"
    return f"a {type(item).__name__} of {len(item)}" if isinstance(item, tuple | list) else f"a {type(item).__name__}"
