"""Which instances of a batch, once they are in arrays, can be trained on."""

from collections.abc import Iterator, Mapping

import numpy as np

from batcher.source import Source
from proto.types import Array, Int64s


def broken(source: Source, ids: Int64s, arrays: Mapping[str, Array], errors: Mapping[int, str]) -> dict[int, str]:
    """Those of the instances `ids` of `source` in `arrays` that cannot be trained on, by id: what is wrong.

    The rows of those with `errors` are undefined, and so is everything where there are no arrays.
    """
    if not arrays:
        return {}
    found = {int(ids[row]): what for row, what in (*_not_finite(arrays), *_out_of_range(source, arrays))}
    return {index: what for index, what in found.items() if index not in errors}


def _not_finite(arrays: Mapping[str, Array]) -> Iterator[tuple[int, str]]:
    for name, what in (("inputs", "input"), ("targets", "label")):
        values = arrays[name]
        # If the sum is finite so is every value, in one pass over them; it may overflow, hence the second.
        with np.errstate(over="ignore", invalid="ignore"):
            suspect = values.dtype.kind == "f" and not np.isfinite(values.sum())
        if suspect:
            rows = ~np.isfinite(values.reshape(len(values), -1)).all(axis=1)
            yield from ((row, f"its {what} is not finite") for row in np.flatnonzero(rows).tolist())


def _out_of_range(source: Source, arrays: Mapping[str, Array]) -> Iterator[tuple[int, str]]:
    if source.labels_below is not None and source.numbered:
        targets = arrays["targets"]
        for row in np.flatnonzero((targets < 0) | (targets >= source.labels_below)).tolist():
            yield row, f"its label {targets[row]} is none of the classes 0 to {source.labels_below - 1}"
    if source.vocabulary and arrays["inputs"].dtype.kind == "i":
        tokens = arrays["inputs"].reshape(len(arrays["inputs"]), -1)
        outside = ((tokens < 0) | (tokens >= source.vocabulary)).any(axis=1)
        yield from ((row, f"a token id is not below {source.vocabulary}") for row in np.flatnonzero(outside).tolist())
