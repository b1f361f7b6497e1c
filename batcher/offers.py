"""What can be wrong with what a split offers beside its items: `fill`, `features`, `collate`, `describe`."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from batcher.mistakes import Mistake, Seen
from batcher.plugin import is_stream
from proto.errors import RAISED, raised
from proto.types import Int64s


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
            except RAISED as error:  # whatever the user's data set raises
                problem = f"raises {raised(error)}"
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
    given = split.features(ids)
    if not isinstance(given, np.ndarray) and token_ids(given):
        return "" if len(given) == len(ids) else f"gives {len(given)} arrays of token ids for {len(ids)} instances"
    features = np.asarray(given)
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


def token_ids(features: Any) -> bool:
    """Whether `features` are arrays of token ids, one for each instance."""
    parts = [np.asarray(part) for part in features]
    return all(part.ndim == 1 and part.dtype.kind in "iu" for part in parts)
