"""`Stream`: a stream of batches that knows nothing of the trainer."""

import time
from collections.abc import Iterator

from proto.lifecycle import Worker
from proto.messages import Batch, Credit, End, Open
from proto.sockets import Port
from proto.transport import Carrier


class Stream:
    """Yields batches, in order, until the budget is used up or the supervisor says stop.

    Give each batch back with `release` once its arrays are not read any more: the Batcher then fills its slot again.
    """

    def __init__(self, worker: Worker, batches: Port, carrier: Carrier, slots: int, eval_every: float) -> None:
        self.worker, self.port, self.carrier = worker, batches, carrier
        self.slots, self.eval_every = slots, eval_every
        self.waited_s = 0.0
        self.refused = 0
        """Batches of another incarnation or out of order."""
        self.complete = False
        """True once the Batcher said that the budget is used up."""
        self._next_seq = 0

    def __iter__(self) -> Iterator[Batch]:
        self.port.send(Open(incarnation=self.worker.incarnation, rank=0, slots=self.slots, eval_every=self.eval_every))
        while not self.worker.stopping:
            for message in self.carrier.receive():
                if not self._expected(message):
                    self.refused += 1
                elif isinstance(message, Batch):
                    yield message
                    self.worker.beat()
                    if self.worker.stopping:
                        return
                else:
                    self.complete = True
                    return
            began = time.perf_counter()
            self.worker.wait([self.port])
            self.worker.beat()
            self.waited_s += time.perf_counter() - began

    def _expected(self, message: object) -> bool:
        """Whether `message` is the next one of the Batcher's present incarnation."""
        if (
            not isinstance(message, Batch | End)
            or message.incarnation != self.worker.peers["batcher"]
            or message.seq != self._next_seq
        ):
            return False
        self._next_seq += 1
        return True

    def release(self, batch: Batch) -> None:
        """The arrays of `batch` are not read any more."""
        self.port.send(Credit(slot=batch.slot, seq=batch.seq, incarnation=batch.incarnation))
