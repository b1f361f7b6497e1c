"""SIGINT and SIGTERM as something to look at between two steps, not as an exception in the middle of one."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

NUMBERS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def caught() -> Iterator[list[int]]:
    """Collects the numbers of the signals that arrive, for whoever has the list to act on."""
    arrived: list[int] = []
    previous = {number: signal.signal(number, lambda number, _: arrived.append(number)) for number in NUMBERS}
    try:
        yield arrived
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
