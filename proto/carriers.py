"""The two ends of the carrier that uses slots: the Boss's, which owns them, and the Batcher's, which fills them.

A grant of a slot has a number, its generation, that is never used twice. The Boss says it in `Open` and `Credit`, the
descriptor of a filled slot repeats it, and one that was not granted last is refused.
"""

import logging
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from pydantic import ValidationError

from proto.errors import Refused
from proto.fields import NAMES
from proto.messages import Batch, Credit, Filled, Message, Open, Place, Unmapped
from proto.slots import Layout, Memory, starts
from proto.sockets import Port
from proto.types import Array

log = logging.getLogger(__name__)

SAID = tuple(name for name in Filled.model_fields if name in Batch.model_fields)
"""What a descriptor says as the batch would; the rest lies in the slot."""
BESIDE = ("ids", "passes_of", "weights", "dropped")
PROC_BACK = "run Boss and Batcher as one user in one PID namespace, with /proc mounted without hidepid"
SHM_BACK = "or make /dev/shm larger (docker run --shm-size=1g)"

Undo = Callable[[], None]


class _Seen(NamedTuple):
    """Where in a slot the arrays of a batch lie. Almost every batch looks like the one before: found out once."""

    places: tuple[Place, ...]
    arrays: dict[str, Array]
    beside: dict[str, Array]


class SlotReceiver:
    """The Boss's end. Owns `count` slots of `size` bytes; falls back to a file, then to frames, and says so once."""

    def __init__(
        self,
        port: Port,
        count: int,
        size: int,
        pin: Callable[[Memory], Undo | None] | None = None,
        warn: Callable[[str], None] = log.warning,
    ) -> None:
        """`pin` is given the memory before it is used, and returns what undoes that, or None where it cannot; `warn`
        what the user should see."""
        self.port, self.count, self.size, self._pin, self._warn = port, count, size, pin, warn
        self._tried: list[str] = []
        self._unpin: Undo | None = None
        self._opened: Open | None = None
        self._generation = 0
        self._granted: dict[int, int] = {}
        self._seen: dict[int, _Seen] = {}
        """Slot -> what the last descriptor of it said, checked."""
        self.memory: Memory | None = None
        self._make(Memory.anonymous, Memory.file)

    @property
    def name(self) -> str:
        """What the batches travel through: "memfd", "file" or "frames"."""
        return self.memory.kind if self.memory else "frames"

    @property
    def pinned(self) -> Memory | None:
        """The memory, where it is pinned."""
        return self.memory if self._unpin is not None else None

    def _make(self, *ways: Callable[[int, int], Memory]) -> None:
        """Makes the memory in the first of `ways` that works; where none does, there is none."""
        for way in ways:
            try:
                self.memory = way(self.count, self.size)
            except (OSError, ValueError) as error:
                mb = self.count * self.size / 1e6
                self._tried.append(f"{self.count} slots, {mb:.0f} MB, as {way.__name__} memory: {_reason(error)}")
            else:
                self._unpin = self._pin(self.memory) if self._pin else None
                return

    def open(self, message: Open) -> None:
        """Sends `message` with where the slots are; every slot is granted anew."""
        self._opened = message
        self._generation += 1
        self._granted = dict.fromkeys(range(self.count), self._generation)
        memory = self.memory
        place = {"memory": memory.path, "inode": memory.inode, "slot_bytes": memory.size} if memory else {}
        self.port.send(message.model_copy(update={**place, "generation": self._generation}))

    def receive(self) -> Iterator[Message]:
        """The batches and other messages that have arrived; bad descriptors are counted and dropped."""
        for _, message in self.port.receive():
            match message:
                case Unmapped():
                    self._fall_back(message)
                case Filled():
                    try:
                        batch = self._batch(message)
                    except Refused as refusal:
                        self.port.refuse(refusal)
                        continue
                    self._took(batch)
                    yield batch
                case Batch():
                    self._took(message)
                    yield message
                case _:
                    yield message

    def _fall_back(self, message: Unmapped) -> None:
        if self.memory is None or message.memory != self.memory.path or self._opened is None:
            return  # an answer to an offer before the last
        self._tried.append(f"{self.memory.path}: the Batcher cannot open it: {message.reason}")
        anonymous = self.memory.kind == "memfd"
        self._give_up_memory()
        if anonymous:
            self._make(Memory.file)
        self.open(self._opened)

    def _took(self, batch: Batch) -> None:
        self._granted.pop(batch.slot, None)
        if self._tried:  # said now that it is known how batches do travel: one line, whatever was tried
            back = f"{PROC_BACK}; {SHM_BACK}" if self.memory is None else PROC_BACK
            what = "frames, which costs copies" if self.memory is None else f"the file {self.memory.path}, as fast"
            self._warn(f"batches travel as {what}. Tried: {'; '.join(self._tried)}. To get it back: {back}")
            self._tried.clear()

    def _batch(self, message: Filled) -> Batch:
        """The batch that `message` describes: its `arrays` are views of the slot. Raises Refused."""
        granted = self._granted.get(message.slot)
        if self.memory is None or granted != message.generation:
            raise Refused("stale", f"slot {message.slot}, generation {message.generation}; granted: {granted}")
        seen = self._seen.get(message.slot)
        if seen is None or seen.places != message.places:
            seen = self._seen[message.slot] = _look(self.memory, message)
        # Copies, since they are read after the slot is free again: losses are reported by id.
        beside: dict[str, Any] = {name: view.copy() for name, view in seen.beside.items()}
        try:
            return Batch.model_validate({**{name: getattr(message, name) for name in SAID}, **beside,
                                         "arrays": seen.arrays})  # fmt: skip
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            raise Refused("fields", f"batch: {first['msg'][:200]}") from None

    def release(self, batch: Batch) -> None:
        """The arrays of `batch` are not read any more: its slot is granted again."""
        self._generation += 1
        self._granted[batch.slot] = self._generation
        self.port.send(
            Credit(slot=batch.slot, seq=batch.seq, incarnation=batch.incarnation, generation=self._generation)
        )

    def close(self) -> None:
        self._give_up_memory()

    def _give_up_memory(self) -> None:
        if self._unpin is not None:
            self._unpin()
            self._unpin = None
        self._seen.clear()
        if self.memory is not None:
            self.memory.close()
            self.memory = None


