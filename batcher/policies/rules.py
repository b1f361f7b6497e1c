"""Formulas that several policies share, and the checks of their arguments."""

import math

import numpy as np

from batcher.policies.candidates import Candidates
from proto.errors import ConfigError
from proto.types import Float32s

SMALLEST, LARGEST = (float(limit) for limit in (np.finfo(np.float32).tiny, np.finfo(np.float32).max))


def ones(candidates: Candidates) -> Float32s:
    return np.ones(len(candidates), np.float32)


def soft(relative: Float32s, gamma: float, beta: float) -> Float32s:
    """p = gamma + (1 - gamma) min(1, r^beta), float32 [n], for losses r in units of their mean; 1 where r is not
    known (NaN)."""
    # The root is taken of what is at most 1, so that nothing overflows.
    p = gamma + (1 - gamma) * np.minimum(relative, 1) ** np.float32(beta)
    return np.where(np.isnan(p), 1, p).astype(np.float32)


def in_units(losses: Float32s, mean: float) -> Float32s:
    """Losses [n] in units of their `mean`; NaN where that says nothing, being 0 or not finite."""
    if not (math.isfinite(mean) and mean >= SMALLEST):
        return np.full_like(losses, np.nan)
    with np.errstate(over="ignore"):
        return (np.maximum(losses, 0) / np.float32(min(mean, LARGEST))).astype(np.float32)


def mean_of(losses: Float32s) -> float:
    """Their mean; 0 when there are none."""
    return float(losses.mean(dtype=np.float64)) if len(losses) else 0.0


def inverse(p: Float32s, alpha: float, w_max: float) -> Float32s:
    """w = min(p^-alpha, w_max): with alpha 1 what is kept stands for all, with 0 for itself. 1 where p is 0."""
    return np.minimum(np.where(p > 0, p, 1) ** np.float32(-alpha), np.float32(w_max)).astype(np.float32)


def check(argument: str, value: float, low: float, high: float) -> float:
    """`value`; raises ConfigError when it is no number from `low` to `high`."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not low <= value <= high:
        raise ConfigError(f"policy.args.{argument}", value, f"allowed: a number from {low:g} to {high:g}")
    return value
