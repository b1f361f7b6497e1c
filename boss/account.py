"""What the run has come to, counted from the batches the Boss took, and where its stream stands."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from proto.batches import Batch, Open
from proto.messages import Value
from proto.types import Int64s

OF_EACH_CLASS = ("trained_per_class", "dropped_per_class")
"""Fields that are arrays: a sum of lists would take longer than all else with thousands of classes."""


def _none() -> Int64s:
    return np.zeros(0, np.int64)


@dataclass
class Account:
    """Counts over all training batches so far; a resumed run goes on from its checkpoint's."""

    seq: int = 0
    """Number of the next batch."""
    passes: int = 0
    cursor: int = 0
    batches: int = 0
    trained: int = 0
    evaluated: int = 0
    """Instances trained when the last evaluation was made in full: one that is cut off is made again."""
    evaluating: bool = False
    stream: str = ""
    """What the last batch said of where a stream stands."""
    candidates: int = 0
    trained_per_class: Int64s = field(default_factory=_none)
    """Int64 [C]; empty before the first batch, and where targets are no class numbers."""
    dropped_per_class: Int64s = field(default_factory=_none)
    """Int64 [C + 1], the last are those whose class is not known; empty before the first batch."""
    train_s: float = 0.0

    def add(self, batch: Batch) -> None:
        """`batch` was taken."""
        self.seq = batch.seq + 1
        if batch.kind != "train":
            self.evaluating = True
            return
        if self.evaluating:
            self.evaluating, self.evaluated = False, self.trained
        self.passes, self.cursor, self.stream = batch.passes, batch.cursor, batch.stream
        self.batches += 1
        self.trained += len(batch.ids)
        self.candidates += batch.candidates
        self.dropped_per_class = _sums(self.dropped_per_class, batch.dropped)
        # Ends as long as the classes are; targets that are none (of a loss of one's own) are not counted.
        classes, targets = len(batch.dropped) - 1, batch.arrays["targets"]
        if targets.ndim == 1 and targets.dtype.kind == "i":
            here = targets[(targets >= 0) & (targets < classes)]
            self.trained_per_class = _sums(self.trained_per_class, np.bincount(here, minlength=classes))

    def open(self, incarnation: int, slots: int, eval_every: float, step: int = 0) -> Open:
        """The message that has the Batcher `incarnation` begin, or go on, after the batches accounted for."""
        return Open(
            incarnation=incarnation,
            rank=0,
            slots=slots,
            eval_every=eval_every,
            step=step,
            seq=self.seq,
            passes=self.passes,
            cursor=self.cursor,
            batches=self.batches,
            trained=self.trained,
            evaluated=self.evaluated,
            stream=self.stream,
        )

    def metrics(self) -> dict[str, Value]:
        return {
            "candidates": self.candidates,
            "kept_fraction": self.trained / max(self.candidates, 1),
            "trained_per_class": tuple(self.trained_per_class.tolist()),
            # The last is of those whose class is not known: without classes it is all there is.
            "dropped_per_class": tuple(self.dropped_per_class.tolist()) if len(self.dropped_per_class) > 1 else (),
            "train_s": self.train_s,
        }

    def plain(self) -> dict[str, Any]:
        """All of it as JSON has it."""
        return {**asdict(self), **{name: getattr(self, name).tolist() for name in OF_EACH_CLASS}}

    def load(self, plain: Mapping[str, Any]) -> None:
        """Takes over what `plain` gave."""
        for name, value in plain.items():
            setattr(self, name, np.array(value, np.int64) if name in OF_EACH_CLASS else value)


def _sums(before: Int64s, more: Int64s) -> Int64s:
    return before + more if len(before) else more.astype(np.int64)
