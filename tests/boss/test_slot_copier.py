"""Copies straight from pinned slots: none is filled again before its copy has ended."""

import random
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import zmq
from toys import batch

from boss.copier import CudaLane, PlainCopier
from boss.pinned import SlotCopier, pin
from proto.batches import Batch, Open
from proto.codec import Codec
from proto.slot_receiver import SlotReceiver, Undo
from proto.slot_sender import SlotSender
from proto.slots import Memory, slot_size
from proto.sockets import Port

N = 8
LAYOUT = {"inputs": ((N, 6), np.dtype(np.float32)), "targets": ((N,), np.dtype(np.int64))}
CPU = torch.device("cpu")


class Copying:
    """A copy that reads its source only when the test lets it end; those before it on the lane end first."""

    def __init__(self, lane: "Slow", source: torch.Tensor) -> None:
        self.lane, self.source, self.arrived, self.ended = lane, source, torch.zeros_like(source), False

    def query(self) -> bool:
        return self.ended

    def synchronize(self) -> None:
        self.end()

    def end(self) -> None:
        for copy in self.lane.copies[: self.lane.copies.index(self) + 1]:
            if not copy.ended:
                copy.arrived.copy_(copy.source)
                copy.ended = True


class Slow:
    """A lane on which copies end when they are told to."""

    def __init__(self) -> None:
        self.copies: list[Copying] = []

    def staging(self, size: int) -> torch.Tensor:
        raise AssertionError("nothing is staged")

    def send(self, staged: torch.Tensor) -> tuple[torch.Tensor, Copying]:
        self.copies.append(Copying(self, staged))
        return self.copies[-1].arrived, self.copies[-1]


def pretend(memory: Memory) -> Undo | None:
    return lambda: None


def refuse(memory: Memory) -> Undo | None:
    return None


class Ends:
    """Both ends of slots, in one process."""

    def __init__(self, folder: Path, slots: int = 2) -> None:
        folder.chmod(0o700)
        self.context, self.slots = zmq.Context(), slots
        self.ports = [Port(self.context, "batches", party, folder, Codec("test")) for party in ("batcher", "boss")]
        self.sender = SlotSender(self.ports[0])
        self.receiver: SlotReceiver | None = None

    def open(self, pin: object) -> SlotReceiver:
        self.receiver = SlotReceiver(self.ports[1], self.slots, slot_size(LAYOUT, 2), pin)  # type: ignore[arg-type]
        self.receiver.open(Open(incarnation=0, rank=0, slots=self.slots, eval_every=0.0))
        self.ports[0].socket.poll(1000)
        assert len(list(self.sender.receive())) == 1
        return self.receiver

    def fill(self, slot: int, seq: int) -> None:
        arrays = self.sender.lend(slot, LAYOUT)
        arrays["inputs"][:] = seq
        arrays["targets"][:] = seq % 3
        weights = np.full(N, seq, np.float32)
        made = batch(range(N), slot=slot, seq=seq, weights=weights, arrays=arrays)
        assert self.sender.send(made, "boss")

    def taken(self) -> list[Batch]:
        assert self.receiver is not None
        self.ports[1].socket.poll(20)
        return [message for message in self.receiver.receive() if isinstance(message, Batch)]

    def close(self) -> None:
        self.sender.close()
        if self.receiver is not None:
            self.receiver.close()
        for port in self.ports:
            port.close()
        self.context.term()


@pytest.fixture
def ends(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ends]:
    made = Ends(tmp_path_factory.mktemp("c"))
    yield made
    made.close()


