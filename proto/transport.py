"""How the arrays of a batch get from the Batcher to the Boss.

The Batcher collates straight into the arrays that `lend` returns, then sends the batch; the Boss receives batches whose
arrays it may read until it releases the batch. Everything else about batches is the same for every carrier.
"""

from collections.abc import Callable, Iterator
from typing import Protocol

import numpy as np

from proto.batches import Batch, Credit, Open
from proto.errors import Refused
from proto.messages import Message
from proto.slots import Layout
from proto.sockets import Port
from proto.types import Array

__all__ = ["Carrier", "Expected", "FrameCarrier", "Layout", "Outbound", "anything"]

Expected = Callable[[int, int], bool]
"""(incarnation, sequence number) -> whether that batch is the next one."""


def anything(incarnation: int, seq: int) -> bool:
    """Expects whatever comes."""
    return True


class Outbound(Protocol):
    """The Batcher's end of one way to carry the arrays of a batch."""

    @property
    def bytes_sent(self) -> int: ...

    def lend(self, slot: int, layout: Layout) -> dict[str, Array]:
        """Arrays of `layout` to collate the batch of `slot` into."""

    def send(self, batch: Batch, to: str) -> bool:
        """Sends `batch`, whose arrays were lent; False when the peer is away."""

    def receive(self) -> Iterator[Message]:
        """The messages of the channel that have arrived."""


class Carrier(Protocol):
    """The Boss's end."""

    def open(self, message: Open) -> None:
        """Sends `message`, which has the Batcher begin."""

    def receive(self, expected: Expected = anything) -> Iterator[Message]:
        """The batches, and other messages of the channel, that have arrived. One that is not `expected` is refused."""

    def release(self, batch: Batch, step: int = 0) -> None:
        """The arrays of `batch` are not read any more: another batch may come in its place. The Boss is at `step`."""


class FrameCarrier:
    """Carries each array as one more frame of the message: works between any two hosts. Serves as either end."""

    def __init__(self, port: Port) -> None:
        self.port = port
        self.bytes_sent = 0

    def lend(self, slot: int, layout: Layout) -> dict[str, Array]:
        return {name: np.empty(shape, dtype) for name, (shape, dtype) in layout.items()}

    def send(self, batch: Batch, to: str) -> bool:
        self.bytes_sent += sum(array.nbytes for array in batch.arrays.values())
        # Lent arrays are new for each batch and never written again, so ZeroMQ may send from them without a copy.
        return self.port.send(batch, to, copy=False)

    def receive(self, expected: Expected = anything) -> Iterator[Message]:
        for _, message in self.port.receive():
            if isinstance(message, Batch) and not expected(message.incarnation, message.seq):
                self.port.refuse(Refused("stale", f"batch {message.seq} of incarnation {message.incarnation}"))
                continue
            yield message

    def open(self, message: Open) -> None:
        self.port.send(message)

    def release(self, batch: Batch, step: int = 0) -> None:
        self.port.send(Credit(slot=batch.slot, seq=batch.seq, incarnation=batch.incarnation, step=step))
