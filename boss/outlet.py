"""What the Boss says: per-instance losses, to the Assistant, without ever waiting for anything."""

from collections import deque
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from proto.batches import Batch, End
from proto.learning import Losses, Mark
from proto.types import Int64s

Send = Callable[[Losses | Mark | End], bool]
"""Sends one message; False when it does not fit."""


class LossOutlet:
    """Loss reports on their way: from the device into a bounded queue, from there to the Assistant.

    A report leaves the device through a pinned buffer and an event, so the Boss never waits for the copy. When the
    Assistant does not read, the queue drops its oldest report and counts it.
    """

    def __init__(self, send: Send, limit: int, *, prompt: bool = False) -> None:
        """`send` takes a message; `limit` reports are kept. `prompt`: a report leaves before the next step, at the cost
        of waiting for the device."""
        self._send, self._limit, self._prompt = send, limit, prompt
        self._copying: deque[tuple[Batch, int, Tensor, torch.cuda.Event]] = deque()
        self._queue: deque[Losses | Mark | End] = deque()
        self.made = self.dropped = self.sent = 0
        self._newest: Losses | None = None

    @property
    def recent_loss(self) -> float:
        """Mean loss of the newest report that has left the device."""
        return float("nan") if self._newest is None else float(self._newest.losses.mean())

    def report(self, batch: Batch, step: int, losses: Tensor) -> None:
        """Reports the unweighted losses float [B] of `batch`, trained in step `step`."""
        self.made += 1
        losses = losses.detach().float()
        if losses.is_cuda:
            pinned = torch.empty(losses.shape, dtype=torch.float32, pin_memory=True)
            pinned.copy_(losses, non_blocking=True)
            event = torch.cuda.Event()  # type: ignore[no-untyped-call]
            event.record()
            self._copying.append((batch, step, pinned, event))
        else:
            self._enqueue(batch, step, losses)
        self.flush(wait=self._prompt)

    def mark(self, mark: Mark | End) -> None:
        """Puts `mark` behind the reports made so far; `flush(wait=True)` first."""
        self._queue.append(mark)
        self.flush()

    def flush(self, *, wait: bool = False) -> bool:
        """Sends what can be sent now, with `wait` after every copy has ended; True when nothing is left."""
        while self._copying and (wait or self._copying[0][3].query()):  # type: ignore[no-untyped-call]
            batch, step, pinned, event = self._copying.popleft()
            event.synchronize()
            self._enqueue(batch, step, pinned)
        while self._queue and self._send(self._queue[0]):
            self._queue.popleft()
            self.sent += 1
        return not self._copying and not self._queue

    def _enqueue(self, batch: Batch, step: int, losses: Tensor) -> None:
        ids: Int64s = np.array(batch.ids)
        report = Losses(batch_id=batch.seq, step=step, incarnation=batch.incarnation, ids=ids, losses=losses.numpy())
        self._put(report)

    def pass_on(self, report: Losses) -> None:
        """Sends a report that another rank has made."""
        self.made += 1
        self._put(report)
        self.flush()

    def _put(self, report: Losses) -> None:
        self._newest = report
        self._queue.append(report)
        if len(self._queue) > self._limit:
            # A mark is never dropped: without it there would be no checkpoint, and no end.
            del self._queue[next(i for i, item in enumerate(self._queue) if isinstance(item, Losses))]
            self.dropped += 1
