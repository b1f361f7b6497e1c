"""The Boss's end of the carrier that uses slots: it owns them, and grants them.

A grant of a slot has a number, its generation, that is never used twice. The Boss says it in `Open` and `Credit`, the
descriptor of a filled slot repeats it, and one that was not granted last is refused. When the Batcher was started anew
the Boss opens again, and grants all slots but those that hold a batch it has taken and not released.
"""

import logging
from collections.abc import Callable, Iterator
from typing import Any

from pydantic import ValidationError

from proto.batches import BESIDE, SAID, Batch, Credit, Filled, Open, Unmapped
from proto.errors import Refused
from proto.messages import Message
from proto.slots import Memory, Seen, why
from proto.sockets import Port
from proto.transport import Expected, anything

log = logging.getLogger(__name__)

PROC_BACK = "run Boss and Batcher as one user in one PID namespace, with /proc mounted without hidepid"
SHM_BACK = "or make /dev/shm larger (docker run --shm-size=1g)"

Undo = Callable[[], None]


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
        self._seen: dict[int, Seen] = {}
        """Slot -> what the last descriptor of it said, checked."""
        self._held: dict[int, int] = {}
        """Slot -> sequence number of the batch in it that has been taken and not been released."""
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
                self._tried.append(f"{self.count} slots, {mb:.0f} MB, as {way.__name__} memory: {why(error)}")
            else:
                self._unpin = self._pin(self.memory) if self._pin else None
                return

    def open(self, message: Open) -> None:
        """Sends `message` with where the slots are; every slot that holds no batch is granted anew."""
        self._opened = message
        self._generation += 1
        self._granted = {slot: self._generation for slot in range(self.count) if slot not in self._held}
        memory = self.memory
        place = {"memory": memory.path, "inode": memory.inode, "slot_bytes": memory.size} if memory else {}
        grants = {"generation": self._generation, "busy": tuple(self._held.items())}
        self.port.send(message.model_copy(update={**place, **grants}))

    def receive(self, expected: Expected = anything) -> Iterator[Message]:
        """The batches and other messages that have arrived. Bad descriptors, and batches that are not `expected`, are
        counted and dropped."""
        for _, message in self.port.receive():
            if isinstance(message, Unmapped):
                self._fall_back(message)
            elif isinstance(message, Filled | Batch):
                try:
                    batch = self._check(message, expected)
                except Refused as refusal:
                    self.port.refuse(refusal)
                    continue
                self._took(batch)
                yield batch
            else:
                yield message

    def _fall_back(self, message: Unmapped) -> None:
        if self.memory is None or message.memory != self.memory.path or self._opened is None:
            return  # an answer to an offer before the last
        self._tried.append(f"{self.memory.path}: the Batcher cannot open it: {message.reason}")
        anonymous = self.memory.kind == "memfd"
        self._give_up_memory()
        self._held.clear()  # what the Boss reads of them stays mapped as long as it does
        if anonymous:
            self._make(Memory.file)
        self.open(self._opened)

    def _took(self, batch: Batch) -> None:
        del self._granted[batch.slot]
        self._held[batch.slot] = batch.seq
        if self._tried:  # said now that it is known how batches do travel: one line, whatever was tried
            back = f"{PROC_BACK}; {SHM_BACK}" if self.memory is None else PROC_BACK
            what = "frames, which costs copies" if self.memory is None else f"the file {self.memory.path}, as fast"
            self._warn(f"batches travel as {what}. Tried: {'; '.join(self._tried)}. To get it back: {back}")
            self._tried.clear()

    def _check(self, message: Filled | Batch, expected: Expected) -> Batch:
        """The batch that `message` is or describes. Raises Refused unless `expected`, and in a slot that is granted."""
        if not expected(message.incarnation, message.seq):
            raise Refused("stale", f"batch {message.seq} of incarnation {message.incarnation}")
        if message.slot not in self._granted:
            raise Refused("stale", f"batch {message.seq} in slot {message.slot}, which was not granted")
        return self._batch(message) if isinstance(message, Filled) else message

    def _batch(self, message: Filled) -> Batch:
        """The batch that `message` describes: its `arrays` are views of the slot. Raises Refused."""
        granted = self._granted[message.slot]
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

    def release(self, batch: Batch, step: int = 0) -> None:
        """The arrays of `batch` are not read any more: its slot is granted again, to the Batcher that is there now."""
        if self._held.get(batch.slot) != batch.seq:
            return  # it was granted anew with other memory
        del self._held[batch.slot]
        self._generation += 1
        self._granted[batch.slot] = self._generation
        incarnation = self._opened.incarnation if self._opened else batch.incarnation
        self.port.send(
            Credit(slot=batch.slot, seq=batch.seq, incarnation=incarnation, generation=self._generation, step=step)
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


def _look(memory: Memory, message: Filled) -> Seen:
    """The views that `message` describes, all of them in its slot. Raises Refused."""
    seen = Seen(message.places, {}, {})
    for path, dtype, shape, start in message.places:
        view = memory.view(message.slot, start, dtype, shape)
        view.flags.writeable = False
        part = seen.beside if path in BESIDE else seen.arrays
        if path in part:
            raise Refused("place", f"{path:.80} twice")
        part[path] = view
    return seen
