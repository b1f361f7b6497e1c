"""What can be wrong with a split, told from a sample of its items and from what it offers beside them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from batcher.collate import plain
from batcher.decode import seed_all
from batcher.plugin import is_stream
from batcher.shards import walked
from proto.errors import RAISED, raised
from proto.types import Array, Int64s

SAMPLE = 64
"""Instances that are looked at."""
SAY_LABELS = "class numbers are 0, 1, ... in the order of class_names"


@dataclass(frozen=True)
class Mistake:
    """Something that will not work, and how to mend it."""

    split: str
    problem: str
    mend: str


@dataclass(frozen=True)
class Seen:
    """An item that could be read, as two arrays."""

    index: int
    inputs: Array
    label: Array


def sample(size: int) -> Int64s:
    """Ids int64 of the instances that are looked at: evenly spaced, the first and the last among them."""
    return np.unique(np.linspace(0, size - 1, min(size, SAMPLE)).astype(np.int64))


def read(name: str, split: Any, seed: int) -> tuple[list[Seen], list[Mistake]]:
    """The sampled items of `split`, called `name`, each read with the randomness of `seed`; and what is wrong with
    them one by one."""
    seen: list[Seen] = []
    mistakes: list[Mistake] = []
    for index, get in _readers(name, split, seed):
        seed_all(seed, 0, index)
        try:
            item = get()
        except StopIteration:
            break
        except IndexError as error:
            problem = f"len() says {len(split)}, but item {index} raises IndexError: {error}"
            mistakes.append(Mistake(name, problem, "let __len__ return the number of items that can be read"))
            continue
        except RAISED as error:  # whatever the user's data set raises
            problem = f"instance {index} cannot be read: {raised(error)}"
            mend = "mend or remove it; a run skips and counts up to batcher.max_bad of them"
            if is_stream(split):
                problem = str(error).removeprefix(f"data.name = {name!r}: ")
                mend = "let it go on to the next instance: what a stream raises ends the run"
            mistakes.append(Mistake(name, problem, mend))
            continue
        found = _as_arrays(name, index, item)
        if isinstance(found, Mistake):
            mistakes.append(found)
        else:
            seen.append(found)
    return seen, first_of_each(mistakes)


def _readers(name: str, split: Any, seed: int) -> Iterator[tuple[int, Callable[[], Any]]]:
    if is_stream(split):
        instances = walked(split, name, seed)
        yield from ((index, lambda: next(instances)) for index in range(SAMPLE))
    else:
        yield from ((index, lambda index=index: split[index]) for index in sample(len(split)).tolist())


def _as_arrays(name: str, index: int, item: Any) -> Seen | Mistake:
    try:
        inputs, label = item
    except (TypeError, ValueError):
        problem = f"item {index} is a {type(item).__name__}, no pair (input, label)"
        return Mistake(name, problem, "let __getitem__ return a tuple of two, or offer collate(items)")
    try:
        array, number = np.asarray(inputs), np.asarray(label)
    except Exception as error:  # a tensor on a GPU, a list of lists of different lengths, ...
        return Mistake(name, f"item {index} is no array: {error}", "return numpy arrays or CPU tensors of numbers")
    if array.dtype.kind not in "fiub":
        what = f"{array.dtype} array" if isinstance(inputs, np.ndarray) else type(inputs).__name__
        mend = "return an array or tensor of numbers: an image as uint8 [C, H, W], a text as int64 token ids"
        return Mistake(name, f"wrong dtype: the input of instance {index} is a {what}", mend)
    if number.dtype.kind not in "fiub":
        problem = f"wrong dtype: the label of instance {index} is {label!r:.40}"
        return Mistake(name, problem, "return the number of the class, not its name")
    with np.errstate(over="ignore"):
        finite = np.isfinite(plain(array)).all()  # also of what is too large for the float32 that it travels as
    if not finite:
        problem = f"the input of instance {index} is not finite as float32"
        return Mistake(name, problem, "fill in or remove what is missing, scale what is too large")
    return Seen(index, array, number)


def first_of_each(mistakes: Sequence[Mistake]) -> list[Mistake]:
    """The first of the `mistakes` that are mended alike, with the number of the others."""
    groups: dict[str, list[Mistake]] = {}
    for mistake in mistakes:
        groups.setdefault(mistake.mend, []).append(mistake)
    return [
        group[0]
        if len(group) == 1
        else Mistake(group[0].split, f"{group[0].problem} ({len(group)} of those looked at)", group[0].mend)
        for group in groups.values()
    ]


def in_shapes(name: str, split: Any, seen: Sequence[Seen]) -> Iterator[Mistake]:
    """What is wrong with shapes, dtypes and lengths of the items."""
    if hasattr(split, "collate"):
        return
    dtypes = sorted({str(one.inputs.dtype) for one in seen})
    if len(dtypes) > 1:
        yield Mistake(name, f"wrong dtype: inputs are {' and '.join(dtypes)}", "let all items have the same one")
    shapes = sorted({one.inputs.shape for one in seen})
    if len({shape[1:] for shape in shapes}) > 1 or len({len(shape) for shape in shapes}) > 1:
        mend = "crop, resize or pad in the item, or offer collate(items)"
        yield Mistake(name, f"inputs have different shapes: {list(shapes[0])} and {list(shapes[-1])}", mend)
    elif hasattr(split, "lengths"):
        ids = np.array([one.index for one in seen])
        lengths = np.asarray(split.lengths(ids))
        if lengths.shape != ids.shape or lengths.dtype.kind not in "iu":
            problem = f"lengths(ids) is {lengths.dtype} of shape {list(lengths.shape)} for {len(ids)} instances"
            yield Mistake(name, problem, "return int64 [n]")
        else:
            for one, length in zip(seen, lengths.tolist(), strict=True):
                if not one.inputs.ndim or len(one.inputs) > length:
                    problem = f"lengths(ids) says {length} of instance {one.index}, which is {list(one.inputs.shape)}"
                    yield Mistake(name, problem, "return the length of the first dimension of the input, or more")
                    break
    elif len(shapes) > 1:
        problem = f"ragged without lengths: inputs have {shapes[0][0]} to {shapes[-1][0]} positions"
        mend = "offer lengths(ids) -> int64 [n]; padding and mask are then made for you"
        if is_stream(split):
            mend = "offer collate(items) that pads them: the lengths of a stream's instances are not known before"
        yield Mistake(name, problem, mend)


def in_labels(name: str, split: Any, seen: Sequence[Seen], classes: int) -> Iterator[Mistake]:
    """What is wrong with labels: those of the items, and those that the split offers for all instances."""
    offered = all_labels(split)
    if isinstance(offered, Mistake):
        yield Mistake(name, offered.problem, offered.mend)
        offered = None
    if offered is not None:
        for one in seen:
            if one.label.shape == offered[one.index].shape and not np.array_equal(one.label, offered[one.index]):
                said = f"labels(ids) or targets says {offered[one.index]}"
                problem = f"the label of instance {one.index} is {one.label}, but {said}"
                yield Mistake(name, problem, "both must be the label of the item")
                break
    ids = np.array([one.index for one in seen]) if offered is None else np.arange(len(offered))
    if offered is None:
        if len({one.label.shape for one in seen}) > 1:
            yield Mistake(name, "labels have different shapes", "let all items have the same")
            return
        offered = np.stack([one.label for one in seen])
    if offered.dtype.kind == "f":
        if not (finite := np.isfinite(offered.reshape(len(ids), -1)).all(axis=1)).all():
            row = int(finite.argmin())
            problem = f"the label of instance {ids[row]} is {offered[row]}"
            yield Mistake(name, problem, "leave the instance out, or mend its label")
    elif offered.ndim == 1:
        yield from _out_of_range(name, ids, offered, classes)


def _out_of_range(name: str, ids: Int64s, labels: Array, classes: int) -> Iterator[Mistake]:
    if labels.min() < 0:
        row = int((labels < 0).argmax())
        problem = f"label out of range: that of instance {ids[row]} is {labels[row]}"
        yield Mistake(name, problem, f"{SAY_LABELS}; leave out instances without a label")
    if classes and labels.max() >= classes:
        row = int((labels >= classes).argmax())
        problem = f"label out of range: that of instance {ids[row]} is {labels[row]}, there are {classes} class_names"
        yield Mistake(name, problem, f"{SAY_LABELS}; name all of them, or none")


def all_labels(split: Any) -> Array | Mistake | None:
    """The labels of all instances, where they can be had without reading these."""
    if is_stream(split):
        return None
    size = len(split)
    if labels := getattr(split, "labels", None):
        try:
            found = np.asarray(labels(np.arange(size)))
        except RAISED as error:  # whatever the user's data set raises
            return Mistake("", f"labels(ids) raises {raised(error)}", "it gets ids int64 [n]")
        what = "labels(ids)"
    elif (targets := getattr(split, "targets", None)) is not None:
        found, what = np.asarray(targets), "targets"
    else:
        return None
    if len(found) != size if found.ndim else True:
        problem = f"{what} has {len(found) if found.ndim else 0} labels, but len() says {size}"
        return Mistake("", problem, "return one label for each instance")
    if found.dtype.kind not in "fiub":
        return Mistake("", f"wrong dtype: {what} is {found.dtype}", "return class numbers, not names")
    return found


def in_randomness(name: str, split: Any, seen: Sequence[Seen], seed: int) -> Iterator[Mistake]:
    """Items that differ although they are read with the same seed, pass and id."""
    if is_stream(split):
        return
    for one in seen:
        seed_all(seed, 0, one.index)
        try:
            again = np.asarray(split[one.index][0])
        except RAISED as error:  # whatever the user's data set raises
            problem = f"instance {one.index} could be read once, then not: {raised(error)}"
            yield Mistake(name, problem, "items must not depend on what was read before")
            return
        if not np.array_equal(again, one.inputs):
            mend = (
                "draw from random, numpy.random or torch, whose global generators are seeded for each instance and "
                "pass; not from the clock, nor from a generator of your own that goes on"
            )
            yield Mistake(name, f"non-deterministic: instance {one.index}, read twice with one seed, differs", mend)
            return
