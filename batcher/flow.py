"""How batches flow to the Boss, and who waits for whom."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from proto.messages import Value


class Flow:
    """Counts what was sent, how full the way was, and how long the Batcher waited for a credit."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self.waited_s = 0.0
        self._sends = self._depths = self._bytes = 0
        self._first = self._last = 0.0

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
