"""No slot is given back and no staging memory used again before the copy out of it has ended."""

import random
from typing import Any

import numpy as np
import pytest
import torch
from toys import batch, spec

from boss.config import BossConfig
from boss.copier import Copier, CudaLane, PinnedCopier, PlainCopier, make_copier
from boss.outlet import LossOutlet
from boss.trainer import Trainer
from proto.batches import Batch
from proto.config import RunConfig

CPU = torch.device("cpu")


def numbered(seq: int, n: int = 4) -> Batch:
    """A batch filled with its number."""
    inputs = np.full((n, 6), seq, np.float32)
    weights = np.full(n, seq, np.float32)
    return batch(range(n), inputs=inputs, targets=np.full(n, seq % 3), weights=weights, seq=seq)


class Copying:
    """A copy that the test lets end: staging memory is read when it does, and not before."""

    def __init__(self, lane: "FakeLane", staged: torch.Tensor) -> None:
        self.lane, self.staged, self.ended = lane, staged, False
        self.arrived = torch.zeros_like(staged)

    def end(self) -> None:
        if not self.ended:
            self.arrived.copy_(self.staged)
            self.ended = True

    def query(self) -> bool:
        return self.ended

    def synchronize(self) -> None:
        self.lane.waits += 1
        self.end()


class FakeLane:
    def __init__(self) -> None:
        self.copies: list[Copying] = []
        self.made: list[torch.Tensor] = []
        self.waits = 0

    def staging(self, size: int) -> torch.Tensor:
        self.made.append(torch.zeros(size, dtype=torch.uint8))
        return self.made[-1]

    def send(self, staged: torch.Tensor) -> tuple[torch.Tensor, Copying]:
        for copy in self.copies:
            if not copy.ended:
                assert copy.staged.data_ptr() != staged.data_ptr(), "staging memory of a copy under way was used again"
        self.copies.append(Copying(self, staged))
        return self.copies[-1].arrived, self.copies[-1]


def assert_is(arrays: dict[str, torch.Tensor], expected: Batch) -> None:
    assert set(arrays) == {*expected.arrays, "weights"}
    for name, array in {**expected.arrays, "weights": expected.weights}.items():
        np.testing.assert_array_equal(arrays[name].numpy(), array)
        assert arrays[name].numpy().dtype == array.dtype


def test_a_batch_is_given_back_once_its_copy_has_ended_in_any_order() -> None:
    lane = FakeLane()
    copier = PinnedCopier(lane)
    for seq in range(3):
        copier.bring(numbered(seq))
    assert copier.finished(keep=3) == []
    lane.copies[1].end()
    assert [one.seq for one in copier.finished(keep=3)] == [1]
    lane.copies[2].end()
    lane.copies[0].end()
    assert [one.seq for one in copier.finished(keep=3)] == [0, 2]
    assert copier.finished(keep=0) == []
    assert lane.waits == 0


def test_it_waits_for_the_oldest_when_too_many_are_under_way() -> None:
    lane = FakeLane()
    copier = PinnedCopier(lane)
    for seq in range(3):
        copier.bring(numbered(seq))
    assert [one.seq for one in copier.finished(keep=1)] == [0, 1]
    assert [copy.ended for copy in lane.copies] == [True, True, False]


