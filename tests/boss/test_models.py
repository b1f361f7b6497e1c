import pytest
import torch
from toys import spec

from boss.config import MODELS
from boss.models import small_cnn
from proto.errors import ConfigError
from proto.resolver import resolve


@pytest.mark.parametrize("name", ["small_cnn", "mlp", "linear"])
@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 32, 32), (1, 28, 28), (2, 5, 7), (1, 4, 4)])
def test_every_builtin_model_maps_images_to_logits(name: str, shape: tuple[int, ...]) -> None:
    model = resolve("boss.model", name, MODELS)(spec(input_shape=shape, classes=7))
    assert model(torch.zeros(2, *shape)).shape == (2, 7)


@pytest.mark.parametrize("name", ["mlp", "linear"])
@pytest.mark.parametrize("shape", [(6,), (2, 3), (1, 2, 3, 4)])
def test_those_for_any_shape_take_any_shape(name: str, shape: tuple[int, ...]) -> None:
    model = resolve("boss.model", name, MODELS)(spec(input_shape=shape))
    assert model(torch.zeros(2, *shape)).shape == (2, 3)


@pytest.mark.parametrize("shape", [(6,), (8, 8), (1, 3, 8), (1, 2, 8, 8)])
def test_the_cnn_refuses_what_are_no_images_and_says_what_to_try(shape: tuple[int, ...]) -> None:
    with pytest.raises(ConfigError, match=r"needs images \[C, H, W\].*try mlp"):
        small_cnn(spec(input_shape=shape))
