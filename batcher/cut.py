"""Where a batch ends: after so many instances, or so many padded positions. Pure functions of who was kept so far."""

import math
from collections.abc import Mapping
from typing import Protocol

import numpy as np

from batcher.config import BatcherConfig
from batcher.source import Source
from proto.errors import ConfigError
from proto.messages import Kind
from proto.types import Int64s

RUN = 8
"""Batches of like length, about, that follow one another where batches are cut by positions."""
WINDOW = 32
"""Runs that are put together from one stretch of a pass: the larger, the more alike are the lengths in a run."""


class Cut(Protocol):
    """A rule that cuts the kept instances into batches."""

    def size(self, kept: Int64s, left: int) -> int | None:
        """How many of the instances `kept`, the next in the order of training, make a batch when `left` are still to be
        trained; None when more are needed to tell."""

    def missing(self, kept: Int64s, left: int) -> int:
        """About how many more kept instances are needed to tell; at least 1."""

    def part(self, start: int, stop: int) -> int:
        """How many of the instances from `start` to below `stop` to evaluate at once."""


def batch_sizes(total: int, batch_size: int) -> tuple[int, int]:
    """(number of batches, size of the largest) that `total` instances come in.

    A remainder of one joins its predecessor.
    """
    full, rest = divmod(total, batch_size)
    joins = rest == 1 and full > 0
    return full + (rest > 0 and not joins), min(total, batch_size) + joins


class ByCount:
    """Batches of `batch_size` instances; a remainder of one joins its predecessor."""

    def __init__(self, batch_size: int) -> None:
        self.batch_size = batch_size

    def _wanted(self, left: int) -> int:
        return left if left == self.batch_size + 1 > 2 else min(left, self.batch_size)

    def size(self, kept: Int64s, left: int) -> int | None:
        wanted = self._wanted(left)
        return wanted if len(kept) >= wanted else None

    def missing(self, kept: Int64s, left: int) -> int:
        return self._wanted(left) - len(kept)

    def part(self, start: int, stop: int) -> int:
        return min(self.batch_size, stop - start)


class ByTokens:
    """Batches of at most `max_tokens` positions, padding included: instances times positions of the longest.

    No instance may be longer than a third of that. Then a batch that is cut because another one would not fit has
    three instances or more, and where a single one would be left for the end it can leave that one its last.
    """

    def __init__(self, max_tokens: int, lengths: Int64s) -> None:
        assert 3 * lengths.max() <= max_tokens, "an instance longer than a third of max_tokens"
        self.max_tokens, self._lengths = max_tokens, lengths
        self.largest = int(max_tokens // lengths.min())
        """Instances of the largest batch there may be."""

    @property
    def batches_of_pass(self) -> int:
        """About how many batches the instances come in."""
        per_batch = self.max_tokens // np.sort(self._lengths)
        return max(1, math.ceil(float((1 / per_batch).sum())))

    def _fit(self, ids: Int64s) -> int:
        longest = np.maximum.accumulate(self._lengths[ids])
        over = longest * np.arange(1, len(ids) + 1) > self.max_tokens
        return int(over.argmax()) if over.any() else len(ids)

    def size(self, kept: Int64s, left: int) -> int | None:
        fit = self._fit(kept)
        if fit >= left:
            return left
        if fit == len(kept):
            return None
        return fit - 1 if left - fit == 1 else fit

    def missing(self, kept: Int64s, left: int) -> int:
        longest = int(self._lengths[kept].max()) if len(kept) else float(self._lengths.mean())
        return max(1, min(int(self.max_tokens / longest) + 1, left) - len(kept))

    def part(self, start: int, stop: int) -> int:
        return self._fit(np.arange(start, min(stop, start + self.largest)))

    def arranged(self, order: Int64s, random: np.random.Generator) -> Int64s:
        """`order` with instances of like length together, so that little of a batch is padding.

        Each stretch of it is sorted by length and cut into runs, which then come in a random order.
        """
        per_run = max(2, int(RUN * self.max_tokens / self._lengths.mean()))
        found = []
        for start in range(0, len(order), WINDOW * per_run):
            stretch = order[start : start + WINDOW * per_run]
            stretch = stretch[np.argsort(self._lengths[stretch], kind="stable")]
            runs = [stretch[k : k + per_run] for k in range(0, len(stretch), per_run)]
            found += [runs[k] for k in random.permutation(len(runs))]
        return np.concatenate(found)


def make_cuts(sources: Mapping[Kind, Source], config: BatcherConfig) -> dict[Kind, Cut]:
    """The rule for each split. Raises ConfigError when batches of that size cannot be."""
    train = sources["train"]
    if not config.max_tokens:
        if config.batch_size > train.size and not train.in_order:
            text = f"over the data set's size; {train.name} has {train.size} training instances"
            raise ConfigError("batcher.batch_size", config.batch_size, text)
        return {kind: ByCount(config.batch_size) for kind in sources}
    cuts: dict[Kind, Cut] = {}
    for kind, source in sources.items():
        if source.lengths is None:
            text = f"the {kind} split of {source.name} offers no lengths; use batcher.batch_size, and 0 here"
            raise ConfigError("batcher.max_tokens", config.max_tokens, text)
        if 3 * (longest := int(source.lengths.max())) > config.max_tokens:
            text = (
                f"the longest instance of the {kind} split of {source.name} has {longest} positions; at least "
                f"{3 * longest} are needed, so that batches have three; or cut long instances off in the data set"
            )
            raise ConfigError("batcher.max_tokens", config.max_tokens, text)
        cuts[kind] = ByTokens(config.max_tokens, source.lengths)
    return cuts


def expected(cut: Cut, total: int, size: int) -> tuple[int, int]:
    """(number of batches, size of the largest) that `total` instances of a split of `size` come in, by `cut`.

    By tokens they are about the number, of which the pass of a policy that keeps all is the measure, and a bound.
    """
    if isinstance(cut, ByCount):
        return batch_sizes(total, cut.batch_size)
    assert isinstance(cut, ByTokens)
    return max(1, round(total * cut.batches_of_pass / size)), min(total, cut.largest)
