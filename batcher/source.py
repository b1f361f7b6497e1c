"""A split behind the one interface that the rest of the Batcher uses: what it does not offer is derived."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from batcher.decode import OUTSIDE, Decoder, kept_random_state, plain
from batcher.plugin import Split
from proto.errors import ConfigError
from proto.transport import Layout
from proto.types import Array, Bools, Float32s, Int64s

FIRST_ITEMS = 16
"""Items that are tried for one that shows the shape of all."""
UNREAD = -(2**62)
"""Stands for a label that could not be read."""

Finish = Callable[[Mapping[str, Array] | None], dict[int, str]]
"""Waits until instances are decoded and writes them into the arrays (None: nowhere) -> what went wrong, by id."""
Begin = Callable[[Int64s, Int64s], Finish]
"""(ids, their passes) -> what to call for them, before `begin` is called twice more."""


class Source:
    """A split as the Batcher sees it; what the split does not offer is derived from its items."""

    def __init__(self, split: Split, name: str, seed: int = 0) -> None:
        """`seed` is the run's, for what is random in an item.

        Raises ConfigError, naming the data set `name`, when its first item is no pair of input and class number.
        """
        self.split, self.size, self.name = split, len(split), name
        inputs, label = _first_item(split, name)
        example = plain(inputs)
        if example.dtype.kind not in "fiu" or np.ndim(label) != 0 or np.asarray(label).dtype.kind not in "iub":
            raise ConfigError(
                "data.name",
                name,
                f"an item is ({type(inputs).__name__}, {label!r:.40}); needed: an array or tensor, and a class number",
            )
        self.shape, self.dtype = example.shape, example.dtype
        self._fill = getattr(split, "fill", None)
        self._labels = getattr(split, "labels", None)
        targets = np.asarray(getattr(split, "targets", ()))  # torchvision's data sets keep their labels there
        fits = targets.shape == (self.size,) and targets.dtype.kind in "iu"
        self._targets: Int64s | None = targets.astype(np.int64) if fits else None
        self._features = getattr(split, "features", None)
        self._decoder = Decoder(split, seed)
        self.elsewhere: Begin | None = None
        """Has at most `rows_elsewhere` items decoded in other processes, if there are any."""
        self.rows_elsewhere = 1

    @property
    def by_item(self) -> bool:
        """Whether instances are decoded one by one, since the split has no `fill`."""
        return self._fill is None

    @property
    def together(self) -> int:
        """Instances that must be decoded in one call for the same bytes; 1: it does not matter."""
        return self._decoder.together

    def layout(self, n: int) -> Layout:
        """Shapes and dtypes of the arrays of a batch of n instances."""
        return {"inputs": ((n, *self.shape), self.dtype), "targets": ((n,), np.dtype(np.int64))}

    def read(self, ids: Int64s, out: Mapping[str, Array], passes: Int64s | None = None) -> dict[int, str]:
        """Writes the instances `ids`, as `passes` int64 [n] see them, into the arrays `out` of `layout(len(ids))`.

        Returns what went wrong, by id, for those that could not be decoded; their rows are undefined. Without `passes`
        they are seen as evaluations see them.
        """
        if self._fill is not None:
            self._fill(ids, out)
            return {}
        passes = np.full(len(ids), OUTSIDE) if passes is None else passes
        if self.elsewhere is not None:
            errors: dict[int, str] = {}
            for start in range(0, len(ids), self.rows_elsewhere):
                part = slice(start, start + self.rows_elsewhere)
                errors |= self.elsewhere(ids[part], passes[part])({name: array[part] for name, array in out.items()})
            return errors
        with kept_random_state():
            return self._decoder.decode(ids, passes, out, range(len(ids)))

    def begin(self, ids: Int64s, passes: Int64s) -> Finish:
        """Has the instances `ids` decoded in other processes, if there are any; what is returned does the rest."""
        if self.elsewhere is not None:
            return self.elsewhere(ids, passes)
        return lambda out: {} if out is None else self.read(ids, out, passes)

    def fill(self, ids: Int64s, out: Mapping[str, Array]) -> None:
        """As `read`; raises ValueError when an instance cannot be decoded."""
        for index, error in self.read(ids, out).items():
            raise ValueError(f"instance {index}: {error}")

    def broken(self, arrays: Mapping[str, Array]) -> Bools:
        """Which of the assembled instances, bool [n], cannot be trained on: their input is not finite."""
        inputs = arrays["inputs"]
        finite = np.ones(len(inputs), bool)
        # If the sum is finite so is every value, and it takes one pass over them; it may overflow, hence the second.
        with np.errstate(over="ignore", invalid="ignore"):
            suspect = inputs.dtype.kind == "f" and not np.isfinite(inputs.sum())
        if suspect:
            finite &= np.isfinite(inputs.reshape(len(inputs), -1)).all(axis=1)
        return ~finite

    def take(self, ids: Int64s) -> tuple[Int64s, dict[str, Array]]:
        """Those of the instances `ids` that can be decoded, and they, in new arrays."""
        arrays = {name: np.empty(shape, dtype) for name, (shape, dtype) in self.layout(len(ids)).items()}
        errors = self.read(ids, arrays)
        good = ~np.isin(ids, list(errors))
        return ids[good], {name: array[good] for name, array in arrays.items()}

    def labels(self, ids: Int64s) -> Int64s | None:
        """Labels int64 [n] of `ids`, or None when they cannot be had without loading the inputs."""
        if self._labels is not None:
            return np.asarray(self._labels(ids), np.int64)
        return None if self._targets is None else self._targets[ids]

    def features(self, ids: Int64s) -> Float32s | None:
        """Features float32 [n, D] of `ids`, or None when the split offers none."""
        return None if self._features is None else np.asarray(self._features(ids), np.float32)

    def classes(self, named: int = 0) -> int:
        """Number of classes: the `named` ones, or the largest label + 1.

        Reads every item where neither names nor labels can be had otherwise. Raises ConfigError when a label is not one
        of the classes.
        """
        labels = self.labels(np.arange(self.size))
        if labels is None and not named:
            labels = self._targets = self._read_labels()
        known = labels if labels is None or labels is not self._targets else labels[labels != UNREAD]
        low, high = (0, named - 1) if known is None or not len(known) else (int(known.min()), int(known.max()))
        if low < 0 or (named and high >= named):
            wrong, classes = (low if low < 0 else high), f"0 to {named - 1}" if named else "0, 1, ..."
            raise ConfigError("data.name", self.name, f"label {wrong} is none of its classes {classes}")
        return named or high + 1

    def _read_labels(self) -> Int64s:
        """The label of every item; `UNREAD` of those that cannot be read."""
        labels = np.full(self.size, UNREAD, np.int64)
        for index in range(self.size):
            try:
                labels[index] = self.split[index][1]
            except Exception:  # whatever the user's data set raises; the instance is skipped when its turn comes
                continue
        return labels


def _first_item(split: Split, name: str) -> tuple[Any, Any]:
    """The first item of `split` that can be read, of those at its beginning; raises what the very first one raised."""
    problem: Exception | None = None
    for index in range(min(len(split), FIRST_ITEMS)):
        try:
            item = split[index]
        except Exception as error:  # whatever the user's data set raises
            problem = problem or error
            continue
        try:
            inputs, label = item
        except (TypeError, ValueError):
            raise ConfigError("data.name", name, "its items are no pairs (input, label)") from None
        return inputs, label
    assert problem is not None, "a split has instances"
    raise problem