@pytest.mark.parametrize("seed", range(5))
def test_delayed_and_reordered_copies_bring_every_batch_whole(seed: int) -> None:
    draw, lane = random.Random(seed), FakeLane()
    copier = PinnedCopier(lane)
    given = [numbered(seq, n=draw.choice([2, 4, 7])) for seq in range(40)]
    arrived, released = [], []
    for one in given:
        arrived.append(copier.bring(one))
        for copy in draw.sample(lane.copies, len(lane.copies) // 2):
            copy.end()
        for done in copier.finished(keep=2):
            assert lane.copies[done.seq].ended, "released while its copy was under way"
            released.append(done.seq)
    released += [one.seq for one in copier.finished(keep=0)]
    assert sorted(released) == list(range(40))
    for arrays, one in zip(arrived, given, strict=True):
        assert_is(arrays, one)
    assert len(lane.made) < 15, "staging memory is used again"


@pytest.mark.parametrize("dtype", ["uint8", "float32", "float64", "int64", "float16"])
def test_staging_keeps_shapes_and_dtypes(dtype: str) -> None:
    inputs = (np.arange(3 * 5 * 7).reshape(3, 5, 7) % 200).astype(dtype)
    one = batch([1, 2, 3], inputs=inputs, targets=np.array([2, 0, 1]))
    lane = FakeLane()
    staged = PinnedCopier(lane).bring(one)
    lane.copies[0].end()
    assert_is(staged, one)
    assert_is(PlainCopier(CPU).bring(one), one)


class Slots:
    """A stream with a number of slots, which it fills with rubbish as soon as they are given back."""

    def __init__(self, given: list[Batch], slots: int) -> None:
        self.given, self.slots, self.out = given, slots, 0
        self.released: list[int] = []

    def __iter__(self) -> Any:
        for one in self.given:
            assert self.out < self.slots, "the stream would wait for ever for a slot"
            self.out += 1
            yield one

    def release(self, one: Batch) -> None:
        self.out -= 1
        self.released.append(one.seq)
        for array in one.arrays.values():
            array[:] = 99


class Eager(FakeLane):
    """Every other copy ends at once, for its tensors are used; what `query` says lags behind by a copy."""

    def send(self, staged: torch.Tensor) -> tuple[torch.Tensor, Copying]:
        arrived, copy = super().send(staged)
        arrived.copy_(staged)
        for older in self.copies[:-1]:
            older.end()
        return arrived, copy


def trained(copier: Copier | None, slots: int) -> tuple[list[Any], list[int]]:
    trainer = Trainer(RunConfig(), BossConfig(model="linear", device="cpu", slots=slots), spec())
    if copier is not None:
        trainer.prepare.copier = copier
    stream, reports = Slots([numbered(seq) for seq in range(1, 9)], slots), []
    outlet = LossOutlet(lambda report: reports.append(report) or True, 100)  # type: ignore[func-returns-value]
    trainer.train(stream, outlet, lambda event, values: None)
    return [report.losses.tolist() for report in reports], stream.released  # type: ignore[union-attr]


@pytest.mark.parametrize("slots", [1, 2, 4])
def test_the_trainer_gives_every_slot_back_and_trains_the_same_with_either_copier(slots: int) -> None:
    lane = Eager()
    losses, released = trained(PinnedCopier(lane), slots)
    plain, in_order = trained(None, slots)
    assert losses == plain
    assert released == in_order == list(range(1, 9))
    assert len(lane.made) == min(slots, 2)


def test_the_cpu_has_the_plain_copier() -> None:
    assert isinstance(make_copier(CPU, pin_memory=True), PlainCopier)


# -- on the device itself

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


@pytest.mark.gpu
@needs_cuda
def test_cuda_copies_arrive_whole_while_the_device_computes() -> None:
    device = torch.device("cuda")
    copier = PinnedCopier(CudaLane(device))
    work, sums = torch.randn(2000, 2000, device=device), []
    for seq in range(50):
        arrays = copier.bring(numbered(seq, n=1000))
        work = work @ work / 50
        sums.append(arrays["inputs"].double().mean())
        copier.finished(keep=1)
    assert len(copier.finished(keep=0)) <= 1
    assert torch.stack(sums).tolist() == list(range(50))


@pytest.mark.gpu
@needs_cuda
def test_pin_memory_chooses_the_copier() -> None:
    assert isinstance(make_copier(torch.device("cuda"), pin_memory=True), PinnedCopier)
    assert isinstance(make_copier(torch.device("cuda"), pin_memory=False), PlainCopier)
