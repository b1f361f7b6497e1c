"""Boss epochs of a loader, for loops that want epochs."""

from collections.abc import Callable, Iterator

from autoassist.batch import Batch


class Epoch:
    """One Boss epoch: the batches until `last` instances are trained in all."""

    def __init__(self, number: int, last: int, trained: Callable[[], int], take: Callable[[], Batch | None]) -> None:
        self.number = number
        self._last, self._trained, self._take = last, trained, take

    def __iter__(self) -> Iterator[Batch]:
        while self._trained() < self._last and (batch := self._take()) is not None:
            yield batch

    def __index__(self) -> int:
        return self.number
