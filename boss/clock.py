"""The training clock: how long the Boss trained, from first to last step, evaluation left out."""

import time
from collections.abc import Iterator

import torch

from boss.account import Account
from boss.trainer import Batches
from proto.batches import Batch


class Clocked:
    """A stream of batches that keeps account of them, with the time.

    Waiting for a training batch counts; the evaluations do not.
    """

    def __init__(self, stream: Batches, account: Account) -> None:
        self._stream, self._account = stream, account

    def __iter__(self) -> Iterator[Batch]:
        began: float | None = None
        before = self._account.train_s
        for batch in self._stream:
            self._account.add(batch)
            if batch.kind == "train":
                began = time.perf_counter() if began is None else began
                yield batch
                self._account.train_s = before + time.perf_counter() - began
            else:
                self._until_now(began, before)
                began, before = None, self._account.train_s
                yield batch
        self._until_now(began, before)

    def _until_now(self, began: float | None, before: float) -> None:
        """Training is over for now: on a GPU, which may be some steps behind the host, once it has caught up."""
        if began is not None and torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            torch.cuda.synchronize()
            self._account.train_s = before + time.perf_counter() - began

    def release(self, batch: Batch) -> None:
        self._stream.release(batch)
