"""The shrinking batch generator: candidates in a shuffled order, some kept, the kept ones cut into batches.

It decides only who is in a batch; assembling is the core's. The order and the coins are `batcher.walk`'s, where a batch
ends `batcher.cut`'s.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from batcher.cut import Cut
from batcher.decode import OUTSIDE
from batcher.walk import InOrder, Shuffled, Walk
from proto.messages import Kind
from proto.types import Array, Bools, Float32s, Int64s

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
    trained (0: never), and at the end; those in `at_end` then only. `cuts` say where batches end, those of training and
    of each of the splits.
    """

    def __init__(
        self,
        *,
        size: int,
        splits: Mapping[Kind, int],
        cuts: Mapping[Kind, Cut],
        total: int,
        eval_every: int,
        seed: int,
        select: Select,
        start: Position | None = None,
        at_end: Collection[Kind] = (),
        in_order: bool = False,
    ) -> None:
        """`in_order`: the training split is a stream, in which `size` instances count as one Boss epoch."""
        self.splits, self.cuts, self.total = splits, cuts, total
        self.eval_every, self.select, self.at_end = eval_every, select, at_end
        self.in_order = in_order
        self._walk: Walk = InOrder(seed) if in_order else Shuffled(size, seed, cuts["train"])
        self._banned = np.empty(0, np.int64)
        """Ids, in order, of instances that are never kept, because they cannot be trained on."""
        self.forced = 0
        """Candidates kept although the policy dropped them, because it had dropped N in a row."""
        self._rate = 1.0
        self._evaluating: list[tuple[Kind, int]]
        """Splits still to be planned, each with the id it goes on from."""
        self._passes = -1
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
        if self.in_order:  # what is behind in a stream does not come again
            self._banned = self._banned[self._banned >= self._position]
        self._begin_pass(position.passes)
        self._evaluate_if_due()

    def ban(self, ids: Collection[int]) -> None:
        """The instances `ids` are never kept from now on; `go_to` where none of them was considered yet follows."""
        self._banned = np.union1d(self._banned, np.array([*ids], np.int64))

    @property
    def banned(self) -> int:
        """How many are banned; of a stream, those that may still come."""
        return len(self._banned)

    def _begin_pass(self, passes: int) -> None:
        if passes != self._passes:  # the order of a pass takes a draw for each instance
            self._passes = passes
            self._walk.begin(passes)

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
            ended = self.trained == self.total
            self._evaluating = [(kind, 0) for kind in self.splits if ended or kind not in self.at_end]

    def _next_evaluation(self, kind: Kind, start: int) -> Plan:
        stop = start + self.cuts[kind].part(start, self.splits[kind])
        last = stop == self.splits[kind]
        if not last:
            self._evaluating.insert(0, (kind, stop))
        ids, nobody = np.arange(start, stop), np.empty(0, np.int64)
        outside = np.full(len(ids), OUTSIDE)
        ones = np.ones(len(ids), np.float32)
        return Plan(kind, ids, outside, ones, self._passes, self._position, 0, nobody, last, ones)

    def _next_train(self) -> Plan:
        left, cut = self.total - self.trained, self.cuts["train"]
        chunks: list[_Chunk] = []
        kept, dropped_in_a_row = np.empty(0, np.int64), 0
        while (size := cut.size(kept, left)) is None:
            # Where all N were dropped, and would be again, the policy is overruled for the rest of this batch.
            overrule = dropped_in_a_row >= self._walk.patience
            most = MAX_CHUNK if overrule else self._walk.patience - dropped_in_a_row
            missing = cut.missing(kept, left)
            chunk = self._consider(missing, most, self.trained + len(kept) + missing, overrule=overrule)
            chunks.append(chunk)
            keep = np.flatnonzero(chunk.keep)
            self._rate = max(0.9 * self._rate + 0.1 * len(keep) / len(chunk.ids), 0.01)
            if not overrule:
                in_a_row = len(chunk.ids) - 1 - int(keep[-1]) if len(keep) else dropped_in_a_row + len(chunk.ids)
                dropped_in_a_row = in_a_row
            kept = np.concatenate([kept, chunk.ids[keep]])
        return self._plan(chunks, size)

    def _plan(self, chunks: Sequence["_Chunk"], size: int) -> Plan:
        """A batch of the first `size` instances kept in `chunks`.

        Candidates after the last of them are not consumed: the next batch judges them with newer weights.
        """
        considered = _joined(chunks)
        kept = np.flatnonzero(considered.keep)[:size]
        stop = int(kept[-1]) + 1
        dropped = considered.ids[:stop][~considered.keep[:stop]]
        self.forced += int(considered.overruled[kept].sum())
        if considered.passes[stop - 1] != self._passes:
            self._begin_pass(int(considered.passes[stop - 1]))
        self._position = int(considered.positions[stop - 1]) + 1
        self.batches, self.trained = self.batches + 1, self.trained + size
        self._evaluate_if_due()
        return Plan(
            "train", considered.ids[kept], considered.passes[kept], considered.weights[kept],
            self._passes, self._position, stop, dropped, self.trained == self.total, considered.coins[kept],
        )  # fmt: skip

    def _consider(self, wanted: int, most: int, trained: int, *, overrule: bool = False) -> "_Chunk":
        """The next candidates of one pass, about as many as give `wanted` kept ones, for a batch with which about
        `trained` instances will have been trained."""
        if not self._walk.left(self._position):
            self._position = 0
            self._begin_pass(self._passes + 1)
        length = min(int(wanted / self._rate * 1.1) + 8, most, MAX_CHUNK, self._walk.left(self._position))
        start, stop = self._position, self._position + length
        self._position = stop
        ids = self._walk.ids(start, stop)
        # What is in an instance of a stream is known at the first look: no pass is spent on finding out.
        p, w = self.select(
            ids, min(trained, self.total), self.total, max(self._passes, 1) if self.in_order else self._passes
        )
        coins = self._walk.coins(start, stop)
        keep = np.ones(length, bool) if overrule else coins < p
        if self.banned:
            places = np.searchsorted(self._banned, ids)
            keep &= self._banned.take(places, mode="clip") != ids
        passes, positions = np.full(length, self._passes), np.arange(start, stop)
        return _Chunk(ids, w, keep, passes, positions, np.full(length, overrule), coins)


class _Chunk(NamedTuple):
    """Candidates: ids, weights, who is kept, pass, position, whether the policy was overruled, and the coins."""

    ids: Int64s
    weights: Float32s
    keep: Bools
    passes: Int64s
    positions: Int64s
    overruled: Bools
    coins: Array


def _joined(chunks: Sequence[_Chunk]) -> _Chunk:
    return chunks[0] if len(chunks) == 1 else _Chunk(*(np.concatenate(parts) for parts in zip(*chunks, strict=True)))
