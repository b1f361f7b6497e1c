"""Brings features and losses of a batch together, in whichever order they come, and refuses what does not fit."""

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from proto.control import DataSpec
from proto.learning import Features, Losses
from proto.types import Array

WAITING = 1024
"""Batches whose features or losses are kept while their counterpart has not arrived."""
COUNTS = ("reports_refused", "reports_unlearned", "features_refused")
"""Attributes that a checkpoint carries."""


@dataclass
class Report:
    """The losses of a batch, and what the ledger said of its instances before they were folded in."""

    losses: Losses
    records: Mapping[str, Array] | None = None
    """None as long as they are not folded in."""


T = TypeVar("T", Features, Losses, Report)
Joined = tuple[Report, Features | None]
"""A report whose turn it is, and its features where it can be learned from now."""


class Joiner:
    """Joins features and losses on their batch id.

    With `ordered` a report comes out in its turn, and once its features are there. Otherwise it comes out at once, to
    be folded in, and a second time when features arrive that were late. `learns`: whether there is anything to learn;
    else features are not waited for.
    """

    def __init__(self, spec: DataSpec, *, ordered: bool, learns: bool) -> None:
        self._ordered, self._learns = ordered, learns
        self._feature_dim, self._max_batch = spec.feature_dim, spec.max_batch
        self._ids_below = 2**63 if spec.stream else spec.train_size
        self._newest = self._folded = (-1, -1)
        """(incarnation of the Batcher, batch id) of the newest report, and of the newest one that came out. They
        come in order: an older one is a copy."""
        self._features: OrderedDict[tuple[int, int], Features] = OrderedDict()
        self._losses: OrderedDict[tuple[int, int], Losses] = OrderedDict()
        """Reports that wait for their turn, in order."""
        self._reports: OrderedDict[tuple[int, int], Report] = OrderedDict()
        """Reports that came out and wait for their features."""
        self.reports_refused = self.reports_unlearned = self.features_refused = 0

    @property
    def waits(self) -> bool:
        """Whether reports wait for their turn, in order."""
        return bool(self._losses)

    def features(self, message: Features) -> Iterator[Joined]:
        """What the features of a batch complete. Those that do not fit are refused and counted."""
        if len(message.ids) > self._max_batch:
            self.features_refused += 1
            return
        if message.features.shape[1] != self._feature_dim or not np.isfinite(message.features).all():
            self.features_refused += 1
            if not self._ordered:
                return
            # In order each report makes a version, whether it can be learned from or not.
            nothing = np.zeros((len(message.ids), self._feature_dim), np.float16)
            message = message.model_copy(update={"features": nothing})
        key = (message.incarnation, message.batch_id)
        if self._ordered:
            if key <= self._folded or len(self._features) > WAITING:
                self.features_refused += 1
                return
            self._features[key] = message
            yield from self._in_order()
        elif (report := self._reports.pop(key, None)) is not None:
            yield report, self._alike(report.losses, message)
        else:
            _keep(self._features, key, message)

    def losses(self, message: Losses) -> Iterator[Joined]:
        """What the losses of a batch complete. A report with an id outside the data set, or of a batch already
        reported, is refused whole and counted."""
        key = (message.incarnation, message.batch_id)
        sized = 0 < len(message.ids) <= self._max_batch and key > self._newest
        if not sized or message.ids.min() < 0 or message.ids.max() >= self._ids_below:
            self.reports_refused += 1
            return
        self._newest = key
        if not self._learns:
            yield Report(message), None
        elif self._ordered:
            self._losses[key] = message
            yield from self._in_order()
        elif (features := self._features.pop(key, None)) is not None:
            yield Report(message), self._alike(message, features)
        else:
            report = Report(message)
            self.reports_unlearned += _keep(self._reports, key, report)
            yield report, None

    def _in_order(self) -> Iterator[Joined]:
        while self._losses and (key := next(iter(self._losses))) in self._features:
            losses, self._folded = self._losses.pop(key), key
            yield Report(losses), self._alike(losses, self._features.pop(key))

    def _alike(self, losses: Losses, features: Features) -> Features | None:
        """`features`, if something can be learned of them and `losses`."""
        if np.array_equal(features.ids, losses.ids) and np.isfinite(losses.losses).any():
            return features
        self.reports_unlearned += 1
        return None

    def metrics(self) -> dict[str, int]:
        """What was refused; a report that waits is not learned from yet."""
        waiting = len(self._reports) + len(self._losses)
        return {name: getattr(self, name) for name in COUNTS} | {"reports_unlearned": self.reports_unlearned + waiting}


def _keep(waiting: OrderedDict[tuple[int, int], T], key: tuple[int, int], message: T) -> bool:
    """Keeps `message` until its counterpart arrives; True when that pushed the oldest one out."""
    waiting[key] = message
    if len(waiting) <= WAITING:
        return False
    waiting.popitem(last=False)
    return True
