"""What goes wrong in the numbers, counted and undone on the device: masked losses, suppressed steps."""

import math
from collections import deque
from collections.abc import Iterable

import torch
from torch import Tensor, nn

PATIENCE = 3
"""Batches in a row without a finite loss that end the run."""


class Health:
    """What the host knows of batches and steps, as soon as that can be without waiting for the device.

    On the CPU that is at once. From a GPU what is said of a step leaves through a pinned buffer and an event, and the
    host counts it when it is there.
    """

    def __init__(self, device: torch.device) -> None:
        self._on_host = device.type == "cpu"
        self._said: list[tuple[int, Tensor]] = []
        """Size of a batch (0: a step) and what was said of it, an integer on the device."""
        self._leaving: deque[tuple[list[int], Tensor, torch.cuda.Event]] = deque()
        self.masked = self.suppressed = self.dead = 0
        """Losses masked; steps suppressed; batches in a row, up to the newest one, without a finite loss."""
        self.over = False
        """True once `PATIENCE` batches in a row had no finite loss."""

    def sure(self, values: Iterable[Tensor]) -> bool:
        """Whether the host can tell without waiting that all of `values` are finite: never with a GPU. Where it can, as
        for all but a few steps on a CPU, nothing needs to be masked or put back."""
        # If the sum is finite so is every value; where it overflows the values are looked at one by one after all.
        return self._on_host and all(math.isfinite((one.sum() if one.ndim else one).item()) for one in values)

    def batch(self, size: int, finite: Tensor | int) -> None:
        """A batch of `size` losses, of which so many were `finite`, int64 [] if the device knows it."""
        self._say(size, finite)

    def step(self, failed: Tensor) -> None:
        """A step that was suppressed if `failed`, bool []."""
        self._say(0, failed)

    def _say(self, size: int, what: Tensor | int) -> None:
        if isinstance(what, int) or self._on_host:
            self._count(size, int(what))
        else:
            self._said.append((size, what.long()))

    def look(self, *, wait: bool = False) -> None:
        """Counts what has arrived, with `wait` all that was said."""
        if self._said:
            sizes, said = zip(*self._said, strict=True)
            pinned = torch.empty(len(said), dtype=torch.int64, pin_memory=True)
            pinned.copy_(torch.stack(said), non_blocking=True)
            event = torch.cuda.Event()  # type: ignore[no-untyped-call]
            event.record()
            self._leaving.append((list(sizes), pinned, event))
            self._said = []
        while self._leaving and (wait or self._leaving[0][2].query()):  # type: ignore[no-untyped-call]
            arrived, pinned, event = self._leaving.popleft()
            event.synchronize()
            for size, what in zip(arrived, pinned.tolist(), strict=True):
                self._count(size, what)

    def _count(self, size: int, what: int) -> None:
        if size == 0:
            self.suppressed += what
            return
        self.masked += size - what
        self.dead = 0 if what else self.dead + 1
        self.over = self.over or self.dead >= PATIENCE

    def load(self, masked: int, suppressed: int, dead: int) -> None:
        """Starts from these counts."""
        self._said, self._leaving = [], deque()
        self.masked, self.suppressed, self.dead, self.over = masked, suppressed, dead, False


class BufferGuard:
    """Puts the buffers of a model back after a suppressed step: one NaN in the running statistics of a batch norm
    would stay there for good."""

    def __init__(self, model: nn.Module) -> None:
        self._groups: list[list[Tensor]] = []
        for dtype in {buffer.dtype: None for buffer in model.buffers()}:
            self._groups.append([buffer for buffer in model.buffers() if buffer.dtype == dtype])
        self._kept: list[Tensor] = []

    def keep(self) -> None:
        """Remembers the buffers as they are."""
        self._kept = [_flat(group) for group in self._groups]

    def restore(self, failed: Tensor) -> None:
        """Puts back what `keep` remembered if `failed`, bool [] on the device."""
        for group, kept in zip(self._groups, self._kept, strict=True):
            now = torch.where(failed, kept, _flat(group))
            parts = torch.split(now, [buffer.numel() for buffer in group])
            torch._foreach_copy_(group, [part.view_as(buffer) for part, buffer in zip(parts, group, strict=True)])


def finite(values: Tensor) -> Tensor:
    """Which of `values` are finite: less work than torch.isfinite, which is made of four operations."""
    return values - values == 0


def _flat(tensors: list[Tensor]) -> Tensor:
    # One tensor, so that a model with many norms needs few kernels.
    return torch.cat([tensor.reshape(-1) for tensor in tensors])
