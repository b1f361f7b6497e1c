import pytest
import torch
from toys import spec

from boss.config import MODELS
from boss.models import embedding_bag, small_cnn
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


TEXTS = {"input_shape": (9,), "input_dtype": "int64", "vocabulary": 20, "beside": {"mask": ("bool", (9,))}}


def test_the_embedding_bag_takes_the_mean_over_an_instances_own_tokens() -> None:
    model = embedding_bag(spec(**TEXTS), width=5)
    tokens = torch.tensor([[3, 4, 5, 0], [7, 0, 0, 0]])
    padded = model(tokens, mask=torch.tensor([[True] * 3 + [False], [True] + [False] * 3]))
    assert padded.shape == (2, 3)
    torch.testing.assert_close(padded[:1], model(tokens[:1, :3]))
    torch.testing.assert_close(padded[1:], model(tokens[1:, :1]))
    expected = model.linear(model.embedding.weight[[3, 4, 5]].mean(0))
    torch.testing.assert_close(padded[0], expected)


@pytest.mark.parametrize(
    ("of", "text"),
    [
        ({"vocabulary": 0}, r"does not say; give boss\.args\.vocabulary"),
        ({"input_dtype": "float32"}, r"needs token ids, int64 \[T\], the data set has float32 \[9\]"),
    ],
)
def test_the_embedding_bag_refuses_what_are_no_token_ids(of: dict[str, object], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        embedding_bag(spec(**{**TEXTS, **of}))


@pytest.mark.parametrize("name", ["mlp", "linear"])
def test_those_of_one_shape_refuse_different_lengths(name: str) -> None:
    with pytest.raises(ConfigError, match="try embedding_bag"):
        resolve("boss.model", name, MODELS)(spec(**TEXTS))


@pytest.mark.parametrize(("shape", "outputs"), [((), 1), ((4,), 4), ((2, 3), 6)])
def test_models_have_an_output_for_each_number_of_a_target(shape: tuple[int, ...], outputs: int) -> None:
    of = spec(classes=0, target_shape=shape, target_dtype="float32")
    assert resolve("boss.model", "linear", MODELS)(of)(torch.zeros(2, 6)).shape == (2, outputs)
