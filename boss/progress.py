"""Where a run stands, recorded at even steps of trained instances: what curves over time are drawn from."""

from collections.abc import Callable

from boss.account import Account
from proto.batches import Batch
from proto.control import DataSpec
from proto.messages import Value

PER_EPOCH = 20
"""Records in a Boss epoch."""
MOST = 1000
"""Records in a run: one over many epochs of little data must not fill the disk with them."""


class Progress:
    """Records the account each time another twentieth of a Boss epoch is trained, or another thousandth of the budget,
    whichever is more."""

    def __init__(self, account: Account, spec: DataSpec, record: Callable[[str, dict[str, Value]], None]) -> None:
        """`record(event, values)` is how a line gets into metrics.jsonl."""
        self._account, self._size, self._record = account, spec.train_size, record
        self._every = max(spec.train_size / PER_EPOCH, spec.train_total / MOST)
        self._last = account.trained // self._every

    def after_batch(self, batch: Batch) -> None:
        due = self._account.trained // self._every
        if due > self._last or batch.last:
            self._last = due
            epochs = self._account.trained / self._size
            self._record(
                "progress", {"trained": self._account.trained, "boss_epochs": epochs, **self._account.metrics()}
            )
