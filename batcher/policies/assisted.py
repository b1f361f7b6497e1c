"""Policies that ask the Assistant."""

import math

import numpy as np

from batcher.policies.candidates import Candidates
from batcher.policies.rules import check, in_units, inverse, ones, soft
from proto import scorer
from proto.ledger import stays_high
from proto.types import Float32s


class AutoAssist:
    """The paper's policy (Zhang, Yu, Dhillon, NeurIPS 2019, section 3).

    p = g + (1 - g) q with g = max(gamma, 1 - c), c the Assistant's confidence; p = 1 during the first pass and where q
    is not known; w = 1. Costs one product of features and weights per candidate.
    """

    assistant = "above"

    def __init__(self, gamma: float = 0.1) -> None:
        self.gamma = gamma

    def __call__(self, candidates: Candidates) -> tuple[Float32s, Float32s]:
        if candidates.progress.passes == 0:
            return ones(candidates), ones(candidates)
        g = max(self.gamma, 1 - candidates.progress.confidence)
        p = g + (1 - g) * candidates.q
        return np.where(np.isnan(p), np.float32(1), p), ones(candidates)


class Assist:
    """The default policy: p from the loss that an instance has now, as far as the Assistant can tell.

    p = gamma + (1 - gamma) min(1, r^beta) and w = min(p^-alpha, w_max), with r the loss in units of the running mean
    loss. r is the geometric mean of the last loss and of what a small network predicts from content, label and ledger;
    the prediction alone where there is no last loss, so that the first pass is shrunk too. What cannot be told is kept.

    By default alpha is 0: what is kept counts alike, so that training leans towards what is not learned yet. With alpha
    1 the kept stand for all candidates, as in importance sampling (Katharopoulos, Fleuret, ICML 2018, section 3.1).

    Instances whose loss stays that of an untrained model while others fall (`proto.ledger.stays_high`) do not teach,
    their labels being wrong more often than not: with `robust` they get p = max(gamma, `suspect`) and w = 1.

    In the last 1 - delta of the budget p = w = 1; the default has no such part. Costs a forward pass of a network with
    64 and 32 hidden units for each candidate.
    """

    assistant = "loss"

    def __init__(
        self,
        gamma: float = 0.1,
        beta: float = 1.0,
        alpha: float = 0.0,
        w_max: float = 10.0,
        delta: float = 1.0,
        robust: bool = True,
        suspect: float = 0.3,
        blend: float = 0.5,
    ) -> None:
        self.gamma = self.base = gamma
        self.beta, self.alpha = check("beta", beta, 0, 100), check("alpha", alpha, 0, 1)
        self.w_max, self.delta = check("w_max", w_max, 1, math.inf), check("delta", delta, 0, 1)
        self.robust, self.suspect = robust, check("suspect", suspect, 0, 1)
        self.blend = check("blend", blend, 0, 1)

    def __call__(self, candidates: Candidates) -> tuple[Float32s, Float32s]:
        progress = candidates.progress
        if progress.beyond(self.delta):
            return ones(candidates), ones(candidates)
        predicted = candidates.predicted
        last = np.minimum(in_units(candidates.last_loss, progress.mean_loss), np.float32(scorer.HIGHEST))
        blended = predicted ** np.float32(1 - self.blend) * last ** np.float32(self.blend)
        relative = np.where(np.isnan(last), predicted, np.where(np.isnan(predicted), last, blended))
        p = soft(relative, self.gamma, self.beta)
        w = inverse(p, self.alpha, self.w_max)
        if self.robust:
            suspects = stays_high(candidates.ledger, progress.mean_loss, progress.untrained_loss)
            p = np.where(suspects, np.float32(max(self.gamma, self.suspect)), p)
            w = np.where(suspects, np.float32(1), w)
        return p, w
