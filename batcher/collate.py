"""Items into rows of a batch's arrays: padding and mask of instances that differ in length, or the split's `collate`.

Where instances differ in length a batch is as long as its longest one, T positions. It then has "mask" bool [B, T],
true where a position is the instance's own, and "lengths" int64 [B]; "inputs" [B, T, ...] are 0 elsewhere.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from proto.errors import RAISED, raised
from proto.fields import NAMES
from proto.types import Array, Int64s

Collate = Callable[[Sequence[Any]], Mapping[str, Any]]
"""What a split may offer: n of its items -> arrays by name, "inputs" [n, ...] and "targets" [n, ...] among them."""


class Rich(tuple[Any, Any]):
    """A pair of input and label with more values beside it, by name."""

    beside: Mapping[str, Any]


def plain(values: Any) -> Array:
    """Values as an array of a dtype that travels: float32, or the integer type it has."""
    array = np.asarray(values)
    if array.dtype == np.uint8:  # most are
        return array
    if array.dtype.kind == "f":
        return array.astype(np.float32, copy=False)
    return array.astype(np.int64, copy=False) if array.dtype.kind in "iub" else array


def place(item: Any, out: Mapping[str, Array], row: int) -> None:
    """Writes `item`, a pair of input and label, and what is beside it in a `Rich` one, into `row` of the arrays `out`.

    Raises ValueError when it has another shape than the others.
    """
    inputs, label = item
    array = plain(inputs)
    if "mask" in out:
        _pad(array, out, row)
    elif array.shape != out["inputs"].shape[1:]:  # numpy would stretch it to fit
        here, there = list(array.shape), list(out["inputs"].shape[1:])
        raise ValueError(
            f"its input has shape {here}, that of the first item {there}; a split whose instances differ in length "
            "offers lengths(ids)"
        )
    else:
        out["inputs"][row] = array
    if np.shape(label) != out["targets"].shape[1:]:
        here, there = list(np.shape(label)), list(out["targets"].shape[1:])
        raise ValueError(f"its label has shape {here}, that of the first item {there}")
    out["targets"][row] = label
    if isinstance(item, Rich):
        for name, values in item.beside.items():
            value = plain(values)
            if value.shape != out[name].shape[1:]:
                here, there = list(value.shape), list(out[name].shape[1:])
                raise ValueError(f"{name} has shape {here}, that of the first item {there}; pad it to one shape")
            out[name][row] = value


def _pad(array: Array, out: Mapping[str, Array], row: int) -> None:
    longest, *rest = out["inputs"].shape[1:]
    if list(array.shape[1:]) != rest or not array.ndim:
        raise ValueError(f"its input has shape {list(array.shape)}, that of others [length, {str(rest)[1:]}")
    if not 0 < len(array) <= longest:
        raise ValueError(f"its input has {len(array)} positions; its split's lengths allow 1 to {longest} here")
    padded = out["inputs"][row]
    padded[: len(array)] = array
    padded[len(array) :] = 0
    mark(out, np.array([len(array)]), slice(row, row + 1))


def mark(out: Mapping[str, Array], lengths: Int64s, rows: slice = slice(None)) -> None:
    """Writes `lengths` and the mask that goes with them into `rows` of the arrays `out`."""
    out["lengths"][rows] = lengths
    out["mask"][rows] = np.arange(out["mask"].shape[1]) < lengths[:, None]


def collated(collate: Collate, items: Sequence[Any]) -> dict[str, Array]:
    """The arrays that a split's own `collate` makes of `items`.

    Raises ValueError when they are no batch of as many instances, or it raises.
    """
    try:
        made = collate(items)
    except RAISED as error:  # whatever the user's collate raises
        raise ValueError(f"its collate raises {raised(error)}"[:300]) from error
    if not isinstance(made, Mapping) or not {"inputs", "targets"} <= made.keys():
        found = f"the names {', '.join(map(str, made))}" if isinstance(made, Mapping) else type(made).__name__
        raise ValueError(f'its collate returned {found}; needed: a dict of arrays with "inputs" and "targets"')
    arrays = {
        str(name): array if (array := np.asarray(values)).dtype.kind == "b" else plain(array)
        for name, values in made.items()
    }
    for name, array in arrays.items():
        if len(array) != len(items) if array.ndim else True:
            raise ValueError(f"its collate made {name} of shape {list(array.shape)} for {len(items)} items")
        if array.dtype not in NAMES:
            raise ValueError(f"its collate made {name} of dtype {array.dtype}; needed: numbers")
    return arrays
