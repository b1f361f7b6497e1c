"""`Stream`: a stream of batches that knows nothing of the trainer."""

import time
from collections.abc import Callable, Iterator

from boss.account import Account
from proto.lifecycle import Worker
from proto.messages import Batch, End
from proto.sockets import Port
from proto.transport import Carrier


class Stream:
    """Yields batches, in order, until the budget is used up or the supervisor says stop.

    Give each batch back with `release` once its arrays are not read any more: the Batcher then fills its slot again.
    """

    def __init__(
        self,
        worker: Worker,
        batches: Port,
        carrier: Carrier,
        slots: int,
        eval_every: float,
        may_stop: Callable[[], bool] = lambda: True,
    ) -> None:
        """`may_stop` tells whether this is a place to stop at, when asked to: not between two halves of a step."""
        self.worker, self.port, self.carrier = worker, batches, carrier
        self.slots, self.eval_every, self.may_stop = slots, eval_every, may_stop
        self.waited_s = 0.0
        self.refused = 0
        """Batches of another incarnation or out of order."""
        self.complete = False
        """True once the Batcher said that the budget is used up."""
        self._next_seq = 0

    def open(self, at: Account) -> None:
        """Has the Batcher begin, or go on, after the batches that `at` accounts for."""
        self._next_seq = at.seq
        self.carrier.open(at.open(self.worker.incarnation, self.slots, self.eval_every))

    def __iter__(self) -> Iterator[Batch]:
        while not self._stopping:
            for message in self.carrier.receive():
                if not self._expected(message):
                    self.refused += 1
                elif isinstance(message, Batch):
                    yield message
                    self.worker.beat()
                    if self._stopping:
                        return
                else:
                    self.complete = True
                    return
            began = time.perf_counter()
            self.worker.wait([self.port])
            self.waited_s += time.perf_counter() - began
            self.worker.beat()

    @property
    def _stopping(self) -> bool:
        return self.worker.stopping and self.may_stop()

    def _expected(self, message: object) -> bool:
        """Whether `message` is the next one of the Batcher's present incarnation."""
        if not isinstance(message, Batch | End):
            return False
        if message.incarnation != self.worker.peers["batcher"] or message.seq != self._next_seq:
            return False
        self._next_seq += 1
        return True

    def release(self, batch: Batch) -> None:
        """The arrays of `batch` are not read any more."""
        self.carrier.release(batch)
