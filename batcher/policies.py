"""Policies: the rule that turns what is known of candidates into keep probabilities p and instance weights w.

A policy is any callable object `policy(candidates) -> (p, w)`, both float32 [n], vectorised. It asks `Candidates` only
for what it needs; what it does not ask for is not computed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from batcher.features import FeatureStore
from proto.ledger import Ledger
from proto.types import Array, Float32s, Int64s


@dataclass(frozen=True)
class Progress:
    """How far the run is: instances trained of `total`, the pass the candidates belong to, and what the Assistant last
    said of the running mean loss and of its own confidence (0 before it has said anything)."""

    trained: int
    total: int
    passes: int
    mean_loss: float
    confidence: float


class Candidates:
    """n candidates of one pass, and all that is known of them."""

    def __init__(
        self,
        ids: Int64s,
        progress: Progress,
        store: FeatureStore,
        ledger: Ledger,
        score: Callable[[Float32s, Int64s], Float32s],
    ) -> None:
        self.ids, self.progress = ids, progress
        self._store, self._ledger, self._score = store, ledger, score

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def _content(self) -> tuple[Float32s, Int64s, Array]:
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
    def q(self) -> Float32s:
        """The Assistant's output float32 [n]; NaN where it cannot tell, the content not being known."""
        features, labels, known = self._content
        return np.where(known, self._score(features, labels), np.float32(np.nan))


class Policy(Protocol):
    """What a policy is; its class is called with `gamma`, if it takes one, and with `[policy.args]`."""

    def __call__(self, candidates: Candidates) -> tuple[Float32s, Float32s]: ...


class Uniform:
    """p = 1, w = 1: plain training on everything."""

    def __call__(self, candidates: Candidates) -> tuple[Float32s, Float32s]:
        return _ones(candidates), _ones(candidates)


class AutoAssist:
    """The paper's policy (Zhang, Yu, Dhillon, NeurIPS 2019, section 3).

    p = g + (1 - g) q with g = max(gamma, 1 - c), c the Assistant's confidence; p = 1 during the first pass and where q
    is not known; w = 1. Costs one product of features and weights per candidate.
    """

    def __init__(self, gamma: float) -> None:
        self.gamma = gamma

    def __call__(self, candidates: Candidates) -> tuple[Float32s, Float32s]:
        if candidates.progress.passes == 0:
            return _ones(candidates), _ones(candidates)
        g = max(self.gamma, 1 - candidates.progress.confidence)
        p = g + (1 - g) * candidates.q
        return np.where(np.isnan(p), np.float32(1), p), _ones(candidates)


def _ones(candidates: Candidates) -> Float32s:
    return np.ones(len(candidates), np.float32)
