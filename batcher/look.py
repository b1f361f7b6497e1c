"""A first look at a split: what its instances are like, told from its first items."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from batcher.collate import Rich, collated, plain
from batcher.plugin import Split
from proto.errors import RAISED, ConfigError, raised
from proto.transport import Layout
from proto.types import Array

FIRST_ITEMS = 16
"""Items that are tried for one that shows the shape of all."""
COMPARED = 4
"""Items whose shapes are compared, to see whether they differ in length."""


@dataclass(frozen=True)
class Look:
    """What the instances of a split are like.

    `rows`: shape and dtype of an instance's row in each array of a batch. `ragged`: whether they differ in the first
    dimension of their inputs. `numbered`: whether their labels are class numbers.
    """

    rows: Layout
    ragged: bool
    numbered: bool


def look(split: Split, name: str) -> Look:
    """Raises ConfigError, naming the data set `name`, when its first items cannot be made a batch of."""
    if collate := getattr(split, "collate", None):
        items = first_items(split, name, 2)
        try:
            arrays = collated(collate, items)
        except ValueError as error:
            raise ConfigError("data.name", name, str(error)) from error
        rows: Layout = {key: (array.shape[1:], array.dtype) for key, array in arrays.items()}
        return Look(rows, False, rows["targets"][0] == () and arrays["targets"].dtype.kind == "i")
    offers_lengths = hasattr(split, "lengths")
    items = first_items(split, name, 1 if offers_lengths or hasattr(split, "fill") else COMPARED)
    pairs = [_pair(item, name) for item in items]
    (inputs, label), *_ = pairs
    shapes = {array.shape for array, _ in pairs}
    ragged = offers_lengths or (len(shapes) > 1 and len({shape[1:] for shape in shapes if shape}) == 1)
    if ragged and () in shapes:
        raise ConfigError("data.name", name, "its inputs are single numbers, which have no length; leave out lengths")
    layout: Layout = {"inputs": (inputs.shape, inputs.dtype), "targets": (label.shape, label.dtype)}
    if isinstance(items[0], Rich):
        beside = {key: plain(value) for key, value in items[0].beside.items()}
        layout = {**layout, **{key: (array.shape, array.dtype) for key, array in beside.items()}}
    return Look(layout, ragged, label.shape == () and label.dtype.kind == "i")


def first_items(split: Split, name: str, count: int) -> list[Any]:
    """`count` items of `split`, of those at its beginning that can be read. Raises ConfigError if none can."""
    problem: Exception | SystemExit | None = None
    found: list[Any] = []
    for index in range(min(len(split), FIRST_ITEMS)):
        if len(found) == count:
            break
        try:
            found.append(split[index])
        except ConfigError:
            raise  # of a stream, which cannot be asked for the next one
        except RAISED as error:  # whatever the user's data set raises
            problem = problem or error
    if not found:
        assert problem is not None, "a split has instances"
        text = f"none of the first {index + 1} items of a split can be read: {raised(problem)}"
        raise ConfigError("data.name", name, text) from problem
    return found


def _pair(item: Any, name: str) -> tuple[Array, Array]:
    """Input and label of an item as arrays that travel; class numbers as int64."""
    try:
        inputs, label = item
    except (TypeError, ValueError):
        raise ConfigError("data.name", name, "its items are no pairs (input, label)") from None
    arrays = []
    for values in (inputs, label):
        try:
            array = plain(values)
        except (TypeError, ValueError):  # as numpy raises for nested lists of different lengths
            array = np.empty(0, object)
        arrays.append(array)
    if any(array.dtype.kind not in "fiu" for array in arrays):
        needed = "an array or tensor, and a class number or an array of numbers"
        text = f"an item is ({type(inputs).__name__}, {label!r:.40}); needed: {needed}"
        raise ConfigError("data.name", name, text)
    if not arrays[0].size:
        raise ConfigError("data.name", name, f"the input of an item has shape {list(arrays[0].shape)}: it is empty")
    # A single small integer is a class number, whatever its dtype.
    label_array = arrays[1].astype(np.int64) if arrays[1].ndim == 0 and arrays[1].dtype.kind in "iu" else arrays[1]
    return arrays[0], label_array
