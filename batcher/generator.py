"""The shrinking batch generator: candidates in a shuffled order, some kept, the kept ones cut into batches.

It decides only who is in a batch; assembling is the core's. Order and coins of a pass are drawn from the seed, the pass
and a purpose, and a coin belongs to a position of a pass. So they depend neither on batch size nor on restarts.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from batcher.decode import OUTSIDE
from proto.messages import Kind
from proto.types import Array, Bools, Float32s, Int64s

ORDER, COINS = 0, 1
"""Purposes of the random streams of a pass."""
MAX_CHUNK = 65_536

Select = Callable[[Int64s, int, int, int], tuple[Float32s, Float32s]]
"""(candidate ids, trained when the batch will be, total, pass) -> (p, w)."""


@dataclass(frozen=True)
class Plan:
    """Who is in the next batch, and where the stream stands after it.

    `passes_of` int64 [n]: the pass of each; `coins` [n]: those it was kept by. `passes` and `cursor`: pass and position
    of its last candidate.
    `candidates`: how many were considered since the plan before; `dropped`: the ids of those that were not kept.
    """

    kind: Kind
    ids: Int64s
    passes_of: Int64s
    weights: Float32s
    passes: int
    cursor: int
    candidates: int
    dropped: Int64s
    last: bool
    coins: Array


def batch_sizes(total: int, batch_size: int) -> tuple[int, int]:
    """(number of batches, size of the largest) that `total` instances come in.

    A remainder of one joins its predecessor.
    """
    full, rest = divmod(total, batch_size)
    joins = rest == 1 and full > 0
    return full + (rest > 0 and not joins), min(total, batch_size) + joins


@dataclass(frozen=True)
class Position:
    """Where a stream stands: the pass and position of the last candidate considered, how many batches and instances
    have been trained, and how many instances had been when the evaluation splits were last planned."""

    passes: int = 0
    cursor: int = 0
    batches: int = 0
    trained: int = 0
    evaluated: int = 0


class Generator:
    """Plans batches until exactly `total` instances are trained, with the evaluation splits in between.

    `splits` are their names and sizes. Each is planned whole and in order each time another `eval_every` instances are
    trained (0: never), and at the end.
    """

    def __init__(
        self,
        *,
        size: int,
        splits: Mapping[Kind, int],
        batch_size: int,
        total: int,
        eval_every: int,
        seed: int,
        select: Select,
        start: Position | None = None,
    ) -> None:
        self.size, self.splits, self.batch_size, self.total = size, splits, batch_size, total
        self.eval_every, self.seed, self.select = eval_every, seed, select
        self.banned = np.zeros(size, bool)
        """Instances that are never kept, because they cannot be trained on."""
        self.forced = 0
        """Candidates kept although the policy dropped them, because it had dropped N in a row."""
        self._rate = 1.0
        self._evaluating: list[tuple[Kind, int]]
        """Splits still to be planned, each with the id it goes on from."""
        self.go_to(start or Position())

    @property
    def position(self) -> Position:
        """Where the stream stands after the plans made so far."""
        return Position(self._passes, self._position, self.batches, self.trained, self._evaluated)

    def go_to(self, position: Position) -> None:
        """Goes on from `position`, a place between two training batches."""
        self.batches, self.trained = position.batches, position.trained
        self._evaluated, self._evaluating = position.evaluated, []
        self._position = position.cursor
        self._evaluating = []
        self._begin_pass(position.passes)
        self._evaluate_if_due()

    def _begin_pass(self, passes: int) -> None:
        self._passes = passes
        self._order = np.random.default_rng(np.random.SeedSequence([self.seed, passes, ORDER])).permutation(self.size)
        self._coins = np.random.default_rng(np.random.SeedSequence([self.seed, passes, COINS])).random(self.size)

    def next(self) -> Plan | None:
        """The next plan, or None when the budget is used up and evaluated."""
        if self.trains_next:
            return self._next_train()
        return self._next_evaluation(*self._evaluating.pop(0)) if self._evaluating else None

    @property
    def trains_next(self) -> bool:
        """Whether the next plan is one to train on."""
        return not self._evaluating and self.trained < self.total

    def _evaluate_if_due(self) -> None:
        crossed = self.eval_every > 0 and self.trained // self.eval_every > self._evaluated // self.eval_every
        if self.trained > self._evaluated and (crossed or self.trained == self.total):
            self._evaluated = self.trained
            self._evaluating = [(kind, 0) for kind in self.splits]

    def _next_evaluation(self, kind: Kind, start: int) -> Plan:
        stop = min(start + self.batch_size, self.splits[kind])
        last = stop == self.splits[kind]
        if not last:
            self._evaluating.insert(0, (kind, stop))
        ids, nobody = np.arange(start, stop), np.empty(0, np.int64)
        outside = np.full(len(ids), OUTSIDE)
        ones = np.ones(len(ids), np.float32)
        return Plan(kind, ids, outside, ones, self._passes, self._position, 0, nobody, last, ones)

    def _next_train(self) -> Plan:
        left = self.total - self.trained
        wanted = left if left == self.batch_size + 1 > 2 else min(left, self.batch_size)
        ids, passes_of, weights, dropped, coins = [], [], [], [], []
        have = candidates = dropped_in_a_row = 0
        while have < wanted:
            if dropped_in_a_row < self.size:
                chunk, w, keep = self._consider(wanted - have, self.size - dropped_in_a_row, self.trained + wanted)
            else:
                # All N were dropped, and would be again: the policy is overruled for the rest of this batch.
                chunk, w, keep = self._consider(wanted - have, MAX_CHUNK, self.trained + wanted, overrule=True)
                self.forced += min(wanted - have, int(keep.sum()))
            # Candidates after the last one needed are not consumed: the next batch judges them with newer weights.
            used = len(chunk) if keep.sum() < wanted - have else int(np.flatnonzero(keep)[wanted - have - 1]) + 1
            chunk, w, keep = chunk[:used], w[:used], keep[:used]
            kept = int(keep.sum())
            self._position += used
            self._rate = max(0.9 * self._rate + 0.1 * kept / used, 0.01)
            if dropped_in_a_row < self.size:
                dropped_in_a_row = used - 1 - int(np.flatnonzero(keep)[-1]) if kept else dropped_in_a_row + used
            have, candidates = have + kept, candidates + used
            ids.append(chunk[keep])
            coins.append(self._coins[self._position - used : self._position][keep])
            passes_of.append(np.full(kept, self._passes))
            weights.append(w[keep])
            dropped.append(chunk[~keep])
        self.batches, self.trained = self.batches + 1, self.trained + have
        self._evaluate_if_due()
        return Plan(
            "train", np.concatenate(ids), np.concatenate(passes_of), np.concatenate(weights),
            self._passes, self._position, candidates,
            np.concatenate(dropped), self.trained == self.total, np.concatenate(coins),
        )  # fmt: skip

    def _consider(
        self, wanted: int, most: int, trained: int, *, overrule: bool = False
    ) -> tuple[Int64s, Float32s, Bools]:
        """The next candidates of one pass, about as many as give `wanted` kept ones: ids, weights and who is kept."""
        if self._position == self.size:
            self._position = 0
            self._begin_pass(self._passes + 1)
        length = min(int(wanted / self._rate * 1.1) + 8, most, MAX_CHUNK, self.size - self._position)
        here = slice(self._position, self._position + length)
        ids = self._order[here]
        p, w = self.select(ids, trained, self.total, self._passes)
        keep = np.ones(length, bool) if overrule else self._coins[here] < p
        return ids, w, keep & ~self.banned[ids]
