"""Losses as a loop reports them: what they must be, and the mean that it trains on."""

import math
import warnings
from typing import Any

from torch import Tensor

from autoassist.batch import Batch

UNREPORTED = 32
"""Batches in a row without a report of which something is said."""


def check(batch: Any, losses: Any) -> None:
    """Raises unless `losses` are one for each instance of `batch`; the error shows the fix."""
    if not isinstance(batch, Batch):
        raise TypeError(
            f"report takes the batch as the loader hands it out, not a {type(batch).__name__}: for batch in loader: "
            "..., with batch.inputs and batch.targets"
        )
    n = len(batch)
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


class Missing:
    """Says, once, that a loop does not report."""

    def __init__(self) -> None:
        self._in_a_row = 0
        self._said = False

    def reported(self) -> None:
        self._in_a_row = 0

    def taken(self) -> None:
        """Another batch is handed out."""
        self._in_a_row += 1
        if self._in_a_row > UNREPORTED and not self._said:
            self._said = True
            warnings.warn(
                f"the last {UNREPORTED} batches were not reported: without their losses the Assistant cannot tell what "
                "matters, and selection falls back to uniform; call loss = loader.report(batch, losses) in the loop",
                RuntimeWarning,
                stacklevel=4,
            )


def refuse_missing(missing: int, lag: int) -> None:
    """Raises when a deterministic stream would wait for reports that cannot come any more."""
    if missing >= lag:
        raise RuntimeError(
            f"{missing} batches were not reported, and with deterministic=True the next one waits for that; call "
            "loss = loader.report(batch, losses) for each"
        )
