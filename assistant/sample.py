"""What is known of all candidates from an unbiased sample of them: those kept by the base coin."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from proto.types import Array, Float32s

SIZE = 2048
Z90 = 1.645
"""A normal variable lies between -z and z with a probability of 90 %."""


@dataclass(frozen=True)
class Gain:
    """How much more of the loss the policy keeps than of the instances: sum(p l) / sum(l) - mean(p), and its 90 %
    interval, from `n` candidates."""

    n: int
    value: float
    low: float
    high: float


class Sample:
    """The last 2048 of the sample: keep probability wanted, loss, and loss predicted before."""

    def __init__(self) -> None:
        self._wanted, self._losses, self._predicted = (np.empty(0, np.float32) for _ in range(3))

    def __len__(self) -> int:
        return len(self._losses)

    def add(self, wanted: Float32s, losses: Float32s, predicted: Float32s) -> None:
        """Takes in a batch, float32 [n] each; where `wanted` is NaN an instance is not of the sample."""
        of = ~np.isnan(wanted)
        self._wanted = np.concatenate([self._wanted, wanted[of]])[-SIZE:]
        self._losses = np.concatenate([self._losses, losses[of]])[-SIZE:]
        self._predicted = np.concatenate([self._predicted, predicted[of]])[-SIZE:]

    @property
    def mean_loss(self) -> float:
        return float(self._losses.mean(dtype=np.float64))

    @property
    def calibration(self) -> float:
        """Sum of losses over sum of predictions, within [1/4, 4]; 1 while there are few."""
        predicted = float(self._predicted.sum(dtype=np.float64))
        if len(self) < SIZE // 4 or predicted <= 0:
            return 1.0
        return float(np.clip(self._losses.sum(dtype=np.float64) / predicted, 0.25, 4))

    @property
    def gain(self) -> Gain:
        """The variance is the delta method's: gain is A / B - C with A, B, C the means of p l, l and p."""
        p, losses, n = self._wanted.astype(np.float64), self._losses.astype(np.float64), len(self)
        b, c = float(losses.mean()), float(p.mean())
        if b <= 0:
            return Gain(n, 0.0, 0.0, 0.0)
        ratio = float((p * losses).mean()) / b
        influence = (p - ratio) * losses / b - (p - c)
        half = Z90 * float(influence.std()) / n**0.5
        return Gain(n, ratio - c, ratio - c - half, ratio - c + half)

    def state(self) -> dict[str, Array]:
        return {"wanted": self._wanted, "losses": self._losses, "predicted": self._predicted}

    def load(self, arrays: Mapping[str, Array]) -> None:
        self._wanted, self._losses, self._predicted = (
            np.array(arrays[name]) for name in ("wanted", "losses", "predicted")
        )
