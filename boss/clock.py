"""The training clock: how long the Boss trained, from first to last step, evaluation left out."""

import time
from collections.abc import Iterator

from boss.trainer import Batches
from proto.messages import Batch


class Clocked:
    """A stream of batches that takes the time. Waiting for a training batch counts; the evaluations do not."""

    def __init__(self, stream: Batches) -> None:
        self._stream = stream
        self._began: float | None = None
        self._ended = self._before = 0.0

    def __iter__(self) -> Iterator[Batch]:
        for batch in self._stream:
            if batch.kind == "train":
                if self._began is None:
                    self._began = self._ended = time.perf_counter()
                yield batch
                self._ended = time.perf_counter()
            else:
                self._before, self._began = self.seconds, None
                yield batch

    def release(self, batch: Batch) -> None:
        self._stream.release(batch)

    @property
    def seconds(self) -> float:
        """Seconds trained so far."""
        return self._before + (0.0 if self._began is None else self._ended - self._began)
