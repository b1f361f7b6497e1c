"""The selector: the Batcher's mirror of the Assistant, and the policy that looks into it."""

import logging

import numpy as np

from batcher.features import FeatureStore
from batcher.policies import Candidates, Policy, Progress
from proto import scorer
from proto.ledger import Ledger
from proto.messages import Weights
from proto.types import Float32s, Int64s

log = logging.getLogger(__name__)


class Selector:
    """Answers, for candidates, with which probability to keep them and with which weight to train them."""

    def __init__(self, store: FeatureStore, policy: Policy, classes: int) -> None:
        self.store, self.policy = store, policy
        self.ledger = Ledger(0 if store.source.in_order else store.source.size)
        self.version = self.version_step = 0
        self.mean_loss = self.confidence = 0.0
        self.weights_refused = 0
        self._arrays: dict[str, Float32s] = scorer.initial(store.dim, classes)
        self._deltas = 0

    def fold(self, weights: Weights) -> None:
        """Takes over a snapshot and its ledger delta; one that is older or does not fit is counted and left alone."""
        fits = weights.arrays.keys() == self._arrays.keys() and all(
            array.shape == self._arrays[name].shape and array.dtype == np.float32 and np.isfinite(array).all()
            for name, array in weights.arrays.items()
        )
        newer = weights.full or (weights.version > self.version and weights.delta_number == self._deltas)
        if not fits or not newer:
            self.weights_refused += 1
            log.warning("refused weights version %d (delta %d)", weights.version, weights.delta_number)
            return
        try:
            self.ledger.apply(weights.delta)
        except ValueError as error:
            self.weights_refused += 1
            log.warning("refused weights version %d: %s", weights.version, error)
            return
        if weights.full:
            self._deltas = weights.delta_number
        self._arrays = {name: np.array(array) for name, array in weights.arrays.items()}
        self._deltas += 1
        self.version, self.version_step = weights.version, weights.step
        self.mean_loss, self.confidence = weights.mean_loss, weights.confidence

    def revisit(self, weights: Weights) -> None:
        """The instances `weights` tell of were seen, maybe before the Batcher was started anew: what it knew of them
        can be had again."""
        ids = weights.delta.get("ids", np.empty(0, np.int64))
        self.store.revisit(ids[(ids >= 0) & (ids < len(self.ledger))])

    def select(self, ids: Int64s, trained: int, total: int, passes: int) -> tuple[Float32s, Float32s]:
        """Keep probability p and weight w, float32 [n] each, of the candidates `ids` of pass `passes`."""
        progress = Progress(trained, total, passes, self.mean_loss, self.confidence)
        candidates = Candidates(ids, progress, self.store, self.ledger, self._score)
        p, w = self.policy(candidates)
        if np.shape(p) != ids.shape or np.shape(w) != ids.shape or not np.isfinite(w).all():
            name = type(self.policy).__name__
            raise ValueError(f"policy {name} returned p {np.shape(p)} and w {np.shape(w)}; needed: finite {ids.shape}")
        return np.asarray(p, np.float32), np.asarray(w, np.float32)

    def _score(self, features: Float32s, labels: Int64s) -> Float32s:
        return scorer.score(self._arrays, features, labels)
