"""Policies that look at last losses only. They need no Assistant but its ledger; an instance without a loss is kept.

"All losses" are the last ones of a fixed sample of at most 4096 instances: a mean or rank among them is as good as
among all, and can be taken anew for each batch whatever the size of the data set.
"""

import math
from typing import Literal

import numpy as np

from batcher.policies.candidates import Candidates
from batcher.policies.plain import rising
from batcher.policies.rules import check, in_units, inverse, mean_of, ones, soft
from proto.errors import ConfigError
from proto.types import Float32s


class Ledger:
    """p from the last loss l and the running mean loss m.

    "soft": p = gamma + (1 - gamma) min(1, (l / m)^beta), w = min(p^-alpha, w_max). "hard": p = 1 where l > m, else
    gamma; w = 1. The soft rule is importance sampling by loss (Katharopoulos, Fleuret, "Biased importance sampling for
    deep neural network training", 2017, section 3) with a floor and a correction taken in part. Costs a look-up and a
    power.
    """

    assistant = "none"

    def __init__(
        self,
        gamma: float = 0.1,
        rule: Literal["soft", "hard"] = "soft",
        beta: float = 1.0,
        alpha: float = 0.5,
        w_max: float = 10.0,
    ) -> None:
        if rule not in ("soft", "hard"):
            raise ConfigError("policy.args.rule", rule, "allowed: soft, hard")
        self.gamma, self.rule, self.beta = gamma, rule, check("beta", beta, 0, 100)
        self.alpha, self.w_max = check("alpha", alpha, 0, 1), check("w_max", w_max, 1, math.inf)

    def __call__(self, candidates: Candidates) -> tuple[Float32s, Float32s]:
        relative = in_units(candidates.last_loss, candidates.progress.mean_loss)
        if self.rule == "hard":
            return np.where(relative <= 1, np.float32(self.gamma), np.float32(1)), ones(candidates)
        p = soft(relative, self.gamma, self.beta)
        return p, inverse(p, self.alpha, self.w_max)


class InfoBatch:
    """InfoBatch (Qin et al., ICLR 2024, section 2.2: soft pruning, rescaling, annealing).

    Below the mean of all last losses: p = 1 - r and w = 1 / (1 - r), which leaves the expected gradient what it was;
    else p = w = 1. In the last 1 - delta of the budget everything is kept at weight 1. Theirs takes the mean over all
    instances once an epoch. Costs a look-up and a comparison, and a mean over the sample for each batch.
    """

    assistant = "none"

    def __init__(self, r: float = 0.5, delta: float = 0.875) -> None:
        self.r, self.delta = check("r", r, 0, 0.999), check("delta", delta, 0, 1)

    def __call__(self, candidates: Candidates) -> tuple[Float32s, Float32s]:
        if candidates.progress.beyond(self.delta):
            return ones(candidates), ones(candidates)
        below = candidates.last_loss < mean_of(candidates.all_losses)
        p = np.where(below, np.float32(1 - self.r), np.float32(1))
        return p, (1 / p).astype(np.float32)


class SelectiveBackprop:
    """Selective-Backprop (Jiang et al., 2019, section 3.2): p = (share of losses below l)^beta, at least gamma; w = 1.

    Losses equal to l count half, so that equal losses do not all give p = 0. Theirs ranks the loss of a forward pass of
    now among the last 1,024 of such; ours the last loss among all last losses. Costs a sort of the sample for each
    batch, and a binary search.
    """

    assistant = "none"

    def __init__(self, gamma: float = 0.1, beta: float = 1.0) -> None:
        self.gamma, self.beta = gamma, check("beta", beta, 0, 100)

    def __call__(self, candidates: Candidates) -> tuple[Float32s, Float32s]:
        last, everything = candidates.last_loss, np.sort(candidates.all_losses)
        if not len(everything):
            return ones(candidates), ones(candidates)
        below, up_to = (np.searchsorted(everything, last, side) for side in ("left", "right"))
        rank = (below + up_to) / (2 * len(everything))
        p = np.where(np.isnan(last), 1, np.maximum(rank**self.beta, self.gamma))
        return p.astype(np.float32), ones(candidates)


class Importance:
    """Importance sampling by loss (Katharopoulos, Fleuret, ICML 2018, section 3.1, with the loss as score).

    p = min(1, f l / m), at least gamma, with m the mean of all last losses; w = 1 / p, at most w_max (without one, what
    is kept stands without bias for all). Costs a look-up and a division, and a mean over the sample for each batch.
    """

    assistant = "none"

    def __init__(self, gamma: float = 0.1, f: float = 0.5, w_max: float = math.inf) -> None:
        self.gamma, self.f = max(gamma, 1e-3), check("f", f, 0, math.inf)
        self.w_max = check("w_max", w_max, 1, math.inf)

    def __call__(self, candidates: Candidates) -> tuple[Float32s, Float32s]:
        relative = in_units(candidates.last_loss, mean_of(candidates.all_losses))
        with np.errstate(over="ignore"):
            p = np.clip(np.float32(self.f) * relative, self.gamma, 1).astype(np.float32)
        p = np.where(np.isnan(p), np.float32(1), p)
        return p, inverse(p, 1.0, self.w_max)


class SelfPaced:
    """Self-paced learning (Kumar, Packer, Koller, NIPS 2010, section 4), paced by a share instead of a loss.

    p = 1 where the last loss is at most the s-quantile of all last losses, else 0; s rises linearly from `start` to 1
    over the first `epochs` Boss epochs; w = 1. Costs a look-up and a comparison, and a quantile of the sample for each
    batch.
    """

    assistant = "none"

    def __init__(self, start: float = 0.25, epochs: float = 2.0) -> None:
        self.start, self.epochs = check("start", start, 0, 1), check("epochs", epochs, 0, math.inf)

    def __call__(self, candidates: Candidates) -> tuple[Float32s, Float32s]:
        share = rising(candidates, self.start, self.epochs)
        if share >= 1 or not len(candidates.all_losses):
            return ones(candidates), ones(candidates)
        most = np.quantile(candidates.all_losses, share)
        return (~(candidates.last_loss > most)).astype(np.float32), ones(candidates)
