"""The Assistant's core: features and losses in, weights out, no socket and no clock."""

from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from assistant.above import Above
from assistant.config import AssistantConfig
from assistant.forecaster import Forecaster
from assistant.gate import Gate
from assistant.model import Lesson, Model
from assistant.sample import Sample
from proto.halves import widened
from proto.ledger import FIELDS, Ledger
from proto.messages import DataSpec, Features, Losses, Value, Weights
from proto.types import Array

WAITING = 1024
"""Batches whose features or losses are kept while their counterpart has not arrived."""
MEAN_DECAY, CONFIDENCE_DECAY = 0.75, 0.95
MEAN_FROM = 256
"""Sampled candidates from which a mean is taken."""

CARRIED = (
    "running_mean", "confidence", "untrained_loss", "version", "step", "deltas", "reports_folded", "reports_refused",
    "reports_unlearned", "features_refused", "losses_quarantined",
)  # fmt: skip
"""Attributes that a checkpoint carries beside the arrays."""


@dataclass(frozen=True)
class _Report:
    """A report, and what the ledger said of its instances before it was folded in."""

    losses: Losses
    records: Mapping[str, Array]


T = TypeVar("T", Features, Losses, _Report)


class Learner:
    """Joins features and losses on their batch id, keeps the ledger, and teaches the model that the policy wants.

    With `ordered` it takes loss reports strictly in their order, each only once its features are there; otherwise the
    ledger takes each at once and the model learns when it can. `on_version` is called after each report folded in,
    `on_gate` with its figures when the gate opens or closes.
    """

    def __init__(self, spec: DataSpec, config: AssistantConfig, *, ordered: bool = False) -> None:
        self.sample, self.gate = Sample(), Gate()
        self.model: Model | None = None
        if spec.assistant == "above":
            self.model = Above(spec.feature_dim, spec.classes, config.lr, config.window)
        elif spec.assistant == "loss":
            self.model = Forecaster(spec.feature_dim, spec.classes, config.lr, config.window, self.sample)
        self._feature_dim = spec.feature_dim
        self._max_batch = spec.max_batch
        self.ordered = ordered
        self.incarnation = 0
        """That of the Assistant this is the core of; snapshots carry it."""
        self._newest = self._folded = (-1, -1)
        """(incarnation of the Batcher, batch id) of the newest report, and of the newest one folded in. They
        come in order: an older one is a copy."""
        self.on_version: Callable[[], None] = lambda: None
        self.on_gate: Callable[[dict[str, Value]], None] = lambda values: None
        self.ledger = Ledger(spec.ledger_size)
        self._changed = np.zeros(spec.ledger_size, bool)
        self._ids_below = 2**63 if spec.stream else spec.train_size
        self._full = False
        """Whether the next snapshot must tell the whole ledger."""
        self._features: OrderedDict[tuple[int, int], Features] = OrderedDict()
        self._losses: OrderedDict[tuple[int, int], Losses] = OrderedDict()
        """Reports that wait for their turn, in order."""
        self._reports: OrderedDict[tuple[int, int], _Report] = OrderedDict()
        """Reports that are folded in and wait for their features."""
        self.running_mean = self.confidence = self.untrained_loss = 0.0
        self._mean_begun = False
        self.version = self.step = self.deltas = 0
        self.reports_folded = self.reports_refused = self.reports_unlearned = 0
        self.features_refused = 0
        self.losses_quarantined = 0
        self.quarantined_ids: deque[int] = deque(maxlen=16)

    @property
    def mean_loss(self) -> float:
        """The mean loss over the unbiased sample of candidates where there is one; else a running one over reports,
        which is that of the kept."""
        return self.sample.mean_loss if len(self.sample) >= MEAN_FROM else self.running_mean

    @property
    def waits(self) -> bool:
        """Whether reports wait for their turn, in order."""
        return bool(self._losses)

    def fold_features(self, message: Features) -> None:
        """Takes in the features of a batch; learns when its losses are there."""
        if len(message.ids) > self._max_batch:
            self.features_refused += 1
            return
        if message.features.shape[1] != self._feature_dim or not np.isfinite(message.features).all():
            self.features_refused += 1
            if not self.ordered:
                return
            # In order each report makes a version, whether it can be learned from or not.
            nothing = np.zeros((len(message.ids), self._feature_dim), np.float16)
            message = message.model_copy(update={"features": nothing})
        key = (message.incarnation, message.batch_id)
        if self.ordered:
            if key <= self._folded or len(self._features) > WAITING:
                self.features_refused += 1
                return
            self._features[key] = message
            self._fold_in_order()
        elif (report := self._reports.pop(key, None)) is not None:
            self._learn(message, report)
        else:
            _keep(self._features, key, message)

    def fold_losses(self, message: Losses) -> None:
        """Takes in the losses of a batch.

        A report with an id outside the data set, or of a batch already reported, is refused whole. A loss that is not
        finite is quarantined: counted, its id shown, and kept out of ledger, mean and learning.
        """
        key = (message.incarnation, message.batch_id)
        sized = 0 < len(message.ids) <= self._max_batch and key > self._newest
        if not sized or message.ids.min() < 0 or message.ids.max() >= self._ids_below:
            self.reports_refused += 1
            return
        self._newest = key
        if self.ordered and self.model is not None:
            self._losses[key] = message
            self._fold_in_order()
            return
        report = self._record(message)
        if self.model is not None:
            if (features := self._features.pop(key, None)) is not None:
                self._learn(features, report)
            else:
                self.reports_unlearned += _keep(self._reports, key, report)
        self.on_version()

    def _fold_in_order(self) -> None:
        while self._losses and (key := next(iter(self._losses))) in self._features:
            losses, self._folded = self._losses.pop(key), key
            report = self._record(losses)
            self._learn(self._features.pop(key), report)
            self.on_version()

    def _record(self, message: Losses) -> _Report:
        """Folds a report into ledger and mean."""
        report = _Report(message, self.ledger.take(message.ids))
        self.reports_folded += 1
        self.version += 1
        self.step = max(self.step, message.step)
        finite = np.isfinite(message.losses)
        if not finite.all():
            self.losses_quarantined += int((~finite).sum())
            self.quarantined_ids.extend(message.ids[~finite].tolist())
        if not finite.any():
            return report
        self.ledger.fold(message.ids[finite], message.losses[finite], message.step)
        self._changed[message.ids[finite & (message.ids < len(self.ledger))]] = True
        mean = float(message.losses[finite].mean(dtype=np.float64))
        self.running_mean = MEAN_DECAY * self.running_mean + (1 - MEAN_DECAY) * mean if self._mean_begun else mean
        if not self._mean_begun:
            self._mean_begun, self.untrained_loss = True, max(mean, 0.0)
        return report

    def _learn(self, features: Features, report: _Report) -> None:
        """Teaches the model one batch, and has the gate look at what the sample now says."""
        losses = report.losses
        finite = np.isfinite(losses.losses)
        if self.model is None or not np.array_equal(features.ids, losses.ids) or not finite.any():
            self.reports_unlearned += 1
            return
        accuracy = self.model.learn(
            Lesson(
                widened(features.features[finite]),
                features.labels[finite],
                losses.losses[finite],
                features.wanted[finite],
                {name: values[finite] for name, values in report.records.items()},
                losses.step,
                self.mean_loss,
            )
        )
        self.confidence = CONFIDENCE_DECAY * self.confidence + (1 - CONFIDENCE_DECAY) * accuracy
        if len(self.sample) and self.gate.judge(self.sample.gain, self.version):
            self.on_gate(self._gate_values())

    def _gate_values(self) -> dict[str, Value]:
        gain = self.sample.gain
        return {
            "step": self.step, "selecting": int(self.gate.open), "gain": gain.value, "gain_low": gain.low,
            "gain_high": gain.high, "gain_sample": gain.n,
        }  # fmt: skip

    def snapshot(self) -> Weights:
        """The newest version, with the ledger records that changed since `published` was last called."""
        ids = np.flatnonzero(self._changed)
        return Weights(
            version=self.version,
            step=self.step,
            incarnation=self.incarnation,
            arrays=self.model.arrays() if self.model is not None else {},
            mean_loss=self.mean_loss,
            confidence=self.confidence,
            untrained_loss=self.untrained_loss,
            selecting=self.gate.open,
            full=self._full,
            delta_number=self.deltas,
            delta={"ids": ids, **self.ledger.take(ids)},
        )

    def tell_all(self) -> None:
        """The next snapshot is a full one."""
        self._full, self.deltas = True, 0
        self._changed[:] = self.ledger.times_trained > 0

    @property
    def untold(self) -> bool:
        """Whether a full snapshot is still to be sent."""
        return self._full

    def adopt(self, mirror: Weights) -> bool:
        """Goes on from what the Assistant before this one had said; False, changing nothing, when it does not fit.

        The optimizer, the gate's sample and what is known of the model's accuracy begin anew.
        """
        mine = self.model.arrays() if self.model is not None else {}
        fits = mirror.arrays.keys() == mine.keys() and all(
            array.shape == mine[name].shape and array.dtype == np.float32 and np.isfinite(array).all()
            for name, array in mirror.arrays.items()
        )
        if not fits:
            return False
        try:
            self.ledger.apply(mirror.delta)
        except ValueError:
            return False
        if self.model is not None:
            self.model.adopt(mirror.arrays)
        self.running_mean, self.confidence = mirror.mean_loss, mirror.confidence
        self.untrained_loss, self.gate.open = mirror.untrained_loss, mirror.selecting
        self.version = self.reports_folded = mirror.version
        self.step = mirror.step
        self._mean_begun = mirror.version > 0
        self.tell_all()
        return True

    def published(self) -> None:
        """The last snapshot is on its way: its ledger delta need not be sent again."""
        self._changed[:] = False
        self._full = False
        self.deltas += 1

    def state(self) -> tuple[dict[str, Array], dict[str, float]]:
        """What another Learner needs to go on from here: arrays by name, and plain numbers."""
        model = {f"model.{name}": array for name, array in (self.model.state() if self.model else {}).items()}
        sample = {f"sample.{name}": array for name, array in self.sample.state().items()}
        everything = np.arange(len(self.ledger))
        plain = {name: getattr(self, name) for name in CARRIED}
        return {**model, **sample, **self.ledger.take(everything)}, {**plain, "selecting": self.gate.open}

    def load(self, arrays: Mapping[str, Array], plain: Mapping[str, float]) -> None:
        """Takes over what `state` gave."""
        if self.model is not None:
            self.model.load(_under("model.", arrays))
        self.sample.load(_under("sample.", arrays))
        self.gate.open = bool(plain["selecting"])
        self.ledger.apply({"ids": np.arange(len(self.ledger)), **{name: arrays[name] for name in FIELDS}})
        for name in CARRIED:
            setattr(self, name, plain[name])
        if not self.ordered:  # else `assistant.history` tells the Batcher
            self.tell_all()
        self._mean_begun = self.mean_loss != 0 or bool(np.isfinite(self.ledger.last_loss).any())

    def metrics(self) -> dict[str, Value]:
        """Counts, how well the model foresees losses, and what the gate says."""
        values: dict[str, Value] = {
            "version": self.version,
            "mean_loss": self.mean_loss,
            "confidence": self.confidence,
            "reports_folded": self.reports_folded,
            "reports_refused": self.reports_refused,
            "reports_unlearned": self.reports_unlearned + len(self._reports) + len(self._losses),
            "features_refused": self.features_refused,
            "losses_quarantined": self.losses_quarantined,
        }
        if self.quarantined_ids:
            values["quarantined_ids"] = tuple(self.quarantined_ids)
        if len(self.sample):
            values |= {name: value for name, value in self._gate_values().items() if name != "step"}
        return values | (self.model.metrics() if self.model is not None else {})


def _under(prefix: str, arrays: Mapping[str, Array]) -> dict[str, Array]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _keep(waiting: OrderedDict[tuple[int, int], T], key: tuple[int, int], message: T) -> bool:
    """Keeps `message` until its counterpart arrives; True when that pushed the oldest one out."""
    waiting[key] = message
    if len(waiting) <= WAITING:
        return False
    waiting.popitem(last=False)
    return True
