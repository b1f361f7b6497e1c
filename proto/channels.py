"""The channel table: who binds, who connects, what travels, and what happens when a channel is full.

All wiring reads this table. Sizes are chosen for what each channel carries; a high-water mark (HWM) counts messages
per peer and is approximate, so staleness is bounded by credits and versions instead.
"""

from dataclasses import dataclass
from typing import Literal

import zmq

Party = Literal["supervisor", "batcher", "boss", "assistant"]


@dataclass(frozen=True)
class Channel:
    """One row of the table.

    `binder` and `connector` are zmq socket types; `hwm` is messages, `max_bytes` the largest frame accepted,
    `linger_ms` how long a closing socket may go on sending.
    """

    name: str
    binds: Party
    connects: tuple[Party, ...]
    binder: int
    connector: int
    hwm: int
    max_bytes: int
    linger_ms: int


def _table(*rows: Channel) -> dict[str, Channel]:
    return {row.name: row for row in rows}


MIB = 1 << 20

CHANNELS = _table(
    # Both directions of one pair of sockets: batches one way, credits back. Credits bound what is in flight.
    Channel("batches", "batcher", ("boss",), zmq.ROUTER, zmq.DEALER, 4096, 1024 * MIB, 0),
    # Full: dropped and counted by the Batcher; the ledger still learns from the report.
    Channel("features", "assistant", ("batcher",), zmq.PULL, zmq.PUSH, 64, 256 * MIB, 0),
    # Full: the Boss's bounded deque drops its head, counted. Lingers so that the last reports arrive.
    Channel("losses", "assistant", ("boss",), zmq.PULL, zmq.PUSH, 16, 16 * MIB, 1000),
    # Full: the ledger delta grows until it fits.
    Channel("weights", "assistant", ("batcher",), zmq.ROUTER, zmq.DEALER, 4, 1024 * MIB, 0),
    # Full: dropped and counted. Lingers for the last words.
    Channel("status", "supervisor", ("batcher", "boss", "assistant"), zmq.PULL, zmq.PUSH, 1000, 16 * MIB, 1000),
    Channel("control", "supervisor", ("batcher", "boss", "assistant"), zmq.ROUTER, zmq.DEALER, 1000, 16 * MIB, 0),
)  # fmt: skip
