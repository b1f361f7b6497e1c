"""How the arrays of a batch get from the Batcher to the Boss.

The Batcher collates straight into the arrays that `lend` returns, then sends the batch; the Boss receives batches whose
arrays it may read until it returns the slot's credit. Everything else about batches is the same for every carrier.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import numpy as np

from proto.messages import Batch, Message
from proto.sockets import Port
from proto.types import Array

Layout = Mapping[str, tuple[tuple[int, ...], np.dtype[Any]]]
"""Name -> (shape, dtype) of each array of a batch."""


class Carrier(Protocol):
    """One way to carry the arrays of a batch."""

    def lend(self, slot: int, layout: Layout) -> dict[str, Array]:
        """Arrays of `layout` to collate the batch of `slot` into."""

    def send(self, batch: Batch, to: str) -> bool:
        """Sends `batch`, whose arrays were lent; False when the peer is away."""

    def receive(self) -> Iterator[Message]:
        """The batches, and other messages of the channel, that have arrived."""


class FrameCarrier:
    """Carries each array as one more frame of the message: works between any two hosts."""

    def __init__(self, port: Port) -> None:
        self.port = port

    def lend(self, slot: int, layout: Layout) -> dict[str, Array]:
        return {name: np.empty(shape, dtype) for name, (shape, dtype) in layout.items()}

    def send(self, batch: Batch, to: str) -> bool:
        # Lent arrays are new for each batch and never written again, so ZeroMQ may send from them without a copy.
        return self.port.send(batch, to, copy=False)

    def receive(self) -> Iterator[Message]:
        for _, message in self.port.receive():
            yield message
