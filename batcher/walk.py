"""Which candidate stands where in a pass, and by which coin it is kept.

Order and coins are drawn from the seed, the pass and a purpose, and a coin belongs to a position. So they depend
neither on batch size nor on restarts.
"""

from typing import Protocol

import numpy as np

from batcher.cut import ByTokens, Cut
from proto.types import Array, Int64s

ORDER, COINS = 0, 1
"""Purposes of the random streams of a pass."""
BLOCK = 65_536
"""Positions of a stream whose coins are drawn together."""


class Walk(Protocol):
    """The candidates by position."""

    @property
    def patience(self) -> int:
        """Candidates that may be dropped in a row before the policy is overruled."""

    def begin(self, passes: int) -> None:
        """Pass `passes` begins, or goes on."""

    def left(self, position: int) -> int:
        """How many candidates of the pass there are from `position` on."""

    def ids(self, start: int, stop: int) -> Int64s:
        """The ids of the candidates from position `start` to below `stop`."""

    def coins(self, start: int, stop: int) -> Array:
        """Their coins, float64 in [0, 1)."""


class Shuffled:
    """All `size` instances in each pass, in another order each time."""

    def __init__(self, size: int, seed: int, cut: Cut) -> None:
        self._size, self._seed, self._cut = size, seed, cut

    @property
    def patience(self) -> int:
        return self._size

    def begin(self, passes: int) -> None:
        draw = np.random.default_rng(np.random.SeedSequence([self._seed, passes, ORDER]))
        order = draw.permutation(self._size)
        self._order = self._cut.arranged(order, draw) if isinstance(self._cut, ByTokens) else order
        self._coins = np.random.default_rng(np.random.SeedSequence([self._seed, passes, COINS])).random(self._size)

    def left(self, position: int) -> int:
        return self._size - position

    def ids(self, start: int, stop: int) -> Int64s:
        return self._order[start:stop]

    def coins(self, start: int, stop: int) -> Array:
        return self._coins[start:stop]


class InOrder:
    """The instances of a stream, which has one pass without an end: the id is the position."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._blocks: dict[int, Array] = {}

    @property
    def patience(self) -> int:
        return BLOCK

    def begin(self, passes: int) -> None:
        """Nothing is drawn for a pass."""

    def left(self, position: int) -> int:
        return BLOCK

    def ids(self, start: int, stop: int) -> Int64s:
        return np.arange(start, stop)

    def coins(self, start: int, stop: int) -> Array:
        first, last = start // BLOCK, (stop - 1) // BLOCK
        kept = {block: self._blocks[block] for block in range(first, last + 1) if block in self._blocks}
        for block in range(first, last + 1):
            if block not in kept:
                kept[block] = np.random.default_rng(np.random.SeedSequence([self._seed, block, COINS])).random(BLOCK)
        self._blocks = kept
        coins = np.concatenate([kept[block] for block in range(first, last + 1)])
        return coins[start - first * BLOCK : stop - first * BLOCK]
