"""Losses as a loop reports them: what they must be, and the mean that it trains on."""

import math
from typing import Any

from torch import Tensor


def check(n: int, losses: Any) -> None:
    """Raises unless `losses` are one for each of `n` instances; the error shows the fix."""
    if not isinstance(losses, Tensor):
        raise TypeError(f"report takes the losses as a tensor of shape [{n}], not a {type(losses).__name__}")
    if losses.shape == (n,):
        return
    found = list(losses.shape)
    if not found:
        fix = 'a mean is too late: cross_entropy(logits, targets, reduction="none"), and so with other criteria'
    elif found[0] == n:
        dims = list(range(1, len(found)))
        fix = f"bring it to one number for each: losses.mean(dim={dims})"
    elif math.prod(found) == n:
        fix = "losses.reshape(-1)"
    else:
        fix = "report the whole batch at once, before anything is filtered"
    raise ValueError(f"report takes one loss for each of the {n} instances, shape [{n}], not {found}: {fix}")


def mean(losses: Tensor, weights: Tensor | None) -> Tensor:
    """The mean of `losses` [B] by `weights` [B] (None: all are 1), in float32."""
    losses = losses.float()  # a mean in half precision loses what it is made of
    if weights is None:
        return losses.mean()
    weights = weights.to(losses.device, non_blocking=True)
    return (losses * weights).sum() / weights.sum()
