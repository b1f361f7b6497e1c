"""Where a run stands, recorded at even steps of trained instances: what curves over time are drawn from."""

from collections.abc import Callable

from boss.account import Account
from proto.batches import Batch
from proto.control import DataSpec
from proto.messages import Value

PER_EPOCH = 20
"""Records in a Boss epoch."""


class Progress:
    """Records the account each time another twentieth of a Boss epoch is trained."""

    def __init__(self, account: Account, spec: DataSpec, record: Callable[[str, dict[str, Value]], None]) -> None:
        """`record(event, values)` is how a line gets into metrics.jsonl."""
        self._account, self._size, self._record = account, spec.train_size, record
        self._last = account.trained * PER_EPOCH // spec.train_size

    def after_batch(self, batch: Batch) -> None:
        due = self._account.trained * PER_EPOCH // self._size
        if due > self._last or batch.last:
            self._last = due
            epochs = self._account.trained / self._size
            self._record(
                "progress", {"trained": self._account.trained, "boss_epochs": epochs, **self._account.metrics()}
            )
