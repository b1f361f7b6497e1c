"""What a policy is given, and what it is."""

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from batcher.features import FeatureStore
from proto import scorer
from proto.ledger import Ledger
from proto.types import Array, Bools, Float32s, Int64s


@dataclass(frozen=True)
class Progress:
    """How far the run is.

    `trained` of `total` instances will have been trained once the batch that the candidates are for is; `passes` is
    the pass they belong to. The rest is what the Assistant last said: the running mean loss, its own confidence, the
    loss that the model had before it was trained (each 0 before it has said anything), and the Boss's step then.
    """

    trained: int
    total: int
    passes: int
    mean_loss: float = 0.0
    confidence: float = 0.0
    untrained_loss: float = 0.0
    step: int = 0

    def beyond(self, share: float) -> bool:
        """Whether any instance of the batch lies beyond `share` of the budget."""
        return self.trained > share * self.total


class Candidates:
    """n candidates of one pass, and all that is known of them."""

    def __init__(
        self,
        ids: Int64s,
        progress: Progress,
        store: FeatureStore,
        ledger: Ledger,
        arrays: scorer.Arrays,
        sample: Int64s | None = None,
    ) -> None:
        """`arrays` are the Assistant's; `sample` are the ids that stand for all (None: all of them)."""
        self.ids, self.progress = ids, progress
        self._store, self._ledger, self._arrays = store, ledger, arrays
        self._sample = np.arange(len(ledger)) if sample is None else sample

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def size(self) -> int:
        """N, the number of instances in the training split."""
        return len(self._ledger)

    @cached_property
    def _content(self) -> tuple[Float32s, Int64s, Bools]:
        return self._store.get(self.ids)

    @property
    def features(self) -> Float32s:
        """Float32 [n, D], mean squared norm about 1; zeros where not known yet."""
        return self._content[0]

    @property
    def labels(self) -> Int64s:
        """Int64 [n]; -1 where not known yet."""
        return self._content[1]

    @cached_property
    def ledger(self) -> dict[str, Array]:
        """The ledger's records of the candidates, as `proto.ledger.FIELDS` lists them."""
        return self._ledger.take(self.ids)

    @cached_property
    def last_loss(self) -> Float32s:
        """Float32 [n]; NaN where there is none yet."""
        found: Float32s = self.ledger["last_loss"]
        return found

    @cached_property
    def all_losses(self) -> Float32s:
        """The last losses float32 [m], m <= 4096, of a fixed random sample of all instances; those that have one."""
        losses = self._ledger.last_loss[self._sample]
        return losses[np.isfinite(losses)]

    @cached_property
    def q(self) -> Float32s:
        """The probability float32 [n] that the loss is above the mean, as the Assistant "above" says; NaN where it
        cannot tell, the content not being known."""
        features, labels, known = self._content
        return np.where(known, scorer.score(self._arrays, features, labels), np.float32(np.nan))

    @cached_property
    def predicted(self) -> Float32s:
        """The loss now, float32 [n], as the Assistant "loss" predicts it, in units of the mean loss; NaN where it
        cannot tell."""
        features, labels, known = self._content
        history = scorer.history(self.ledger, self.progress.step, self.progress.mean_loss)
        return np.where(known, scorer.forecast(self._arrays, features, labels, history), np.float32(np.nan))


class Policy(Protocol):
    """What a policy is; its class is called with `gamma`, if it takes one, and with `[policy.args]`."""

    def __call__(self, candidates: Candidates) -> tuple[Float32s, Float32s]: ...
