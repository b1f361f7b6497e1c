"""What goes wrong in the numbers, counted and undone on the device: masked losses, suppressed steps."""

import torch
from torch import Tensor, nn

PATIENCE = 3
"""Batches in a row without a finite loss that end the run."""


class Health:
    """Counters on the device, and the host's view of them.

    On the CPU the view is exact. On CUDA it is as old as the newest copy that has ended, so nothing waits for it;
    the counters are cumulative, so nothing is lost.
    """

    def __init__(self, device: torch.device) -> None:
        self._counters = torch.zeros(4, dtype=torch.int64, device=device)
        self._masked, self._suppressed, self._dead, self._worst = self._counters.unbind()
        self._pinned = torch.zeros(4, dtype=torch.int64, pin_memory=True) if device.type == "cuda" else None
        self._event: torch.cuda.Event | None = None
        self.masked = self.suppressed = self.dead = 0
        """Losses masked; steps suppressed; batches in a row, up to the newest one, without a finite loss."""
        self.over = False
        """True once `PATIENCE` batches in a row had no finite loss."""

    def batch(self, finite: Tensor) -> None:
        """A batch whose losses were `finite` bool [B]."""
        bad = finite.logical_not()
        self._masked += bad.sum()
        self._dead += 1
        self._dead *= bad.all()
        torch.maximum(self._worst, self._dead, out=self._worst)

    def step(self, failed: Tensor) -> None:
        """A step that was suppressed if `failed`, bool []."""
        self._suppressed += failed

    def look(self, *, wait: bool = False) -> None:
        """Brings the host's view up to date: as far as can be without waiting, or with `wait` in full."""
        if self._pinned is None:
            self._see(self._counters)
            return
        if self._event is not None and self._event.query():  # type: ignore[no-untyped-call]
            self._see(self._pinned)
            self._event = None
        if self._event is None or wait:
            self._pinned.copy_(self._counters, non_blocking=True)
            self._event = torch.cuda.Event()  # type: ignore[no-untyped-call]
            self._event.record()
        if wait:
            self._event.synchronize()
            self._see(self._pinned)
            self._event = None

    def _see(self, counters: Tensor) -> None:
        self.masked, self.suppressed, self.dead, worst = counters.tolist()
        self.over = worst >= PATIENCE

    def load(self, masked: int, suppressed: int, dead: int) -> None:
        """Starts from these counts."""
        self._counters.copy_(torch.tensor([masked, suppressed, dead, dead]))
        self.look(wait=True)


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


def _flat(tensors: list[Tensor]) -> Tensor:
    # One tensor, so that a model with many norms needs few kernels.
    return torch.cat([tensor.reshape(-1) for tensor in tensors])
