"""Time as the supervisor lives it: what it slept through, together with all of the run, does not count."""

import time
from collections.abc import Callable

GAP_S = 2.0
"""A loop that turns ten times a second and did not for so long was stopped: by SIGSTOP, or with its machine."""


class AwakeClock:
    """Seconds while its owner was awake, who must look at it all the time.

    Workers that were stopped with the supervisor had no chance to give a sign of life.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last = clock()
        self.slept_s = 0.0

    def now(self) -> float:
        real = self._clock()
        if real - self._last > GAP_S:
            self.slept_s += real - self._last
        self._last = real
        return real - self.slept_s
