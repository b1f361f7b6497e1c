"""The Assistant's core: features and losses in, weights out, no socket and no clock.

AutoAssist (Zhang, Yu, Dhillon, NeurIPS 2019), section 3: an instance's label is z = 1 where its loss is above the
running mean loss, and q = sigmoid(W x + U_y + b) is trained online by logistic SGD, one step per loss report.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from typing import TypeVar

import numpy as np
import torch
from sklearn.metrics import roc_auc_score
from torch.nn.functional import binary_cross_entropy_with_logits

from assistant.config import AssistantConfig
from proto import scorer
from proto.ledger import FIELDS, Ledger
from proto.messages import DataSpec, Features, Losses, Value, Weights
from proto.types import Array, Bools, Float32s, Int64s

WAITING = 1024
"""Batches whose features or losses are kept while their counterpart has not arrived."""
MEAN_DECAY, CONFIDENCE_DECAY = 0.75, 0.95

CARRIED = (
    "mean_loss", "confidence", "version", "step", "deltas", "reports_folded", "reports_refused", "reports_unlearned",
    "features_refused", "losses_quarantined",
)  # fmt: skip
"""Attributes that a checkpoint carries beside the arrays."""

T = TypeVar("T", Features, Losses)


class Learner:
    """Joins features and losses on their batch id, keeps the ledger, and trains the scorer's arrays.

    With `ordered` it takes loss reports strictly in their order, each only once its features are there; otherwise the
    ledger takes each at once and the scorer learns when it can. `on_version` is called after each report folded in.
    """

    def __init__(self, spec: DataSpec, config: AssistantConfig, *, ordered: bool = False) -> None:
        arrays = scorer.initial(spec.feature_dim, spec.classes)
        self._parameters = {name: torch.nn.Parameter(torch.from_numpy(array)) for name, array in arrays.items()}
        self._optimizer = torch.optim.SGD(self._parameters.values(), lr=config.lr)
        self._feature_dim = spec.feature_dim
        self.ordered = ordered
        self.on_version: Callable[[], None] = lambda: None
        self.ledger = Ledger(spec.ledger_size)
        self._changed = np.zeros(spec.ledger_size, bool)
        self._ids_below = 2**63 if spec.stream else spec.train_size
        self._full = False
        """Whether the next snapshot must tell the whole ledger."""
        self._features: OrderedDict[tuple[int, int], Features] = OrderedDict()
        self._losses: OrderedDict[tuple[int, int], Losses] = OrderedDict()
        self._predicted: deque[Float32s] = deque()
        self._truth: deque[Bools] = deque()
        self._window, self._judged = config.window, 0
        self.mean_loss = self.confidence = 0.0
        self._mean_begun = False
        self.version = self.step = self.deltas = 0
        self.reports_folded = self.reports_refused = self.reports_unlearned = 0
        self.features_refused = 0
        self.losses_quarantined = 0
        self.quarantined_ids: deque[int] = deque(maxlen=16)

    def fold_features(self, message: Features) -> None:
        """Takes in the features of a batch; learns when its losses are there."""
        if message.features.shape[1] != self._feature_dim or not np.isfinite(message.features).all():
            self.features_refused += 1
            if not self.ordered:
                return
            # In order each report makes a version, whether it can be learned from or not.
            nothing = np.zeros((len(message.ids), self._feature_dim), np.float32)
            message = message.model_copy(update={"features": nothing})
        key = (message.incarnation, message.batch_id)
        if self.ordered:
            self._features[key] = message
            self._fold_in_order()
        elif (losses := self._losses.pop(key, None)) is not None:
            self._learn(message, losses)
        else:
            _keep(self._features, key, message)

    def fold_losses(self, message: Losses) -> None:
        """Takes in the losses of a batch.

        A report with an id outside the data set is refused whole. A loss that is not finite is quarantined: counted,
        its id shown, and kept out of ledger, mean and learning.
        """
        if len(message.ids) == 0 or message.ids.min() < 0 or message.ids.max() >= self._ids_below:
            self.reports_refused += 1
            return
        key = (message.incarnation, message.batch_id)
        if self.ordered:
            self._losses[key] = message
            self._fold_in_order()
            return
        self._record(message)
        if (features := self._features.pop(key, None)) is not None:
            self._learn(features, message)
        else:
            self.reports_unlearned += _keep(self._losses, key, message)
        self.on_version()

    def _fold_in_order(self) -> None:
        while self._losses and (key := next(iter(self._losses))) in self._features:
            losses = self._losses.pop(key)
            self._record(losses)
            self._learn(self._features.pop(key), losses)
            self.on_version()

    def _record(self, message: Losses) -> None:
        """Folds a report into ledger and mean."""
        self.reports_folded += 1
        self.version += 1
        self.step = max(self.step, message.step)
        finite = np.isfinite(message.losses)
        if not finite.all():
            self.losses_quarantined += int((~finite).sum())
            self.quarantined_ids.extend(message.ids[~finite].tolist())
        if not finite.any():
            return
        self.ledger.fold(message.ids[finite], message.losses[finite], message.step)
        self._changed[message.ids[finite & (message.ids < len(self.ledger))]] = True
        mean = float(message.losses[finite].mean(dtype=np.float64))
        self.mean_loss = MEAN_DECAY * self.mean_loss + (1 - MEAN_DECAY) * mean if self._mean_begun else mean
        self._mean_begun = True

    def _learn(self, features: Features, losses: Losses) -> None:
        """One step of logistic SGD on one batch."""
        finite = np.isfinite(losses.losses)
        if not np.array_equal(features.ids, losses.ids) or not finite.any():
            self.reports_unlearned += 1
            return
        x, y = features.features[finite], features.labels[finite]
        above = losses.losses[finite] > self.mean_loss
        logits = self._logits(x, y)
        self._judge(torch.sigmoid(logits.detach()).numpy(), above)
        self._optimizer.zero_grad()
        target = torch.from_numpy(above.astype(np.float32))
        binary_cross_entropy_with_logits(logits, target).backward()  # type: ignore[no-untyped-call]
        self._optimizer.step()

    def _logits(self, x: Float32s, y: Int64s) -> torch.Tensor:
        u = self._parameters["u"]
        known = torch.from_numpy((y >= 0) & (y < len(u)))
        term = torch.where(known, u[torch.where(known, torch.from_numpy(y.copy()), 0)], 0.0)
        return torch.from_numpy(x.copy()) @ self._parameters["w"] + term + self._parameters["b"]

    def _judge(self, q: Float32s, above: Bools) -> None:
        """Scores predictions made before their truth was known."""
        accuracy = float(((q > 0.5) == above).mean())
        self.confidence = CONFIDENCE_DECAY * self.confidence + (1 - CONFIDENCE_DECAY) * accuracy
        self._predicted.append(q)
        self._truth.append(above)
        self._judged += len(above)
        while self._judged - len(self._truth[0]) >= self._window:
            self._predicted.popleft()
            self._judged -= len(self._truth.popleft())

    def snapshot(self) -> Weights:
        """The newest version, with the ledger records that changed since `published` was last called."""
        ids = np.flatnonzero(self._changed)
        return Weights(
            version=self.version,
            step=self.step,
            incarnation=0,
            arrays={name: parameter.detach().numpy().copy() for name, parameter in self._parameters.items()},
            mean_loss=self.mean_loss,
            confidence=self.confidence,
            full=self._full,
            delta_number=self.deltas,
            delta={"ids": ids, **self.ledger.take(ids)},
        )

    def published(self) -> None:
        """The last snapshot is on its way: its ledger delta need not be sent again."""
        self._changed[:] = False
        self._full = False
        self.deltas += 1

    def state(self) -> tuple[dict[str, Array], dict[str, float]]:
        """What another Learner needs to go on from here: arrays by name, and plain numbers."""
        arrays = {name: parameter.detach().numpy().copy() for name, parameter in self._parameters.items()}
        everything = np.arange(len(self.ledger))
        plain = {name: getattr(self, name) for name in CARRIED}
        return {**arrays, **self.ledger.take(everything)}, plain

    def load(self, arrays: Mapping[str, Array], plain: Mapping[str, float]) -> None:
        """Takes over what `state` gave."""
        with torch.no_grad():
            for name, parameter in self._parameters.items():
                parameter.copy_(torch.from_numpy(np.array(arrays[name])))
        self.ledger.apply({"ids": np.arange(len(self.ledger)), **{name: arrays[name] for name in FIELDS}})
        for name in CARRIED:
            setattr(self, name, plain[name])
        if not self.ordered:  # else `assistant.history` tells the Batcher
            self._full, self.deltas = True, 0
            self._changed[:] = self.ledger.times_trained > 0
        self._mean_begun = self.mean_loss != 0 or bool(np.isfinite(self.ledger.last_loss).any())

    def metrics(self) -> dict[str, Value]:
        """Counts, and the accuracy and AUC of "loss above the mean" over the window."""
        values: dict[str, Value] = {
            "version": self.version,
            "mean_loss": self.mean_loss,
            "confidence": self.confidence,
            "reports_folded": self.reports_folded,
            "reports_refused": self.reports_refused,
            "reports_unlearned": self.reports_unlearned + len(self._losses),
            "features_refused": self.features_refused,
            "losses_quarantined": self.losses_quarantined,
        }
        if self.quarantined_ids:
            values["quarantined_ids"] = tuple(self.quarantined_ids)
        if self._truth:
            predicted, truth = np.concatenate(self._predicted), np.concatenate(self._truth)
            values["accuracy"] = float(((predicted > 0.5) == truth).mean())
            if truth.any() and not truth.all():
                values["auc"] = float(roc_auc_score(truth, predicted))
        return values


def _keep(waiting: OrderedDict[tuple[int, int], T], key: tuple[int, int], message: T) -> bool:
    """Keeps `message` until its counterpart arrives; True when that pushed the oldest one out."""
    waiting[key] = message
    if len(waiting) <= WAITING:
        return False
    waiting.popitem(last=False)
    return True