def _look(memory: Memory, message: Filled) -> _Seen:
    """The views that `message` describes, all of them in its slot. Raises Refused."""
    seen = _Seen(message.places, {}, {})
    for path, dtype, shape, start in message.places:
        view = memory.view(message.slot, start, dtype, shape)
        view.flags.writeable = False
        part = seen.beside if path in BESIDE else seen.arrays
        if path in part:
            raise Refused("place", f"{path:.80} twice")
        part[path] = view
    return seen


class SlotSender:
    """The Batcher's end. Lends arrays that lie in slots; what does not fit a slot travels as frames."""

    name = "slots"

    def __init__(self, port: Port) -> None:
        self.port = port
        self.memory: Memory | None = None
        self.bytes_sent = 0
        self._generation: dict[int, int] = {}
        self._sent: dict[int, tuple[int, int]] = {}
        """Slot -> (incarnation, sequence number) of the batch last sent in it."""
        self._lent: dict[int, tuple[Layout, dict[str, Array]]] = {}
        """Slot -> layout and arrays that were last lent there."""
        self._seen: dict[int, _Seen] = {}
        """Slot -> where the batch last sent lies in it."""

    def receive(self) -> Iterator[Message]:
        """The messages of the channel that have arrived. A credit for anything but what was sent last is dropped."""
        for _, message in self.port.receive():
            if isinstance(message, Open):
                if reason := self._attach(message):
                    self.port.send(Unmapped(memory=message.memory, reason=reason), "boss")
                    continue  # the Boss opens again, another way
                self._generation = dict.fromkeys(range(message.slots), message.generation)
            elif isinstance(message, Credit):
                if self._sent.get(message.slot) != (message.incarnation, message.seq):
                    self.port.refuse(Refused("stale", f"credit for slot {message.slot}, batch {message.seq}"))
                    continue
                del self._sent[message.slot]
                self._generation[message.slot] = message.generation
            yield message

    def _attach(self, message: Open) -> str:
        """Maps the memory that `message` offers, if any; returns why it cannot be."""
        self.close()
        if not message.memory:
            return ""
        try:
            self.memory = Memory.attached(message.memory, message.inode, message.slots, message.slot_bytes)
        except (OSError, ValueError) as error:
            return _reason(error)
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
        self._sent[batch.slot] = (batch.incarnation, batch.seq)
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

    def _place(self, batch: Batch, beside: dict[str, Array]) -> _Seen | None:
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
        return _Seen(tuple(places), batch.arrays, views)

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


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
