"""The built-in models.

A model's callable gets the data spec and returns an `nn.Module` that maps inputs [B, ...] to logits [B, K], K =
`spec.outputs`: one for each class, or one for each number of a target that is no class number.

Where instances differ in length, inputs are [B, T, ...], padded with 0 to the longest of the batch. A module is given
what else travels with the batch when its `forward` has a parameter of that name: `mask` bool [B, T], true at an
instance's own positions, `lengths` int64 [B], and whatever a split's own `collate` adds.
"""

import math

from torch import Tensor, nn

from proto.control import DataSpec
from proto.errors import ConfigError


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
        nn.Linear(128, spec.outputs),
    )


def mlp(spec: DataSpec, hidden: int = 256) -> nn.Module:
    """Two hidden layers of `hidden` units with ReLU over the flattened input.

    Raises ConfigError when instances differ in length.
    """
    _of_one_shape("mlp", spec)
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(math.prod(spec.input_shape), hidden),
        nn.ReLU(),
        nn.Linear(hidden, hidden),
        nn.ReLU(),
        nn.Linear(hidden, spec.outputs),
    )


def linear(spec: DataSpec) -> nn.Module:
    """One linear layer over the flattened input. Raises ConfigError when instances differ in length."""
    _of_one_shape("linear", spec)
    return nn.Sequential(nn.Flatten(), nn.Linear(math.prod(spec.input_shape), spec.outputs))


def embedding_bag(spec: DataSpec, width: int = 64, vocabulary: int = 0) -> nn.Module:
    """Mean embedding, `width` numbers, of an instance's token ids, and a linear layer on it.

    `vocabulary` is the number of token ids, by default what the data set says. Raises ConfigError when that is not
    known, or inputs are no token ids [T].
    """
    vocabulary = vocabulary or spec.vocabulary
    if len(spec.input_shape) != 1 or not spec.input_dtype.startswith("int"):
        found = f"{spec.input_dtype} {list(spec.input_shape)}"
        raise ConfigError("boss.model", "embedding_bag", f"needs token ids, int64 [T], the data set has {found}")
    if not vocabulary:
        problem = "needs the number of token ids, which the data set does not say; give boss.args.vocabulary"
        raise ConfigError("boss.model", "embedding_bag", problem)
    return _EmbeddingBag(vocabulary, width, spec.outputs)


class _EmbeddingBag(nn.Module):
    def __init__(self, vocabulary: int, width: int, outputs: int) -> None:
        super().__init__()
        self.embedding = nn.EmbeddingBag(vocabulary, width, mode="sum")
        self.linear = nn.Linear(width, outputs)

    def forward(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        """Logits [B, K] of token ids int64 [B, T]; without a mask all of them count."""
        shares = self.embedding.weight.new_ones(inputs.shape) if mask is None else mask.to(self.embedding.weight.dtype)
        bags = self.embedding(inputs, per_sample_weights=shares / shares.sum(1, keepdim=True))
        logits: Tensor = self.linear(bags)
        return logits


def _of_one_shape(name: str, spec: DataSpec) -> None:
    if "mask" in spec.beside:
        problem = (
            "needs instances of one shape, those of the data set differ in length; try embedding_bag for token ids"
        )
        raise ConfigError("boss.model", name, problem)
