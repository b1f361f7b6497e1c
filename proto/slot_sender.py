"""The Batcher's end of the carrier that uses slots: it fills those that `proto.slot_receiver` grants."""

from collections.abc import Callable, Iterator

import numpy as np

from proto.batches import BESIDE, SAID, Batch, Credit, Filled, Open, Place, Unmapped
from proto.errors import Refused
from proto.fields import NAMES
from proto.messages import Message
from proto.slots import Layout, Memory, Seen, starts, why
from proto.sockets import Port
from proto.types import Array


class SlotSender:
    """The Batcher's end. Lends arrays that lie in slots; what does not fit a slot travels as frames."""

    name = "slots"

    def __init__(self, port: Port, incarnation: int = 0, can_open: Callable[[Open], bool] = lambda _: True) -> None:
        """`incarnation` is the Batcher's; an `Open` that `can_open` denies is refused."""
        self.port, self.incarnation, self._can_open = port, incarnation, can_open
        self.memory: Memory | None = None
        self.bytes_sent = 0
        self._opened = False
        self._generation: dict[int, int] = {}
        self._sent: dict[int, int] = {}
        """Slot -> sequence number of the batch last sent in it, or that the Boss says is in it."""
        self._lent: dict[int, tuple[Layout, dict[str, Array]]] = {}
        """Slot -> layout and arrays that were last lent there."""
        self._seen: dict[int, Seen] = {}
        """Slot -> where the batch last sent lies in it."""

    def receive(self) -> Iterator[Message]:
        """The messages of the channel that have arrived. Dropped and counted is what was meant for another incarnation,
        a second `Open`, and a credit for anything but what was sent last."""
        for sender, message in self.port.receive():
            if refusal := self._stale(sender, message):
                self.port.refuse(refusal)
                continue
            if isinstance(message, Open):
                if reason := self._attach(message):
                    self.port.send(Unmapped(memory=message.memory, reason=reason), "boss")
                    continue  # the Boss opens again, another way
                self._opened = True
                self._generation = dict.fromkeys(range(message.slots), message.generation)
                self._sent = dict(message.busy)
            elif isinstance(message, Credit):
                del self._sent[message.slot]
                self._generation[message.slot] = message.generation
            yield message

    def _stale(self, sender: str, message: Message) -> Refused | None:
        """Why `message` is not for us, or not any more."""
        if sender != "boss":
            return Refused("sender", f"from {sender!r:.40}")
        if isinstance(message, Open | Credit) and message.incarnation != self.incarnation:
            return Refused("stale", f"{message.tag} for incarnation {message.incarnation}, this is {self.incarnation}")
        if isinstance(message, Open) and self._opened:
            return Refused("stale", "open, a second time")
        if isinstance(message, Open) and not self._can_open(message):
            return Refused("place", f"open at a place that is none: {message!r:.200}")
        if isinstance(message, Credit) and self._sent.get(message.slot) != message.seq:
            return Refused("stale", f"credit for slot {message.slot}, batch {message.seq}")
        return None

    def _attach(self, message: Open) -> str:
        """Maps the memory that `message` offers, if any; returns why it cannot be."""
        self.close()
        if not message.memory:
            return ""
        try:
            self.memory = Memory.attached(message.memory, message.inode, message.slots, message.slot_bytes)
        except (OSError, ValueError) as error:
            return why(error)
        return ""

    def lend(self, slot: int, layout: Layout) -> dict[str, Array]:
        """Arrays of `layout` to collate the batch of `slot` into: in the slot, where they fit."""
        lent = self._lent.get(slot)
        if lent is not None and lent[0] == layout:
            return lent[1]
        begins, end = starts(layout)
        memory = self.memory
        if memory is None or end > memory.size or slot >= memory.count:
            return {name: np.empty(shape, dtype) for name, (shape, dtype) in layout.items()}
        found = {name: memory.view(slot, begins[name], NAMES[dtype], shape) for name, (shape, dtype) in layout.items()}
        self._lent[slot] = dict(layout), found
        return found

    def send(self, batch: Batch, to: str) -> bool:
        """Sends `batch`: a descriptor when its arrays lie in its slot and the rest fits there too, else frames."""
        self._sent[batch.slot] = batch.seq
        self.bytes_sent += sum(array.nbytes for array in batch.arrays.values())
        beside: dict[str, Array] = {name: getattr(batch, name) for name in BESIDE}
        seen = self._seen.get(batch.slot)
        if seen is None or not _is(batch.arrays, seen.arrays) or not _alike(beside, seen.beside):
            seen = self._place(batch, beside)
            if seen is None:
                return self.port.send(batch, to, copy=False)
            self._seen[batch.slot] = seen
        for name, view in seen.beside.items():
            view[...] = beside[name]
        said = {name: getattr(batch, name) for name in SAID}
        return self.port.send(Filled(**said, generation=self._generation[batch.slot], places=seen.places), to)

    def _place(self, batch: Batch, beside: dict[str, Array]) -> Seen | None:
        """Where the arrays of `batch` lie in its slot and `beside` has its place; None where that cannot be."""
        memory = self.memory
        if memory is None:
            return None
        places: list[Place] = []
        end = 0
        for name, array in batch.arrays.items():
            start = memory.start_of(batch.slot, array)
            if start is None:
                return None
            places.append((name, NAMES[array.dtype], array.shape, start))
            end = max(end, start + array.nbytes)
        begins, end = starts({name: (array.shape, array.dtype) for name, array in beside.items()}, end)
        if end > memory.size:
            return None
        places += [(name, NAMES[array.dtype], array.shape, begins[name]) for name, array in beside.items()]
        views = {name: memory.view(batch.slot, begins[name], NAMES[a.dtype], a.shape) for name, a in beside.items()}
        return Seen(tuple(places), batch.arrays, views)

    def close(self) -> None:
        self._lent.clear()
        self._seen.clear()
        if self.memory is not None:
            self.memory.close()
            self.memory = None


def _is(arrays: dict[str, Array], others: dict[str, Array]) -> bool:
    """Whether both hold the very same arrays."""
    return len(arrays) == len(others) and all(others.get(name) is array for name, array in arrays.items())


def _alike(arrays: dict[str, Array], others: dict[str, Array]) -> bool:
    """Whether the arrays of both have the same shapes, in the same order; their dtypes are a batch's."""
    return [array.shape for array in arrays.values()] == [array.shape for array in others.values()]
