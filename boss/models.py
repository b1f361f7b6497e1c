"""The built-in models.

A model's callable gets the data spec and returns an `nn.Module` that maps inputs [B, ...] to logits [B, C].
"""

import math

from torch import nn

from proto.errors import ConfigError
from proto.messages import DataSpec


def small_cnn(spec: DataSpec, width: int = 32, batch_norm: bool = False) -> nn.Module:
    """Two 3x3 convolutions with ReLU (`width` and 2 `width` channels), 2x2 max pooling, 128 hidden units.

    `batch_norm` normalises after each convolution, before its ReLU.

    Raises ConfigError unless inputs are images [C, H, W] of at least 4x4.
    """
    if len(spec.input_shape) != 3 or min(spec.input_shape[1:]) < 4:
        shape = list(spec.input_shape)
        raise ConfigError(
            "boss.model", "small_cnn", f"needs images [C, H, W] of at least 4x4, the data set has {shape}; try mlp"
        )
    channels, height, width_in = spec.input_shape

    def block(inside: int, outside: int) -> list[nn.Module]:
        norm = [nn.BatchNorm2d(outside)] if batch_norm else []
        return [nn.Conv2d(inside, outside, 3, padding=1), *norm, nn.ReLU(), nn.MaxPool2d(2)]

    return nn.Sequential(
        *block(channels, width),
        *block(width, 2 * width),
        nn.Flatten(),
        nn.Linear(2 * width * (height // 4) * (width_in // 4), 128),
        nn.ReLU(),
        nn.Linear(128, spec.classes),
    )


def mlp(spec: DataSpec, hidden: int = 256) -> nn.Module:
    """Two hidden layers of `hidden` units with ReLU over the flattened input."""
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(math.prod(spec.input_shape), hidden),
        nn.ReLU(),
        nn.Linear(hidden, hidden),
        nn.ReLU(),
        nn.Linear(hidden, spec.classes),
    )


def linear(spec: DataSpec) -> nn.Module:
    """One linear layer over the flattened input."""
    return nn.Sequential(nn.Flatten(), nn.Linear(math.prod(spec.input_shape), spec.classes))
