"""The loss that is trained on, and the one that is reported, both per instance."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from boss.config import LOSSES, BossConfig
from boss.precision import full
from proto.errors import RAISED, ConfigError, raised
from proto.resolver import resolve

Loss = Callable[[Tensor, Tensor], Tensor]
"""Logits [B, C] and targets [B], or [B, ...] where they are no class numbers -> losses [B]."""


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy float [B] of logits [B, C] against class numbers int64 [B]."""
    return functional.cross_entropy(logits, targets, reduction="none")


def mse(outputs: Tensor, targets: Tensor) -> Tensor:
    """Mean squared error float [B] of outputs [B, K] over the K numbers of each target, [B] or [B, ...]."""
    return (outputs.flatten(1) - _alike(outputs, targets)).square().mean(1)


def bce(outputs: Tensor, targets: Tensor) -> Tensor:
    """Binary cross-entropy float [B] of logits [B, K], the mean over K labels that are each 0 or 1 (multi-hot)."""
    targets = _alike(outputs, targets)
    return functional.binary_cross_entropy_with_logits(outputs.flatten(1), targets, reduction="none").mean(1)


def _alike(outputs: Tensor, targets: Tensor) -> Tensor:
    """The targets as float [B, K]. Raises ValueError where the outputs are not as many."""
    if outputs.ndim < 2 or outputs[0].numel() != targets[0].numel():
        shapes = f"outputs [B, {str(list(outputs.shape[1:]))[1:]} and targets [B, {str(list(targets.shape[1:]))[1:]}"
        raise ValueError(f"needs as many outputs as targets, [B, K] each; these are {shapes.replace(', ]', ']')}")
    return targets.reshape(len(targets), -1).to(outputs.dtype)


class Criterion:
    """Logits in, two losses of each instance out.

    The *trained* loss has label smoothing and the labels of mixed instances in it. The *reported* one is the plain
    `boss.loss` of row i's logits against instance i's own label, whatever was mixed into it: unsmoothed, unweighted.
    """

    def __init__(self, config: BossConfig) -> None:
        self.name, self._smoothing = config.loss, config.label_smoothing
        self.plain: Loss = resolve("boss.loss", config.loss, LOSSES)

    def __call__(self, logits: Tensor, targets: Tensor, partners: Tensor, share: float) -> tuple[Tensor, Tensor]:
        """Trained losses [B], to be differentiated, and reported losses [B].

        `partners` [B] are the targets of what was mixed into each instance, which itself has `share` (1: not mixed).
        """
        logits = full(logits)
        if self._smoothing:
            with torch.no_grad():
                reported = self.plain(logits, targets)
            own = self._smoothed(logits, targets)
        else:
            own = reported = self.plain(logits, targets)
        if share == 1.0:
            return own, reported.detach()
        other = self._smoothed(logits, partners) if self._smoothing else self.plain(logits, partners)
        return share * own + (1 - share) * other, reported.detach()

    def _smoothed(self, logits: Tensor, targets: Tensor) -> Tensor:
        return functional.cross_entropy(logits, targets, reduction="none", label_smoothing=self._smoothing)

    def check(self, logits: Tensor, targets: Tensor) -> None:
        """Raises ConfigError unless the loss of logits [B, C] is one number for each instance."""
        if self.name == "cross_entropy" and (targets.is_floating_point() or targets.ndim > 1):
            kind = f"{str(targets.dtype).removeprefix('torch.')} {list(targets.shape[1:])}"
            text = f"needs class numbers, the data set's targets are {kind}; try mse, or bce for several labels each"
            raise ConfigError("boss.loss", self.name, text)
        try:
            losses = self.plain(full(logits), targets)
        except RAISED as error:  # whatever the user's loss raises is theirs to read
            raise ConfigError("boss.loss", self.name, f"failed: {raised(error)}") from error
        found, needed = list(getattr(losses, "shape", [])), [len(targets)]
        if not isinstance(losses, Tensor) or found != needed:
            raise ConfigError(
                "boss.loss",
                self.name,
                f"returns shape {found} for {len(targets)} instances; needed: {needed}, the loss of each ([B])",
            )
