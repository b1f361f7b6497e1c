"""The Assistant's core: features and losses in, weights out, no socket and no clock."""

from collections import deque
from collections.abc import Callable, Mapping

import numpy as np

from assistant.above import Above
from assistant.config import AssistantConfig
from assistant.forecaster import Forecaster
from assistant.gate import Gate
from assistant.joiner import COUNTS, Joiner, Report
from assistant.model import Lesson, Model
from assistant.sample import Sample
from proto.control import DataSpec
from proto.halves import widened
from proto.learning import Features, Losses, Weights
from proto.ledger import FIELDS, Ledger
from proto.messages import Value
from proto.types import Array, Int64s

MEAN_DECAY, CONFIDENCE_DECAY = 0.75, 0.95
MEAN_FROM = 256
"""Sampled candidates from which a mean is taken."""

CARRIED = (
    "running_mean", "confidence", "untrained_loss", "version", "step", "deltas", "reports_folded", "losses_quarantined",
)  # fmt: skip
"""Attributes that a checkpoint carries beside the arrays, and the joiner's counts."""


class Learner:
    """Keeps the ledger, and teaches the model that the policy wants, from features and losses joined on their batch id.

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
        self.ordered = ordered
        self._joiner = Joiner(spec, ordered=ordered, learns=self.model is not None)
        self.incarnation = 0
        """That of the Assistant this is the core of; snapshots carry it."""
        self.on_version: Callable[[], None] = lambda: None
        self.on_gate: Callable[[dict[str, Value]], None] = lambda values: None
        self.ledger = Ledger(spec.ledger_size)
        self._changed: list[Int64s] = []
        """Ids whose records changed since the last snapshot that was published; some may be there twice."""
        self._full = False
        """Whether the next snapshot must tell the whole ledger."""
        self.running_mean = self.confidence = self.untrained_loss = 0.0
        self._mean_begun = False
        self.version = self.step = self.deltas = 0
        self.reports_folded = self.losses_quarantined = 0
        self.quarantined_ids: deque[int] = deque(maxlen=16)

    @property
    def mean_loss(self) -> float:
        """The mean loss over the unbiased sample of candidates where there is one; else a running one over reports,
        which is that of the kept."""
        return self.sample.mean_loss if len(self.sample) >= MEAN_FROM else self.running_mean

    @property
    def waits(self) -> bool:
        """Whether reports wait for their turn, in order."""
        return self._joiner.waits

    def fold_features(self, message: Features) -> None:
        """Takes in the features of a batch; learns when its losses are there."""
        for report, features in self._joiner.features(message):
            self._take(report, features)

    def fold_losses(self, message: Losses) -> None:
        """Takes in the losses of a batch.

        A loss that is not finite is quarantined: counted, its id shown, and kept out of ledger, mean and learning.
        """
        for report, features in self._joiner.losses(message):
            self._take(report, features)

    def _take(self, report: Report, features: Features | None) -> None:
        new = report.records is None
        if report.records is None:
            report.records = self._record(report.losses)
        if features is not None:
            self._learn(features, report.losses, report.records)
        if new:
            self.on_version()

    def _record(self, message: Losses) -> Mapping[str, Array]:
        """Folds a report into ledger and mean; returns what the ledger said before."""
        before = self.ledger.take(message.ids)
        self.reports_folded += 1
        self.version += 1
        self.step = max(self.step, message.step)
        finite = np.isfinite(message.losses)
        if not finite.all():
            self.losses_quarantined += int((~finite).sum())
            self.quarantined_ids.extend(message.ids[~finite].tolist())
        if not finite.any():
            return before
        self.ledger.fold(message.ids[finite], message.losses[finite], message.step)
        self._changed.append(message.ids[finite & (message.ids < len(self.ledger))])
        mean = float(message.losses[finite].mean(dtype=np.float64))
        self.running_mean = MEAN_DECAY * self.running_mean + (1 - MEAN_DECAY) * mean if self._mean_begun else mean
        if not self._mean_begun:
            self._mean_begun, self.untrained_loss = True, max(mean, 0.0)
        return before

    def _learn(self, features: Features, losses: Losses, records: Mapping[str, Array]) -> None:
        """Teaches the model one batch, and has the gate look at what the sample now says."""
        assert self.model is not None, "without a model nothing is joined"
        finite = np.isfinite(losses.losses)
        accuracy = self.model.learn(
            Lesson(
                widened(features.features[finite]),
                features.labels[finite],
                losses.losses[finite],
                features.wanted[finite],
                {name: values[finite] for name, values in records.items()},
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
        ids = np.unique(np.concatenate([*self._changed, np.empty(0, np.int64)]))
        self._changed = [ids]
        return Weights(
            version=self.version,
            step=self.step,
            incarnation=self.incarnation,
            arrays=self.model.arrays() if self.model is not None else {},
            mean_loss=self.mean_loss,
            confidence=self.confidence,
            untrained_loss=self.untrained_loss,
            selecting=self.gate.share,
            full=self._full,
            delta_number=self.deltas,
            delta={"ids": ids, **self.ledger.take(ids)},
        )

    def tell_all(self) -> None:
        """The next snapshot is a full one."""
        self._full, self.deltas = True, 0
        self._changed = [np.flatnonzero(self.ledger.times_trained)]

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
        self.untrained_loss, self.gate.share = mirror.untrained_loss, mirror.selecting
        self.version = self.reports_folded = mirror.version
        self.step = mirror.step
        self._mean_begun = mirror.version > 0
        self.tell_all()
        return True

    def published(self) -> None:
        """The last snapshot is on its way: its ledger delta need not be sent again."""
        self._changed = []
        self._full = False
        self.deltas += 1

    def state(self) -> tuple[dict[str, Array], dict[str, float]]:
        """What another Learner needs to go on from here: arrays by name, and plain numbers."""
        model = {f"model.{name}": array for name, array in (self.model.state() if self.model else {}).items()}
        sample = {f"sample.{name}": array for name, array in self.sample.state().items()}
        everything = np.arange(len(self.ledger))
        plain = {name: getattr(self, name) for name in CARRIED}
        plain |= {name: getattr(self._joiner, name) for name in COUNTS}
        return {**model, **sample, **self.ledger.take(everything)}, {**plain, "selecting": self.gate.share}

    def load(self, arrays: Mapping[str, Array], plain: Mapping[str, float]) -> None:
        """Takes over what `state` gave."""
        if self.model is not None:
            self.model.load(under("model.", arrays))
        self.sample.load(under("sample.", arrays))
        self.gate.share = float(plain["selecting"])
        self.ledger.apply({"ids": np.arange(len(self.ledger)), **{name: arrays[name] for name in FIELDS}})
        for name in CARRIED:
            setattr(self, name, plain[name])
        for name in COUNTS:
            setattr(self._joiner, name, plain[name])
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
            **self._joiner.metrics(),
            "losses_quarantined": self.losses_quarantined,
        }
        if self.quarantined_ids:
            values["quarantined_ids"] = tuple(self.quarantined_ids)
        if len(self.sample):
            values |= {name: value for name, value in self._gate_values().items() if name != "step"}
        return values | (self.model.metrics() if self.model is not None else {})


def under(prefix: str, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Those of `arrays` whose name begins with `prefix`, without it."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
