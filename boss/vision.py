"""Torchvision's classification models, untrained, fitted to the data set's images.

- Images of other than 3 channels: the first convolution gets as many.
- ResNets (also ResNeXt, Wide ResNet) for images under 64 pixels: the stem for CIFAR of He et al. 2016, a 3x3
  convolution of stride 1 without max pooling, since theirs would leave 8x8 of 32x32 pixels before the first block.
- Vision transformers: `image_size` from the data set, whose images must be square, and their own patch size where it
  gives at least 7x7 patches, else the largest divisor of the side that does (4 for 28 and 32 pixels, 8 for 64).
- googlenet and inception_v3 come without auxiliary outputs, maxvit_t for the data set's image size.
"""

import functools
from collections.abc import Callable
from typing import Any

from torch import nn
from torchvision import models

from boss.config import TORCHVISION
from proto.control import DataSpec
from proto.errors import ConfigError

SMALL = 64
"""Images with a shorter side than this get the small stem of ResNets."""
PATCHES = 7
"""A vision transformer's image has at least so many patches a side."""


def vision_model(name: str, spec: DataSpec, **kwargs: Any) -> nn.Module:
    """Torchvision's `name` for images of `spec`; `kwargs` are further arguments of torchvision's builder.

    Raises ConfigError when it cannot be built for them.
    """
    if len(spec.input_shape) != 3:
        raise ConfigError(
            "boss.model", name, f"needs images [C, H, W], the data set has {list(spec.input_shape)}; try mlp"
        )
    channels, height, width = spec.input_shape
    patch = _patch(name, height, width) if name.startswith("vit_") else 0
    try:
        model: nn.Module = models.get_model(
            name, weights=None, num_classes=spec.outputs, **_arguments(name, spec, patch), **kwargs
        )
    except (TypeError, ValueError) as error:
        raise ConfigError(
            "boss.model", name, f"torchvision does not build it for {list(spec.input_shape)}: {error}"
        ) from None
    if patch:
        assert isinstance(model, models.VisionTransformer)
        model.image_size, model.patch_size = height, patch
        _replace(model, "conv_proj", kernel_size=patch, stride=patch)
    if isinstance(model, models.ResNet) and min(height, width) < SMALL:
        _replace(model, "conv1", kernel_size=3, stride=1, padding=1)
        model.maxpool = nn.Identity()
    first = next(path for path, module in model.named_modules() if isinstance(module, nn.Conv2d))
    if channels != 3:
        _replace(model, first, in_channels=channels)
    return model


def _arguments(name: str, spec: DataSpec, patch: int) -> dict[str, Any]:
    """What torchvision's builder of `name` needs besides."""
    if patch:
        # It fixes the patch size by name: the number of patches is what has to be right, _replace does the rest.
        return {"image_size": spec.input_shape[1] // patch * int(name.rpartition("_")[2])}
    if name in ("googlenet", "inception_v3"):
        return {"aux_logits": False, "init_weights": True}
    return {"input_size": spec.input_shape[1:]} if name == "maxvit_t" else {}


def _patch(name: str, height: int, width: int) -> int:
    """The patch size of vision transformer `name`."""
    if height != width:
        raise ConfigError("boss.model", name, f"needs square images, the data set has {height}x{width}")
    own = int(name.rpartition("_")[2])
    if height % own == 0 and height // own >= PATCHES:
        return own
    return max((size for size in range(1, height // PATCHES + 1) if height % size == 0), default=1)


def _replace(model: nn.Module, path: str, **changes: Any) -> None:
    """Puts a convolution like the one at `path`, but for `changes` of its arguments, in its place."""
    parent_path, _, attribute = path.rpartition(".")
    parent, old = model.get_submodule(parent_path), model.get_submodule(path)
    assert isinstance(old, nn.Conv2d)
    like: dict[str, Any] = {
        name: getattr(old, name)
        for name in ("in_channels", "out_channels", "kernel_size", "stride", "padding", "dilation", "groups")
    }
    new = nn.Conv2d(**{**like, **changes}, bias=old.bias is not None)
    # As torchvision begins all its convolutions that feed a ReLU.
    nn.init.kaiming_normal_(new.weight, mode="fan_out", nonlinearity="relu")
    if new.bias is not None:
        nn.init.zeros_(new.bias)
    setattr(parent, attribute, new)


def __getattr__(name: str) -> Callable[..., nn.Module]:
    """Each name of torchvision's is a callable here, as `boss.models` has one for each of ours."""
    if name not in TORCHVISION:
        raise AttributeError(name)
    return functools.partial(vision_model, name)
