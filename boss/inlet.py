"""`Stream`: a stream of batches that knows nothing of the trainer."""

import time
from collections.abc import Callable, Iterator

from boss.account import Account
from proto.batches import Batch, End
from proto.errors import Refused
from proto.lifecycle import Worker
from proto.sockets import Port
from proto.transport import Carrier


class Stream:
    """Yields batches, in order, until the budget is used up or the supervisor says stop.

    Give each batch back with `release` once its arrays are not read any more: the Batcher then fills its slot again.
    When the Batcher was started anew it is told to go on after the last batch that was yielded.
    """

    def __init__(
        self,
        worker: Worker,
        batches: Port,
        carrier: Carrier,
        slots: int,
        eval_every: float,
        may_stop: Callable[[], bool] = lambda: True,
        step: Callable[[], int] = lambda: 0,
    ) -> None:
        """`may_stop` tells whether this is a place to stop at, when asked to: not between two halves of a step.
        `step` tells how many optimizer steps have been taken."""
        self.worker, self.port, self.carrier = worker, batches, carrier
        self.slots, self.eval_every, self.may_stop, self.step = slots, eval_every, may_stop, step
        self.waited_s = 0.0
        self.complete = False
        """True once the Batcher said that the budget is used up."""
        self._at = Account()
        self._batcher = self._next_seq = 0

    def open(self, at: Account) -> None:
        """Has the Batcher begin, or go on, after the batches that `at` accounts for, now and whenever it is new."""
        self._at = at
        self._batcher = self.worker.peers["batcher"]
        self._next_seq = at.seq
        self.carrier.open(at.open(self._batcher, self.slots, self.eval_every, self.step()))

    def __iter__(self) -> Iterator[Batch]:
        while not self._stopping:
            if self._batcher != self.worker.peers["batcher"]:
                self.open(self._at)
            for message in self.carrier.receive(self._expected):
                if isinstance(message, Batch):
                    self._next_seq += 1
                    yield message
                    self.worker.beat()
                    if self._stopping:
                        return
                elif isinstance(message, End) and self._expected(message.incarnation, message.seq):
                    self.complete = True
                    return
                else:
                    self.port.refuse(Refused("stale", f"{message.tag} out of place"))
            began = time.perf_counter()
            self.worker.wait([self.port])
            self.waited_s += time.perf_counter() - began
            self.worker.beat()

    @property
    def _stopping(self) -> bool:
        return self.worker.stopping and self.may_stop()

    def _expected(self, incarnation: int, seq: int) -> bool:
        """Whether batch `seq` of the Batcher `incarnation` is the next one."""
        return incarnation == self._batcher and seq == self._next_seq

    def release(self, batch: Batch) -> None:
        """The arrays of `batch` are not read any more."""
        self.carrier.release(batch, self.step())
