"""Items of a split into rows of arrays, one by one, with randomness that depends on the instance and its pass alone.

Used by the Batcher itself and by its worker processes alike, so that who decodes an instance makes no difference.
"""

import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from struct import pack, unpack
from typing import Any, NamedTuple

import numpy as np

from batcher.collate import place
from proto.errors import RAISED, raised
from proto.messages import Kind
from proto.slots import Layout, Memory, starts
from proto.types import Array, Int64s

TOGETHER = 16
"""Instances that are asked of `__getitems__` in one call, whoever asks: its randomness is seeded for all of them."""
OUTSIDE = 2**63 - 1
"""The pass of what belongs to none: evaluation splits, and samples looked at before training."""


def seed_all(*numbers: int) -> None:
    """Seeds the global generators of random, numpy and, where it is imported, torch from `numbers` in [0, 2**63)."""
    low, high = _seeds(*numbers)
    random.seed(low)
    np.random.seed(high & 0xFFFFFFFF)  # noqa: NPY002 (it is what transforms draw from)
    _seed_torch(low)


def _seeds(*numbers: int) -> tuple[int, int]:
    low, high = unpack("<2Q", blake2b(pack(f"<{len(numbers)}Q", *numbers), digest_size=16).digest())
    return low, high


def _seed_torch(low: int) -> None:
    if (torch := sys.modules.get("torch")) is not None:
        torch.default_generator.manual_seed(low >> 1)


class Seeding:
    """Has each item read with all generators seeded for it.

    To seed those of random and numpy takes longer than all else that is done for an item, and most items draw from
    torch's. So where the first items drew from neither, both are not seeded for the next ones, but watched: copies are
    seeded alike, and while they give the same numbers nobody has drawn. Once somebody has, that item is read again,
    seeded, as are all after it. What an item draws is therefore always what its own seed gives.
    """

    TRIED = 32
    """Items that are looked at before the two are taken to be idle."""

    def __init__(self) -> None:
        self._copies = random.Random(), np.random.RandomState()
        self._used = False
        self._idle_items = 0

    def begin(self) -> None:
        """Before items are read: others may have used the generators of this process meanwhile."""
        if not self._used:
            self._seed_all(0)

    def read(self, split: Any, index: int, *numbers: int) -> Any:
        """`split[index]`, with the generators seeded from `numbers` and `index`. Raises what that raises."""
        if self._used:
            seed_all(*numbers, index)
            return split[index]
        if self._idle_items < self.TRIED:
            self._seed_all(*numbers, index)
        else:
            _seed_torch(_seeds(*numbers, index)[0])
        try:
            item, problem = split[index], None
        except RAISED as error:  # whatever the user's data set raises: it may depend on what was drawn
            item, problem = None, error
        if self._drawn():
            self._used = True
            if self._idle_items >= self.TRIED:
                return self.read(split, index, *numbers)
        self._idle_items += 1
        if problem is not None:
            raise problem
        return item

    def _seed_all(self, *numbers: int) -> None:
        low, high = _seeds(*numbers)
        seed_all(*numbers)
        self._copies[0].seed(low)
        self._copies[1].seed(high & 0xFFFFFFFF)

    def _drawn(self) -> bool:
        """Whether anybody has drawn from random or numpy since they and their copies gave the same numbers."""
        python, numpy = self._copies
        return random.getrandbits(64) != python.getrandbits(64) or np.random.random() != numpy.random()  # noqa: NPY002


@contextmanager
def kept_random_state() -> Iterator[None]:
    """Leaves the global generators as they were: in a serial run they are the trainer's as well."""
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002
    torch = sys.modules.get("torch")
    state = torch.get_rng_state() if torch is not None else None
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002
        if torch is not None and state is not None:
            torch.set_rng_state(state)


class Task(NamedTuple):
    """Read instances `ids` of the split `kind`, as `passes` see them, into `rows` of a batch of `layout` in `area`."""

    kind: Kind
    area: int
    layout: Layout
    rows: list[int]
    ids: Int64s
    passes: Int64s


def shared_views(memory: Memory, area: int, processes: int, layout: Layout) -> dict[str, Array]:
    """The arrays of `layout` in the memory that `processes` processes share: after the id each of them is reading."""
    begins, _ = starts(layout, 8 * processes)
    return {name: memory.view(area, begins[name], dtype.name, shape) for name, (shape, dtype) in layout.items()}


class Decoder:
    """Reads the items of a split."""

    def __init__(self, split: Any, seed: int) -> None:
        """`seed` is the run's."""
        self._split, self._seed, self._seeding = split, seed, Seeding()
        self._many: Callable[[list[int]], Sequence[Any]] | None = getattr(split, "__getitems__", None)

    @property
    def together(self) -> int:
        """Instances that must be read in one call for the same bytes; 1: it does not matter."""
        return TOGETHER if self._many is not None else 1

    def decode(
        self,
        ids: Int64s,
        passes: Int64s,
        out: Mapping[str, Array],
        rows: Sequence[int],
        at: Callable[[int], None] = lambda index: None,
    ) -> dict[int, str]:
        """Writes instance `ids[k]`, as pass `passes[k]` sees it, into row `rows[k]` of the arrays `out`.

        Returns what went wrong, by id, for those that could not be read; their rows are undefined. `at` is told each
        id before it is read.
        """
        return self.each(ids, passes, lambda k, item: place(item, out, rows[k]), at)

    def each(
        self,
        ids: Int64s,
        passes: Int64s,
        use: Callable[[int, Any], None],
        at: Callable[[int], None] = lambda index: None,
    ) -> dict[int, str]:
        """Calls `use(k, item)` with the item of instance `ids[k]` as pass `passes[k]` sees it; the rest as `decode`."""
        errors: dict[int, str] = {}
        indices, passes_of = ids.tolist(), passes.tolist()
        self._seeding.begin()
        for start in range(0, len(indices), self.together):
            part = slice(start, start + self.together)
            items = self._ask(indices[part], passes_of[start], at)
            for k, index in enumerate(indices[part], start):
                try:
                    if items is None:
                        at(index)
                        item = self._seeding.read(self._split, index, self._seed, passes_of[k])
                    else:
                        item = items[k - start]
                    use(k, item)
                except RAISED as error:  # whatever the user's data set raises
                    errors[index] = raised(error)[:200]
        return errors

    def _ask(self, indices: list[int], passes: int, at: Callable[[int], None]) -> Sequence[Any] | None:
        """The items of `indices` in one call, or None where that is not offered or raises: then they are asked singly,
        which tells the bad one from the others."""
        if self._many is None:
            return None
        at(indices[0])
        seed_all(self._seed, passes, indices[0])
        try:
            items = self._many(indices)
            return items if len(items) == len(indices) else None
        except RAISED:  # whatever a user's code raises; asked singly, the bad one raises again and is named
            return None
