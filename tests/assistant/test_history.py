"""The snapshots that are kept for a Batcher that is started anew."""

from collections.abc import ItemsView

import numpy as np
from toys import weights

from assistant.history import History
from proto.ledger import Ledger
from proto.types import Array

SIZE, LAG = 20, 50


class Counted(dict[str, Array]):
    """Arrays by name that count how often all of them are gone through."""

    walks = 0

    def items(self) -> ItemsView[str, Array]:
        self.walks += 1
        return super().items()


def test_what_was_written_replays_alike_and_is_gone_through_once_whatever_the_lag() -> None:
    history, ledger = History(SIZE, LAG), Ledger(SIZE)
    for version in range(1, LAG + 8):
        ids = np.array([version % SIZE])
        ledger.fold(ids, np.full(1, version, np.float32), version)
        arrays = {"w": np.full(3, version, np.float32)}
        history.add(weights(version, arrays=arrays, delta_number=version - 1, delta={"ids": ids, **ledger.take(ids)}))
    arrays, plain = history.state()
    again, written = History(SIZE, LAG), Counted(arrays)
    again.load(written, plain)
    assert written.walks == 1
    assert len(again.replay()) == LAG + 1
    for one, other in zip(history.replay(), again.replay(), strict=True):
        np.testing.assert_equal(one.model_dump(), other.model_dump())
