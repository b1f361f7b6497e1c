from typing import Any

import pytest
import torch
from toys import spec

from boss.config import BossConfig
from boss.mixing import Mixer
from boss.precision import Precision
from boss.step import Stepper
from proto.errors import ConfigError

IMAGES = spec(input_shape=(1, 8, 8))
INPUTS = torch.arange(6.0).reshape(6, 1, 1, 1).expand(6, 1, 8, 8)


def mixer(seed: int = 0, **config: Any) -> Mixer:
    return Mixer(BossConfig(**config), IMAGES, seed)


def test_without_alpha_nothing_is_mixed() -> None:
    inputs, share = mixer()(INPUTS, 3)
    assert inputs is INPUTS
    assert share == 1.0


@pytest.mark.parametrize("number", range(20))
def test_mixup_leaves_row_i_mostly_instance_i(number: int) -> None:
    inputs, share = mixer(mixup=0.4)(INPUTS, number)
    assert 0.5 <= share <= 1
    torch.testing.assert_close(inputs, share * INPUTS + (1 - share) * INPUTS.roll(1, 0))


@pytest.mark.parametrize("number", range(20))
def test_cutmix_pastes_a_rectangle_of_the_instance_before(number: int) -> None:
    inputs, share = mixer(cutmix=1.0)(INPUTS, number)
    assert 0.5 <= share <= 1
    pasted = inputs != INPUTS
    assert pasted.float().mean(dim=(1, 2, 3)).tolist() == pytest.approx([1 - share] * 6)
    torch.testing.assert_close(inputs[pasted], INPUTS.roll(1, 0)[pasted])
    rows, columns = pasted[0, 0].any(1), pasted[0, 0].any(0)
    assert bool((pasted[0, 0] == rows[:, None] & columns).all())


def test_draws_depend_on_seed_and_batch_number_alone() -> None:
    def shares(seed: int, numbers: range) -> list[float]:
        ours = mixer(seed, mixup=1.0, cutmix=1.0)
        return [ours(INPUTS, number)[1] for number in numbers]

    assert shares(1, range(4, 8)) == shares(1, range(8))[4:]
    assert shares(1, range(8)) != shares(2, range(8))
    assert len(set(shares(1, range(8)))) > 4


def test_with_both_each_has_its_turn() -> None:
    ours = mixer(mixup=1.0, cutmix=1.0)
    fractional = [bool((ours(INPUTS, number)[0] % 1).any()) for number in range(30)]
    assert 5 < sum(fractional) < 25


@pytest.mark.parametrize("config", [{"mixup": 0.4}, {"cutmix": 1.0}, {"mixup": 0.4, "label_smoothing": 0.2}])
@pytest.mark.parametrize("microbatch", [0, 3])
def test_reported_losses_are_those_of_the_mixed_row_against_the_own_label(
    config: dict[str, Any], microbatch: int
) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 3))
    settings = BossConfig(microbatch=microbatch, **config)
    inputs, targets = torch.randn(6, 1, 8, 8), torch.tensor([0, 1, 2, 0, 1, 2])
    with torch.no_grad():
        logits = model(mixer(7, **config)(inputs, 0)[0])
    expected = torch.nn.functional.cross_entropy(logits, targets, reduction="none")
    ours = Stepper(model, settings, IMAGES, Precision(settings, torch.device("cpu")), seed=7)
    torch.testing.assert_close(ours.forward_backward(inputs, targets, torch.tensor([1.0, 2, 3, 4, 5, 6])), expected)


@pytest.mark.parametrize(
    ("of", "config", "text"),
    [
        (spec(input_dtype="int64"), {"mixup": 0.2}, r"boss\.mixup = 0\.2: int64 inputs cannot be mixed"),
        (spec(), {"cutmix": 1.0}, r"boss\.cutmix = 1\.0: needs images \[C, H, W\]"),
    ],
)
def test_what_cannot_be_mixed_is_refused(of: Any, config: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        Mixer(BossConfig(**config), of, 0)