def test_every_byte_arrives_however_late_copies_end(ends: Ends) -> None:
    receiver, lane, chance = ends.open(pretend), Slow(), random.Random(0)
    copier = SlotCopier(lane, PlainCopier(CPU), lambda: receiver.pinned)
    free, seq, brought, arrived = list(range(2)), 0, {}, 0
    while arrived < 200:
        while free and seq < 200:
            ends.fill(free.pop(), seq)
            seq += 1
        for taken in ends.taken():
            brought[taken.seq] = copier.bring(taken)
        if lane.copies and chance.random() < 0.5:
            chance.choice(lane.copies[-4:]).end()
        for done in copier.finished(keep=chance.randint(0, 2)):
            tensors = brought.pop(done.seq)
            assert set(tensors) == {"inputs", "targets", "weights"}
            assert (tensors["inputs"] == done.seq).all()
            assert tensors["inputs"].shape == (N, 6)
            assert (tensors["targets"] == done.seq % 3).all()
            assert (tensors["weights"] == done.seq).all()
            receiver.release(done)
            arrived += 1
        free += [message.slot for message in ends.sender.receive()]  # type: ignore[attr-defined]
    assert not brought


def test_one_copy_takes_the_whole_batch_and_another_its_weights(ends: Ends) -> None:
    receiver, lane = ends.open(pretend), Slow()
    copier = SlotCopier(lane, PlainCopier(CPU), lambda: receiver.pinned)
    ends.fill(0, 1)
    (taken,) = ends.taken()
    copier.bring(taken)
    assert [copy.source.dtype for copy in lane.copies] == [torch.uint8, torch.float32]
    assert copier.finished(keep=1) == []
    assert copier.finished(keep=0) == [taken]


def test_what_is_not_pinned_is_staged(ends: Ends) -> None:
    receiver, lane = ends.open(refuse), Slow()
    copier = SlotCopier(lane, PlainCopier(CPU), lambda: receiver.pinned)
    assert receiver.pinned is None
    ends.fill(0, 5)
    (taken,) = ends.taken()
    assert (copier.bring(taken)["inputs"] == 5).all()
    assert copier.finished(keep=1) == [taken]
    assert lane.copies == []


def test_where_cuda_does_not_pin_the_user_is_told_what_may_bring_it_back(monkeypatch: pytest.MonkeyPatch) -> None:
    refusing = SimpleNamespace(cudaHostRegister=lambda address, size, flags: 2)
    monkeypatch.setattr(torch.cuda, "cudart", lambda: refusing)
    said: list[str] = []
    memory = Memory.anonymous(2, 4096)
    assert pin(memory, said.append) is None
    memory.close()
    (line,) = said
    assert "error 2" in line
    assert "ulimit -l" in line


def test_frames_among_slots_are_staged(ends: Ends) -> None:
    receiver, lane = ends.open(pretend), Slow()
    copier = SlotCopier(lane, PlainCopier(CPU), lambda: receiver.pinned)
    stray = batch(range(4), inputs=np.full((4, 6), 3, np.float32))
    assert (copier.bring(stray)["inputs"] == 3).all()
    ends.fill(0, 1)
    (taken,) = ends.taken()
    copier.bring(taken)
    assert copier.finished(keep=1) == [stray]
    assert copier.finished(keep=0) == [taken]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_a_thousand_batches_reach_the_device_whole(ends: Ends) -> None:
    receiver, device = ends.open(partial(pin, warn=pytest.fail)), torch.device("cuda")
    assert receiver.pinned is not None
    copier = SlotCopier(CudaLane(device), PlainCopier(device), lambda: receiver.pinned)
    free, seq, whole = [0, 1], 0, []
    while len(whole) < 1000:
        while free and seq < 1000:
            ends.fill(free.pop(), seq)
            seq += 1
        for taken in ends.taken():
            tensors, number = copier.bring(taken), taken.seq
            right = {"inputs": number, "targets": number % 3, "weights": number}
            assert tensors.keys() == right.keys()
            # Compared on the device, so that nothing waits: the copies stay as late as they are in training.
            whole.append(torch.stack([(tensors[name] == value).all() for name, value in right.items()]).all())
        for done in copier.finished(keep=1):
            receiver.release(done)
        free += [message.slot for message in ends.sender.receive()]  # type: ignore[attr-defined]
    assert torch.stack(whole).all()
