"""Mixup and CutMix: every instance of a batch gets something of its neighbour.

Sources: mixup, Zhang et al. 2018; CutMix, Yun et al. 2019. As in torchvision.transforms.v2 the neighbour is the
instance before and one share holds for the batch. Unlike there the share is folded to at least 1/2, so that row i stays
mostly instance i and its reported loss says something of it; and it is drawn from (seed, number of the batch), so
that a resumed run needs no saved state for it.
"""

import numpy as np
import torch
from torch import Tensor

from boss.config import BossConfig
from proto.control import DataSpec
from proto.errors import ConfigError

PURPOSE = 0x6D69780A
"""Keeps these draws apart from all others of the run's seed."""


class Mixer:
    """Mixes the inputs of a batch."""

    def __init__(self, config: BossConfig, spec: DataSpec, seed: int) -> None:
        """Raises ConfigError when inputs of `spec` cannot be mixed."""
        self._alphas = {name: alpha for name in ("mixup", "cutmix") if (alpha := getattr(config, name))}
        self._seed = seed
        if self._alphas and spec.input_dtype != "uint8" and not spec.input_dtype.startswith("float"):
            key = next(iter(self._alphas))
            problem = f"{spec.input_dtype} inputs cannot be mixed; allowed: 0"
            raise ConfigError(f"boss.{key}", self._alphas[key], problem)
        if self._alphas and "mask" in spec.beside:
            key = next(iter(self._alphas))
            raise ConfigError(
                f"boss.{key}", self._alphas[key], "instances of different length cannot be mixed; allowed: 0"
            )
        if "cutmix" in self._alphas and len(spec.input_shape) != 3:
            problem = f"needs images [C, H, W], the data set has {list(spec.input_shape)}; allowed: 0"
            raise ConfigError("boss.cutmix", config.cutmix, problem)

    def __call__(self, inputs: Tensor, number: int) -> tuple[Tensor, float]:
        """Mixed inputs [B, ...] of batch `number`, and the share >= 1/2 that each instance has in its row.

        What was mixed into row i is instance i - 1, and `targets.roll(1, 0)` its label. Without mixing the share is 1.
        """
        if not self._alphas:
            return inputs, 1.0
        draw = np.random.default_rng([self._seed, number, PURPOSE])
        name, alpha = list(self._alphas.items())[draw.integers(len(self._alphas))]
        share = float(draw.beta(alpha, alpha))
        share = max(share, 1 - share)
        others = inputs.roll(1, 0)
        if name == "mixup":
            return torch.lerp(others, inputs, share), share
        height, width = inputs.shape[-2:]
        top, bottom = _span(draw, height, share)
        left, right = _span(draw, width, share)
        mixed = inputs.clone()
        mixed[..., top:bottom, left:right] = others[..., top:bottom, left:right]
        return mixed, 1 - (bottom - top) * (right - left) / (height * width)


def _span(draw: np.random.Generator, size: int, share: float) -> tuple[int, int]:
    """Where one side of the rectangle begins and ends: around a uniform centre, cut at the border."""
    centre, half = draw.integers(size), 0.5 * (1 - share) ** 0.5 * size
    return max(int(centre - half), 0), min(int(centre + half), size)
