"""A split behind the one interface that the rest of the Batcher uses: what it does not offer is derived."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NoReturn

import numpy as np

from batcher.collate import collated, mark
from batcher.decode import OUTSIDE, Decoder, kept_random_state
from batcher.look import look
from batcher.plugin import Split
from proto.errors import RAISED, ConfigError, raised
from proto.messages import Kind
from proto.transport import Layout
from proto.types import Array, Int64s

UNREAD = -(2**62)
"""Stands for a label that could not be read."""

Room = Callable[[Layout], dict[str, Array]]
"""Gives the arrays of a layout, to write a batch into."""
Read = tuple[dict[str, Array], dict[int, str]]
"""The arrays of a batch, and what went wrong, by id: the rows of those instances are undefined."""
Finish = Callable[[Room | None], Read]
"""Waits until instances are decoded and writes them into what a room gives (None: nowhere)."""
Begin = Callable[[Int64s, Int64s, int], Finish]
"""(ids, their passes, positions to pad to) -> what to call for them, before `begin` is called twice more."""


class Source:
    """A split as the Batcher sees it; what the split does not offer is derived from its items."""

    def __init__(self, split: Split, name: str, seed: int = 0, *, ragged: bool = False) -> None:
        """`seed` is the run's, for what is random in an item. `ragged`: another split's instances differ in length.

        Raises ConfigError, naming the data set `name`, when its items cannot be made a batch of. Reads every item where
        they differ in length and the split does not offer `lengths`.
        """
        self.split, self.size, self.name = split, len(split), name
        seen = look(split, name)
        self.one, self.numbered = seen.rows, seen.numbered
        self._collate = getattr(split, "collate", None)
        self._fill = None if self._collate else getattr(split, "fill", None)
        self._labels = getattr(split, "labels", None)
        targets = np.asarray(getattr(split, "targets", ()))  # torchvision's data sets keep their labels there
        fits = self.numbered and targets.shape == (self.size,) and targets.dtype.kind in "iu"
        self._targets: Int64s | None = targets.astype(np.int64) if fits else None
        self._features = getattr(split, "features", None)
        self.in_order = bool(getattr(split, "in_order", False))
        """Whether the split is a stream, see `batcher.stream`."""
        self._decoder = Decoder(split, seed)
        self.elsewhere: Begin | None = None
        """Has at most `rows_elsewhere` items decoded in other processes, if there are any and they can (`by_item`)."""
        self.rows_elsewhere = 1
        self.ragged = seen.ragged or (ragged and not self._collate)
        self.lengths = self._find_lengths()
        """Positions of each instance at most, int64 [N]; None where that is not known."""
        self.labels_below: int | None = None
        """One more than the largest class number there may be, where it is known; None where any is right."""
        self.vocabulary = 0
        """Number of token ids; 0 where that is not known."""
        if self.lengths is not None:
            self.make_room(int(self.lengths.max()))

    def make_room(self, longest: int) -> None:
        """The longest instance, of all splits, has `longest` positions."""
        if self.ragged:
            shape, dtype = self.one["inputs"]
            padded = {"inputs": ((longest, *shape[1:]), dtype), "mask": ((longest,), np.dtype(bool))}
            self.one = {**self.one, **padded, "lengths": ((), np.dtype(np.int64))}

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of an instance; of the longest one where they differ in length."""
        return self.one["inputs"][0]

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.one["inputs"][1]

    def like(self, name: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
        """Shape and dtype of an instance's row in array `name`, but for its length: alike in all splits."""
        shape, dtype = self.one[name]
        return (shape[1:] if name == "inputs" and (self.ragged or self._collate) else shape), dtype

    @property
    def by_item(self) -> bool:
        """Whether instances can be decoded one by one in other processes: the split has no `fill` and no `collate`, and
        is no stream."""
        return self._fill is None and self._collate is None and not self.in_order

    @property
    def together(self) -> int:
        """Instances that must be decoded in one call for the same bytes; 1: it does not matter."""
        return self._decoder.together

    def layout(self, n: int, length: int | None = None) -> Layout:
        """Shapes and dtypes of the arrays of a batch of n instances, padded to `length` positions where they differ in
        length (None: to those of the longest instance)."""
        layout = {name: ((n, *shape), dtype) for name, (shape, dtype) in self.one.items()}
        if self.ragged and length is not None:
            for name in ("inputs", "mask"):
                (_, _, *rest), dtype = layout[name]
                layout[name] = (n, length, *rest), dtype
        return layout

    def read(self, ids: Int64s, room: Room, passes: Int64s | None = None) -> Read:
        """Writes the instances `ids`, as `passes` int64 [n] see them, into the arrays that `room` gives.

        Without `passes` they are seen as evaluations see them.
        """
        passes = np.full(len(ids), OUTSIDE) if passes is None else passes
        if self.elsewhere is None:
            return self.begin(ids, passes)(room)
        length = self._positions(ids)
        out, errors = room(self.layout(len(ids), length)), dict[int, str]()
        for start in range(0, len(ids), self.rows_elsewhere):
            part = slice(start, start + self.rows_elsewhere)
            there = partial(_same, {name: array[part] for name, array in out.items()})
            errors |= self.elsewhere(ids[part], passes[part], length)(there)[1]
        return out, errors

    def begin(self, ids: Int64s, passes: Int64s) -> Finish:
        """Has the instances `ids` decoded in other processes, if there are any; what is returned does the rest."""
        if self.elsewhere is not None:
            return self.elsewhere(ids, passes, self._positions(ids))
        return lambda room: ({}, {}) if room is None else self._read_here(ids, passes, room)

    def _positions(self, ids: Int64s) -> int:
        return int(self.lengths[ids].max()) if self.ragged and self.lengths is not None and len(ids) else 1

    def _read_here(self, ids: Int64s, passes: Int64s, room: Room) -> Read:
        if self._collate is not None:
            return self._read_collated(ids, passes, room)
        out = room(self.layout(len(ids), self._positions(ids)))
        if self._fill is not None:
            if self.ragged and self.lengths is not None:
                out["inputs"][...] = 0
                mark(out, self.lengths[ids])
            self._ask("fill(ids, out)", self._fill, ids, out)
            return out, {}
        with kept_random_state():
            return out, self._decoder.decode(ids, passes, out, range(len(ids)))

    def _read_collated(self, ids: Int64s, passes: Int64s, room: Room) -> Read:
        items: list[Any] = [None] * len(ids)
        with kept_random_state():
            errors = self._decoder.each(ids, passes, items.__setitem__)
            if errors:
                return {}, errors
            assert self._collate is not None
            try:
                arrays = collated(self._collate, items)
            except ValueError as error:
                self.refuse(f"instances {ids.tolist()!r:.80}: {error}")
        out = room({name: (array.shape, array.dtype) for name, array in arrays.items()})
        for name, array in arrays.items():
            np.copyto(out[name], array)
        return out, {}

    def fill(self, ids: Int64s, out: dict[str, Array]) -> None:
        """Writes the instances `ids` into the arrays `out`; raises ValueError when one cannot be decoded."""
        for index, error in self.read(ids, partial(_same, out))[1].items():
            raise ValueError(f"instance {index}: {error}")

    def take(self, ids: Int64s) -> tuple[Int64s, dict[str, Array]]:
        """Those of the instances `ids` that can be decoded, and they, in new arrays."""
        while True:
            arrays, errors = self.read(ids, _new)
            good = ~np.isin(ids, list(errors))
            if arrays or not good.any():
                return ids[good], {name: array[good] for name, array in arrays.items()}
            ids = ids[good]  # nothing was collated, because of the others

    def labels(self, ids: Int64s) -> Int64s | None:
        """Class numbers int64 [n] of `ids`, or None when they cannot be had without loading the inputs, or are none."""
        if not self.numbered:
            return None
        if self._labels is None:
            return None if self._targets is None else self._targets[ids]
        labels = np.asarray(self._ask("labels(ids)", self._labels, ids))
        if labels.dtype.kind == "f":
            wrong = ids[~(np.isfinite(labels) & (labels == np.floor(labels)))]
            if len(wrong):
                self.refuse(f"the label of instance {wrong[0]} is {labels[ids == wrong[0]][0]}, no class number")
        return labels.astype(np.int64)

    def features(self, ids: Int64s) -> Any:
        """What the split offers as features of `ids`, see `batcher.plugin`; None when it offers none."""
        return None if self._features is None else self._ask("features(ids)", self._features, ids)

    def _ask(self, what: str, call: Callable[..., Any], *args: Any) -> Any:
        """What `call`, which the split offers as `what`, returns for `args`. Raises ConfigError for what it raises."""
        try:
            return call(*args)
        except RAISED as error:  # whatever the user's data set raises
            self.refuse(f"its {what} raises {raised(error)}")

    def classes(self, named: int = 0) -> int:
        """Number of classes: the `named` ones, or the largest label + 1; 0 where labels are no class numbers.

        Reads every item where neither names nor labels can be had otherwise. Raises ConfigError when a label is not one
        of the classes, or not finite.
        """
        if not self.numbered:
            self._check_targets()
            return 0
        if self.in_order and not named:
            self.refuse("the classes of a stream cannot be counted; give class_names")
        labels = None if self.in_order else self.labels(np.arange(self.size))
        if labels is None and not named:
            labels = self._targets = self._read_labels()
        known = labels if labels is None or labels is not self._targets else labels[labels != UNREAD]
        low, high = (0, named - 1) if known is None or not len(known) else (int(known.min()), int(known.max()))
        if low < 0 or (named and high >= named):
            wrong, classes = (low if low < 0 else high), f"0 to {named - 1}" if named else "0, 1, ..."
            where = "" if labels is None else f", that of instance {int(np.flatnonzero(labels == wrong)[0])}"
            self.refuse(f"label {wrong} is none of its classes {classes}{where}; leave it out, or number classes anew")
        return named or high + 1

    def _check_targets(self) -> None:
        """Raises ConfigError unless the labels that the split offers, no class numbers, are what its items have."""
        if self._labels is None:
            return
        labels = np.asarray(self._ask("labels(ids)", self._labels, np.arange(self.size)))
        shape = (self.size, *self.one["targets"][0])
        if labels.shape != shape:
            self.refuse(f"its labels(ids) have shape {list(labels.shape)}; those of its items {list(shape)}")
        if labels.dtype.kind == "f" and not np.isfinite(labels).all():
            bad = np.flatnonzero(~np.isfinite(labels.reshape(self.size, -1)).all(axis=1))
            self.refuse(f"the label of instance {bad[0]} is not finite; leave such instances out ({len(bad)} of them)")

    def refuse(self, text: str) -> NoReturn:
        """Raises a ConfigError that names the data set."""
        raise ConfigError("data.name", self.name, text)

    def _read_labels(self) -> Int64s:
        """The label of every item; `UNREAD` of those that cannot be read."""
        labels = np.full(self.size, UNREAD, np.int64)

        def use(index: int, item: Any) -> None:
            label = collated(self._collate, [item])["targets"][0] if self._collate else item[1]
            if label != label:
                self.refuse(f"the label of instance {index} is {label}; leave such instances out")
            labels[index] = label

        self._each(use)
        return labels

    def _find_lengths(self) -> Int64s | None:
        if offered := getattr(self.split, "lengths", None):
            lengths = np.asarray(self._ask("lengths(ids)", offered, np.arange(self.size)))
            if lengths.shape != (self.size,) or lengths.dtype.kind not in "iu":
                self.refuse(f"its lengths(ids) are {lengths.dtype} {list(lengths.shape)}; needed: int64 [{self.size}]")
            if lengths.min() < 1:
                self.refuse(f"the length of instance {int(lengths.argmin())} is {lengths.min()}; leave it out")
            return lengths.astype(np.int64)
        if not self.ragged:
            return None
        if self.in_order:
            self.refuse("instances of a stream that differ in length need a collate(items) that pads them")
        lengths = np.ones(self.size, np.int64)
        self._each(lambda index, item: lengths.__setitem__(index, len(item[0])))
        return lengths

    def _each(self, use: Callable[[int, Any], None]) -> None:
        """Calls `use` for every item that can be read; one that cannot is skipped when its turn comes."""
        for index in range(self.size):
            try:
                use(index, self.split[index])
            except ConfigError:
                raise
            except RAISED:  # whatever the user's data set raises
                continue


def sources_of(splits: Mapping[Kind, Split], name: str, seed: int) -> dict[Kind, Source]:
    """The splits of data set `name` as sources; if the instances of one differ in length, those of all do."""
    sources = {kind: Source(split, name, seed) for kind, split in splits.items()}
    if any(source.ragged for source in sources.values()):
        for kind, source in sources.items():
            if not source.ragged:
                sources[kind] = Source(source.split, name, seed, ragged=True)
        longest = max(int(source.lengths.max()) for source in sources.values() if source.lengths is not None)
        for source in sources.values():
            source.make_room(longest)
    return sources


def _same(arrays: dict[str, Array], layout: Layout) -> dict[str, Array]:
    return arrays


def _new(layout: Layout) -> dict[str, Array]:
    return {name: np.empty(shape, dtype) for name, (shape, dtype) in layout.items()}
