"""Suspects: instances whose losses stay high while those of others fall. Many of them bear a wrong label."""

import csv
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from batcher.selector import Selector
from proto.errors import RAISED
from proto.ledger import stays_high
from proto.types import Bools, Int64s

COLUMNS = ("id", "label", "class", "times_trained", "last_loss", "loss_before", "description")


def suspects(selector: Selector) -> Int64s:
    """Ids of the suspects (`proto.ledger.stays_high`), int64 [n]: the lower of the last two losses decides, the highest
    first."""
    ledger, ids = selector.ledger, np.flatnonzero(_which(selector))
    return ids[np.argsort(-np.minimum(ledger.last_loss[ids], ledger.loss_before[ids]), kind="stable")]


def count(selector: Selector) -> int:
    """How many there are, which each heartbeat tells: they are not put in order for that."""
    return int(np.count_nonzero(_which(selector)))


def _which(selector: Selector) -> Bools:
    records = {name: getattr(selector.ledger, name) for name in ("last_loss", "loss_before", "times_trained")}
    return stays_high(records, selector.mean_loss, selector.untrained_loss)


def write(path: Path, selector: Selector, class_names: Sequence[str], describe: Callable[[int], object] | None) -> None:
    """Writes them as CSV, one a line below the names of the columns, with what `describe(id)` says of each, if that is
    a text: images would have to be decoded, for nothing that a line can show."""
    ledger, ids = selector.ledger, suspects(selector)
    labels = selector.store.labels(ids)
    if describe is not None and len(ids) and not isinstance(_said(describe, int(ids[0])), str):
        describe = None
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(COLUMNS)
        for index, label in zip(ids.tolist(), labels.tolist(), strict=True):
            rows.writerow(
                [
                    index,
                    label,
                    class_names[label] if 0 <= label < len(class_names) else "",
                    ledger.times_trained[index],
                    f"{ledger.last_loss[index]:.6g}",
                    f"{ledger.loss_before[index]:.6g}",
                    _said(describe, index) if describe is not None else "",
                ]
            )


def _said(describe: Callable[[int], object], index: int) -> object:
    try:
        return describe(index)
    except RAISED:  # whatever the user's data set raises: without a word on it the instance is a suspect all the same
        return ""
