"""How the arrays of a batch get to the device.

On CUDA: batch -> pinned staging memory (by the CPU) -> device memory (by the GPU, on a stream of its own, while it
computes on the batch before). The batch and its staging memory are free when the copy's event has fired, not before.
"""

from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from proto.batches import Batch
from proto.types import Array

ALIGN = 64
"""Arrays begin at multiples of this in staging memory, so that the device can view them as any dtype."""


class Copier(Protocol):
    """One way to bring the arrays of a batch to the device."""

    def bring(self, batch: Batch) -> dict[str, Tensor]:
        """The arrays of `batch`, and its "weights", as tensors on the device, to be used on its current stream."""

    def finished(self, keep: int) -> list[Batch]:
        """The batches whose copies have ended since the last call; waits until at most `keep` are under way."""


class PlainCopier:
    """Copies while the caller waits. On the CPU there is nothing else to do."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._done: list[Batch] = []

    def bring(self, batch: Batch) -> dict[str, Tensor]:
        self._done.append(batch)
        # A copy even on the CPU: the arrays are read-only views of what the transport lent us.
        return {name: torch.tensor(array, device=self._device) for name, array in _arrays(batch).items()}

    def finished(self, keep: int) -> list[Batch]:
        done, self._done = self._done, []
        return done


class Event(Protocol):
    """When a copy has ended; torch.cuda.Event is one."""

    def query(self) -> bool: ...

    def synchronize(self) -> None: ...


class Lane(Protocol):
    """The way across: what only a device can do."""

    def staging(self, size: int) -> Tensor:
        """Staging memory, uint8 [size]."""

    def send(self, staged: Tensor) -> tuple[Tensor, Event]:
        """Begins to copy `staged` uint8 [n]; the copy on the device, and when it has ended."""


class PinnedCopier:
    """Copies through staging memory while the device computes."""

    def __init__(self, lane: Lane) -> None:
        self._lane = lane
        self._free: list[Tensor] = []
        self._under_way: list[tuple[Batch, Tensor, Event]] = []

    def bring(self, batch: Batch) -> dict[str, Tensor]:
        arrays = _arrays(batch)
        starts, end = {}, 0
        for name, array in arrays.items():
            starts[name] = end
            end += -(-array.nbytes // ALIGN) * ALIGN
        memory = self._take(end)
        for name, array in arrays.items():
            np.copyto(_view(memory, starts[name], array).numpy(), array)
        arrived, event = self._lane.send(memory[:end])
        self._under_way.append((batch, memory, event))
        return {name: _view(arrived, starts[name], array) for name, array in arrays.items()}

    def finished(self, keep: int) -> list[Batch]:
        for _, _, event in self._under_way[: max(len(self._under_way) - keep, 0)]:
            event.synchronize()
        under_way, self._under_way = self._under_way, []
        done = []
        for batch, memory, event in under_way:
            if event.query():
                self._free.append(memory)
                done.append(batch)
            else:
                self._under_way.append((batch, memory, event))
        return done

    def _take(self, size: int) -> Tensor:
        """Staging memory of at least `size` bytes that no copy reads any more."""
        memory = self._free.pop() if self._free else self._lane.staging(size)
        return memory if len(memory) >= size else self._lane.staging(size)


class CudaLane:
    """Copies on a side stream of a CUDA device."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._side = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def staging(self, size: int) -> Tensor:
        return torch.empty(size, dtype=torch.uint8, pin_memory=True)

    def send(self, staged: Tensor) -> tuple[Tensor, Event]:
        computing = torch.cuda.current_stream(self._device)
        with torch.cuda.stream(self._side):
            arrived = staged.to(self._device, non_blocking=True)
            event = torch.cuda.Event()  # type: ignore[no-untyped-call]
            event.record(self._side)
        computing.wait_event(event)
        # The memory belongs to the side stream: without this it would be used again while `computing` still reads it.
        arrived.record_stream(computing)
        return arrived, event


def make_copier(device: torch.device, *, pin_memory: bool) -> Copier:
    """The copier for `device`."""
    return PinnedCopier(CudaLane(device)) if device.type == "cuda" and pin_memory else PlainCopier(device)


def bring_few(array: Array, device: torch.device) -> Tensor:
    """`array` on the device, for a few bytes that do not come with the batch. Nobody waits for the copy."""
    tensor = torch.from_numpy(array)
    # Torch uses this pinned memory again once the copy has ended, and not before.
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)


def _arrays(batch: Batch) -> dict[str, Array]:
    return {**batch.arrays, "weights": batch.weights}


def _view(memory: Tensor, start: int, array: Array) -> Tensor:
    """The part of `memory` uint8 [n] from `start` as a tensor of shape and dtype of `array`."""
    dtype = torch.from_numpy(np.empty(0, array.dtype)).dtype
    return memory[start : start + array.nbytes].view(dtype).view(array.shape)
