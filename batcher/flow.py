"""How batches flow to the Boss, and who waits for whom."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from batcher.policies import Candidates, Policy
from proto.messages import Value
from proto.types import Float32s

LOOK, REST = 64, 512
"""Batches over which it is judged whether the Boss starves, and after which it is looked at again if it did."""


class Flow:
    """Counts what was sent, how full the way was, and how long the Batcher waited for a credit."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self.waited_s = 0.0
        self._sends = self._depths = self._bytes = 0
        self._first = self._last = 0.0
        self.starved = False
        """Whether the Boss waits for each batch, and what takes longest is choosing it. It then is better served with
        batches that are not chosen; where decoding takes longest, it is not."""
        self._rests = 0
        """How often the Boss was found to starve."""
        self._look_at = LOOK
        self._choosing_s = self._chosen_s = self._looked_s = 0.0
        self._depth = 0

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """The Batcher has no credit: every slot holds a batch that the Boss has not released."""
        began = self._clock()
        yield
        self.waited_s += self._clock() - began

    def sent(self, under_way: int, total_bytes: int) -> None:
        """Another batch was sent, `under_way` before it were not released yet; `total_bytes` were sent in all."""
        self._last = self._clock()
        self._first = self._first if self._sends else self._last
        self._sends, self._depths, self._bytes = self._sends + 1, self._depths + under_way, total_bytes
        self._depth += under_way
        if self._sends == self._look_at:
            self._look()

    def timed(self, policy: Policy) -> Policy:
        """`policy`, with the time it takes."""

        def choose(candidates: Candidates) -> tuple[Float32s, Float32s]:
            began = self._clock()
            try:
                return policy(candidates)
            finally:
                self._choosing_s += self._clock() - began

        return choose

    def _look(self) -> None:
        """Judges the last `LOOK` batches; after a rest it begins anew."""
        chosen, self._chosen_s = self._choosing_s - self._chosen_s, self._choosing_s
        seconds, self._looked_s = self._last - max(self._looked_s, self._first), self._last
        self._mean_depth, self._share, self._depth = self._depth / LOOK, chosen / max(seconds, 1e-9), 0
        self.starved = not self.starved and self._mean_depth < 0.5 and self._share > 0.5
        self._rests += self.starved
        self._look_at = self._sends + (REST if self.starved else LOOK)

    @property
    def noteworthy(self) -> bool:
        """Whether the last change is worth a line: of rests that may follow one another all night the first, second,
        fourth, eighth ... are."""
        return self._rests & (self._rests - 1) == 0

    def why(self) -> str:
        """The last change, with its numbers."""
        if not self.starved:
            return "batches are chosen again"
        waits = f"the Boss waits for batches ({self._mean_depth:.1f} under way)"
        again = f" (rest {self._rests:,})" if self._rests > 1 else ""
        return f"{waits}, choosing takes {self._share:.0%} of the time: the next {REST} batches keep everything{again}"

    def metrics(self) -> dict[str, Value]:
        """`queue_depth` is the mean number of batches under way when another was sent: with K slots, K - 1 says that
        the Batcher waits for the Boss, 0 that the Boss waits for the Batcher."""
        seconds = self._last - self._first
        return {
            "credit_wait_s": self.waited_s,
            "queue_depth": self._depths / max(self._sends, 1),
            "bytes_sent": self._bytes,
            "bytes_per_s": self._bytes / seconds if seconds else 0.0,
        }
