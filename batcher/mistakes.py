"""What can be wrong with a split, told from a sample of its items and from what it offers beside them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from batcher.decode import seed_all
from batcher.plugin import is_stream
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
    for index, get in _readers(split):
        seed_all(seed, 0, index)
        try:
            item = get()
        except IndexError as error:
            problem = f"len() says {len(split)}, but item {index} raises IndexError: {error}"
            mistakes.append(Mistake(name, problem, "let __len__ return the number of items that can be read"))
            continue
        except Exception as error:  # whatever the user's data set raises
            problem = f"instance {index} cannot be read: {type(error).__name__}: {error}"
            mend = "mend or remove it; a run skips and counts up to batcher.max_bad of them"
            mistakes.append(Mistake(name, problem, mend))
            continue
        found = _as_arrays(name, index, item)
        if isinstance(found, Mistake):
            mistakes.append(found)
        else:
            seen.append(found)
    return seen, first_of_each(mistakes)


def _readers(split: Any) -> Iterator[tuple[int, Callable[[], Any]]]:
    if is_stream(split):
        yield from ((index, lambda item=item: item) for index, item in enumerate(islice(split, SAMPLE)))
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
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        return Mistake(name, f"the input of instance {index} is not finite", "fill in or remove what is missing")
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
        yield Mistake(name, problem, "offer lengths(ids) -> int64 [n]; padding and mask are then made for you")


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
    numbers = [(one.index, one.label) for one in seen] if offered is None else list(enumerate(offered))
    for index, label in numbers:
        if np.asarray(label).dtype.kind == "f" and not np.isfinite(label).all():
            yield Mistake(
                name, f"the label of instance {index} is {label}", "leave the instance out, or mend its label"
            )
            break
    whole = [(index, label) for index, label in numbers if np.ndim(label) == 0 and np.asarray(label).dtype.kind in "iu"]
    if negative := next((pair for pair in whole if pair[1] < 0), None):
        problem = f"label out of range: that of instance {negative[0]} is {negative[1]}"
        yield Mistake(name, problem, f"{SAY_LABELS}; leave out instances without a label")
    if classes and (large := next((pair for pair in whole if pair[1] >= classes), None)):
        problem = f"label out of range: that of instance {large[0]} is {large[1]}, there are {classes} class_names"
        yield Mistake(name, problem, f"{SAY_LABELS}; name all of them, or none")


def all_labels(split: Any) -> Array | Mistake | None:
    """The labels of all instances, where they can be had without reading these."""
    if is_stream(split):
        return None
    size = len(split)
    if labels := getattr(split, "labels", None):
        try:
            found = np.asarray(labels(np.arange(size)))
        except Exception as error:  # whatever the user's data set raises
            return Mistake("", f"labels(ids) raises {type(error).__name__}: {error}", "it gets ids int64 [n]")
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
        except Exception as error:  # whatever the user's data set raises
            problem = f"instance {one.index} could be read once, then not: {type(error).__name__}: {error}"
            yield Mistake(name, problem, "items must not depend on what was read before")
            return
        if not np.array_equal(again, one.inputs):
            mend = (
                "draw from random, numpy.random or torch, whose global generators are seeded for each instance and "
                "pass; not from the clock, nor from a generator of your own that goes on"
            )
            yield Mistake(name, f"non-deterministic: instance {one.index}, read twice with one seed, differs", mend)
            return


def in_offers(name: str, split: Any, seen: Sequence[Seen]) -> Iterator[Mistake]:
    """What is wrong with `fill`, `features`, `collate` and `describe`, where they are offered."""
    ids = np.array([one.index for one in seen], np.int64)
    checks: Mapping[str, Callable[[], str]] = {
        "fill": lambda: _wrong_in_fill(split, ids, seen),
        "features": lambda: _wrong_in_features(split, ids),
        "collate": lambda: _wrong_in_collate(split, ids),
        "describe": lambda: _wrong_in_description(split.describe(int(ids[0]))),
    }
    for offer, wrong in checks.items():
        if hasattr(split, offer) and not is_stream(split):
            try:
                problem = wrong()
            except Exception as error:  # whatever the user's data set raises
                problem = f"raises {type(error).__name__}: {error}"
            if problem:
                yield Mistake(name, f"{offer} {problem}", f"see docs/plugins.md, or leave {offer} out: it is derived")


def _wrong_in_fill(split: Any, ids: Int64s, seen: Sequence[Seen]) -> str:
    ragged = hasattr(split, "lengths")
    length = max(len(one.inputs) if ragged else 0 for one in seen)
    shape = (len(seen), length, *seen[0].inputs.shape[1:]) if ragged else (len(seen), *seen[0].inputs.shape)
    dtype = np.dtype(np.float32) if seen[0].inputs.dtype.kind == "f" else seen[0].inputs.dtype
    labels = np.stack([one.label for one in seen])
    for byte in (0,) if ragged else (0, 255):
        out = {"inputs": np.zeros(shape, dtype), "targets": np.zeros(labels.shape, labels.dtype)}
        for array in out.values():
            array.view(np.uint8)[...] = byte
        split.fill(ids, out)
        for row, one in enumerate(seen):
            found = out["inputs"][row, : len(one.inputs)] if ragged else out["inputs"][row]
            if not np.array_equal(found, one.inputs.astype(dtype)):
                return f"writes other inputs than the item has for instance {one.index}"
        if not np.array_equal(out["targets"], labels):
            return "writes other targets than the labels of the items"
    return ""


def _wrong_in_features(split: Any, ids: Int64s) -> str:
    features = np.asarray(split.features(ids))
    if features.ndim != 2 or len(features) != len(ids) or features.dtype.kind not in "fiu":
        return f"is {features.dtype} of shape {list(features.shape)} for {len(ids)} instances; needed: float32 [n, D]"
    if features.dtype.kind == "f" and not np.isfinite(features).all():
        return "has values that are not finite"
    if not np.array_equal(features[:1], np.asarray(split.features(ids[:1]))):
        return f"of instance {ids[0]} depends on which others are asked with it, or on when"
    return ""


def _wrong_in_collate(split: Any, ids: Int64s) -> str:
    items = [split[int(index)] for index in ids[:4]]
    made = split.collate(items)
    if not isinstance(made, Mapping) or not {"inputs", "targets"} <= set(made):
        return f'returns a {type(made).__name__}; needed: a dict with "inputs" and "targets"'
    wrong = [key for key, values in made.items() if np.ndim(values) == 0 or len(values) != len(items)]
    return f"makes {wrong[0]} without a row for each of {len(items)} items" if wrong else ""


def _wrong_in_description(shown: Any) -> str:
    image = isinstance(shown, np.ndarray) and shown.dtype == np.uint8
    if isinstance(shown, str) or (image and (shown.ndim == 2 or (shown.ndim == 3 and shown.shape[2] == 3))):
        return ""
    return f"returns a {type(shown).__name__}; needed: a text, or an image uint8 [H, W] or [H, W, 3]"
