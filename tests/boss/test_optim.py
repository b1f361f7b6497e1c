import math
from typing import Any

import pytest
import torch
from torch import nn

from boss.config import BossConfig
from boss.optim import Schedule, factor, make_optimizer
from proto.errors import ConfigError


def rates(total: int, **config: Any) -> list[float]:
    """The learning rate of each step, with `boss.lr` 1."""
    settings = BossConfig(lr=1.0, **config)
    optimizer = make_optimizer(nn.Linear(2, 2), settings)
    schedule = Schedule(optimizer, settings, total)
    found = []
    for step in range(total):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.set(step + 1)
    return found


@pytest.mark.parametrize("total", [1, 2, 3, 10, 333])
def test_one_cycle_is_torchs(total: int) -> None:
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], 1.0)
    theirs = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1.0, total_steps=total + 1, cycle_momentum=False)
    expected = []
    for _ in range(total):
        expected.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        theirs.step()
    assert rates(total, schedule="one_cycle") == pytest.approx(expected, rel=1e-12)
    last = factor(BossConfig(schedule="one_cycle"), total)(total)
    assert last == pytest.approx(optimizer.param_groups[0]["lr"], rel=1e-9)


def test_constant() -> None:
    assert rates(5, schedule="constant") == [1.0] * 5
    assert rates(4, schedule="constant", warmup=0.5) == [0.5, 1.0, 1.0, 1.0]


def test_step() -> None:
    found = rates(8, schedule="step", step_at=[0.5, 0.75], step_factor=0.1)
    assert found == pytest.approx([1, 1, 1, 1, 0.1, 0.1, 0.01, 0.01])


def test_cosine_with_and_without_warmup() -> None:
    assert rates(4, schedule="cosine") == pytest.approx([0.5 * (1 + math.cos(math.pi * s / 4)) for s in range(4)])
    found = rates(10, schedule="cosine", warmup=0.2)
    assert found == pytest.approx([0.5, 1.0, *(0.5 * (1 + math.cos(math.pi * s / 8)) for s in range(8))])


def test_inverse_sqrt_continues_its_rise_without_a_jump() -> None:
    found = rates(16, schedule="inverse_sqrt", warmup=0.25)
    assert found == pytest.approx([0.25, 0.5, 0.75, 1.0, *(math.sqrt(4 / (s + 1)) for s in range(4, 16))])


def test_a_schedule_is_where_the_step_count_says() -> None:
    settings = BossConfig(lr=1.0, schedule="cosine")
    optimizer = make_optimizer(nn.Linear(2, 2), settings)
    schedule = Schedule(optimizer, settings, 10)
    for steps in (7, 3, 0, 9):
        optimizer.step()
        schedule.set(steps)
        assert optimizer.param_groups[0]["lr"] == pytest.approx(0.5 * (1 + math.cos(math.pi * steps / 10)))


@pytest.mark.parametrize(
    ("config", "plain"),
    [
        ({"momentum": 0.9}, lambda p: torch.optim.SGD(p, 0.01, momentum=0.9, nesterov=True, weight_decay=0.1)),
        ({"momentum": 0.9, "nesterov": False}, lambda p: torch.optim.SGD(p, 0.01, momentum=0.9, weight_decay=0.1)),
        ({"momentum": 0.0}, lambda p: torch.optim.SGD(p, 0.01, weight_decay=0.1)),
        ({"optimizer": "adam", "betas": [0.8, 0.9]}, lambda p: torch.optim.Adam(p, 0.01, (0.8, 0.9), weight_decay=0.1)),
        ({"optimizer": "adamw"}, lambda p: torch.optim.AdamW(p, 0.01, weight_decay=0.1)),
    ],
)  # fmt: skip
def test_optimizers_are_torchs(config: dict[str, Any], plain: Any) -> None:
    def train(make: Any) -> torch.Tensor:
        torch.manual_seed(0)
        model = nn.Linear(3, 2)
        optimizer = make(model)
        for _ in range(4):
            optimizer.zero_grad()
            model(torch.ones(5, 3)).square().sum().backward()
            optimizer.step()
        return model.weight.detach()

    ours = train(lambda model: make_optimizer(model, BossConfig(lr=0.01, weight_decay=0.1, **config)))
    torch.testing.assert_close(ours, train(lambda model: plain(model.parameters())), rtol=1e-5, atol=1e-7)


def test_biases_and_norms_can_be_left_out_of_the_weight_decay() -> None:
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(4, 2))
    groups = make_optimizer(model, BossConfig(decay_norms=False, weight_decay=0.1)).param_groups
    decay = {parameter: group["weight_decay"] for group in groups for parameter in group["params"]}
    assert {name: decay[parameter] for name, parameter in model.named_parameters()} == {
        "0.weight": 0.1, "0.bias": 0, "1.weight": 0, "1.bias": 0, "3.weight": 0.1, "3.bias": 0,
    }  # fmt: skip
    [group] = make_optimizer(model, BossConfig(weight_decay=0.1)).param_groups
    assert (len(group["params"]), group["weight_decay"]) == (6, 0.1)


def test_frozen_parameters_are_left_alone_and_some_must_not_be() -> None:
    model = nn.Sequential(nn.Linear(2, 2).requires_grad_(False), nn.Linear(2, 2))
    [group] = make_optimizer(model, BossConfig()).param_groups
    assert len(group["params"]) == 2
    with pytest.raises(ConfigError, match=r"boss\.model = .*no trainable parameters"):
        make_optimizer(model.requires_grad_(False), BossConfig())


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"warmup": 0.1}, r"boss\.warmup = 0\.1: one_cycle rises by itself"),
        ({"microbatch": 1}, r"boss\.microbatch = 1: .*allowed: 0 \(off\), 2 and more"),
        ({"label_smoothing": 0.1, "loss": "./l.py:loss"}, r"boss\.label_smoothing = 0\.1: .*boss\.loss: 0"),
        ({"betas": [0.9]}, r"boss\.betas"),
        ({"betas": [0.9, 1.0]}, r"boss\.betas\.1"),
        ({"schedule": "cosin"}, r"boss\.schedule = 'cosin'"),
        ({"amp": "fp8"}, r"boss\.amp = 'fp8': .*'off', 'bf16' or 'fp16'"),
        ({"accumulate": 0}, r"boss\.accumulate = 0"),
        ({"ema": 1.0}, r"boss\.ema = 1\.0"),
        ({"optimizer": "rmsprop"}, r"boss\.optimizer = 'rmsprop'"),
    ],
)
def test_what_cannot_be_is_named(values: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        BossConfig.read("boss", values)
