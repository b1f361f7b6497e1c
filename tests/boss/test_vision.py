"""Torchvision's models by name, fitted to the data set's images."""

import subprocess
import sys
from typing import Any

import pytest
import torch
from torch import nn
from torchvision import models
from toys import spec

from boss.config import MODELS, TORCHVISION, BossConfig
from boss.trainer import Trainer
from boss.vision import vision_model
from proto.config import RunConfig
from proto.errors import ConfigError
from proto.resolver import build, check_name, resolve


def make(name: str, *shape: int, **args: Any) -> nn.Module:
    model: nn.Module = build(
        "boss.args", resolve("boss.model", name, MODELS), {"spec": spec(input_shape=shape, classes=7)}, args
    )
    return model


def test_the_names_are_torchvisions() -> None:
    assert sorted(TORCHVISION) == sorted(models.list_models(module=models))


def test_the_front_door_knows_them_without_torch() -> None:
    code = "import sys, boss.config, autoassist.config; print('resnet18' in boss.config.MODELS, 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "True False", done.stderr


def test_a_name_that_is_none_gives_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"boss\.model = 'resnet81'.*did you mean 'resnet\d+'"):
        check_name("boss.model", "resnet81", MODELS)


# RegNets read tensors while they are built: on the meta device there is nothing to read.
@pytest.mark.parametrize("name", [name for name in TORCHVISION if not name.startswith("regnet")])
def test_each_is_built_for_grey_images(name: str) -> None:
    with torch.device("meta"):
        model = make(name, 1, 224, 224)
        first = next(module for module in model.modules() if isinstance(module, nn.Conv2d))
        assert first.in_channels == 1
        assert first(torch.zeros(2, 1, 224, 224)).ndim == 4


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("resnet18", (3, 32, 32)),
        ("efficientnet_b0", (1, 28, 28)),
        ("vit_b_32", (3, 32, 32)),
        ("mobilenet_v3_small", (3, 32, 32)),
        ("shufflenet_v2_x0_5", (4, 64, 64)),
        ("squeezenet1_1", (3, 64, 64)),
        ("regnet_y_400mf", (1, 32, 32)),
    ],
)
def test_they_map_images_to_logits(name: str, shape: tuple[int, ...]) -> None:
    model = make(name, *shape).eval()
    with torch.no_grad():
        logits = model(torch.zeros(2, *shape))
    assert logits.shape == (2, 7)
    assert logits.isfinite().all()


def test_resnets_have_the_stem_for_small_images_and_their_own_for_large_ones() -> None:
    for name in ("resnet18", "resnext50_32x4d", "wide_resnet50_2"):
        with torch.device("meta"):
            small, large = make(name, 1, 63, 63), make(name, 1, 64, 64)
        assert (small.conv1.kernel_size, small.conv1.stride, small.conv1.in_channels) == ((3, 3), (1, 1), 1)
        assert isinstance(small.maxpool, nn.Identity)
        assert (large.conv1.kernel_size, large.conv1.stride, large.conv1.in_channels) == ((7, 7), (2, 2), 1)
        assert isinstance(large.maxpool, nn.MaxPool2d)


@pytest.mark.parametrize(
    ("name", "side", "patch"),
    [("vit_b_16", 224, 16), ("vit_b_32", 224, 32), ("vit_h_14", 224, 14), ("vit_b_16", 32, 4), ("vit_b_16", 28, 4),
     ("vit_b_16", 64, 8), ("vit_b_16", 112, 16), ("vit_b_16", 31, 1), ("vit_b_16", 6, 1)],
)  # fmt: skip
def test_vision_transformers_have_a_patch_size_that_fits(name: str, side: int, patch: int) -> None:
    with torch.device("meta"):
        model = make(name, 3, side, side)
        assert model(torch.zeros(1, 3, side, side)).shape == (1, 7)
    assert model.patch_size == patch
    assert model.encoder.pos_embedding.shape[1] == (side // patch) ** 2 + 1


def test_further_arguments_are_torchvisions() -> None:
    with torch.device("meta"):
        assert make("efficientnet_b0", 3, 32, 32, dropout=0.7).classifier[0].p == 0.7
        with pytest.raises(ConfigError, match=r"boss\.model = 'resnet18'.*depth"):
            make("resnet18", 3, 32, 32, depth=3)


@pytest.mark.parametrize(
    ("name", "shape", "text"),
    [
        ("resnet18", (6,), r"needs images \[C, H, W\], .*\[6\]; try mlp"),
        ("vit_b_16", (3, 32, 28), "needs square images, the data set has 32x28"),
        ("maxvit_t", (3, 32, 32), r"torchvision does not build it for \[3, 32, 32\]"),
    ],
)
def test_images_that_cannot_be_are_refused(name: str, shape: tuple[int, ...], text: str) -> None:
    with torch.device("meta"), pytest.raises(ConfigError, match=text):
        vision_model(name, spec(input_shape=shape))


def test_one_that_is_built_and_does_not_fit_is_refused_by_the_trainer() -> None:
    with pytest.raises(ConfigError, match=r"boss\.model = 'alexnet': does not fit inputs of shape \[3, 16, 16\]"):
        Trainer(RunConfig(), BossConfig(model="alexnet", device="cpu"), spec(input_shape=(3, 16, 16)))


def test_a_resnet_trains() -> None:
    of = spec(input_shape=(1, 8, 8), input_dtype="uint8")
    trainer = Trainer(RunConfig(), BossConfig(model="resnet18", device="cpu", amp="bf16", channels_last=True), of)
    losses = trainer.stepper.forward_backward(torch.randn(4, 1, 8, 8), torch.tensor([0, 1, 2, 0]), torch.ones(4))
    trainer.stepper.step()
    assert losses.shape == (4,)
    assert trainer.stepper.steps == 1
