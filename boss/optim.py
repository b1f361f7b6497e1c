"""Optimizers, and schedules as pure functions of the step count."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR

from boss.config import BossConfig
from proto.errors import ConfigError


def make_optimizer(model: nn.Module, config: BossConfig) -> torch.optim.Optimizer:
    """The optimizer that `config` names over the trainable parameters of `model`.

    It is torch's fused one: those alone can leave a step out on the device (their attribute `found_inf`).
    """
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not trainable:
        raise ConfigError("boss.model", config.model, "has no trainable parameters; needed: some with requires_grad")
    plain = [] if config.decay_norms else [parameter for parameter in trainable if parameter.ndim <= 1]
    decayed = trainable if config.decay_norms else [parameter for parameter in trainable if parameter.ndim > 1]
    groups: list[dict[str, Any]] = [{"params": decayed}, {"params": plain, "weight_decay": 0.0}]
    groups = [group for group in groups if group["params"]]
    if config.optimizer == "sgd":
        sgd = torch.optim.SGD(
            groups,
            lr=config.lr,
            momentum=config.momentum,
            nesterov=config.nesterov and config.momentum > 0,
            weight_decay=config.weight_decay,
            fused=True,
        )
        if config.momentum:
            # Torch makes these at the first step and leaves them unset when it is left out. Zeros change nothing else:
            # momentum x 0 + gradient is the gradient, with which torch would begin.
            for parameter in trainable:
                sgd.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
        return sgd
    kind = torch.optim.Adam if config.optimizer == "adam" else torch.optim.AdamW
    first, second = config.betas
    return kind(groups, lr=config.lr, betas=(first, second), weight_decay=config.weight_decay, fused=True)


class Schedule:
    """The learning rate: `boss.lr` times a factor that depends on the number of steps done, and on nothing else."""

    def __init__(self, optimizer: torch.optim.Optimizer, config: BossConfig, total: int) -> None:
        self._schedule = LambdaLR(optimizer, factor(config, total))

    def set(self, steps: float) -> None:
        """The learning rate of the step after `steps` steps."""
        if steps == self._schedule.last_epoch:
            return  # as after a suppressed step
        self._schedule.last_epoch = steps - 1  # type: ignore[assignment]  # a LambdaLR hands on any number
        self._schedule.step()


def factor(config: BossConfig, total: int) -> Callable[[float], float]:
    """Steps done -> factor of the learning rate, for a run of `total` optimizer steps.

    With w = round(warmup x total) the factor is (s + 1) / w in the first w steps, in all but one_cycle.
    """
    warm = round(config.warmup * total)
    if config.schedule == "one_cycle":
        return lambda step: one_cycle(step, total)
    after: dict[str, Callable[[float], float]] = {
        "constant": lambda step: 1.0,
        "step": lambda step: config.step_factor ** sum(step >= share * total for share in config.step_at),
        "cosine": lambda step: cosine(step - warm, total - warm),
        "inverse_sqrt": lambda step: math.sqrt(max(warm, 1) / (step + 1)),
    }
    later = after[config.schedule]
    return lambda step: (step + 1) / warm if step < warm else later(step)


def cosine(step: float, total: int) -> float:
    """Half a cosine wave from 1 at step 0 to 0 at step `total`."""
    return half_wave(step / max(total, 1))


def one_cycle(step: float, total: int, rise: float = 0.3, first: float = 1 / 25, last: float = 1 / 25e4) -> float:
    """The one-cycle schedule (Smith and Topin 2018) as torch.optim.lr_scheduler.OneCycleLR has it for total + 1 steps.

    Half a cosine wave from `first` to 1 in the first part, `rise`, then another one down to `last`.
    """
    peak = rise * (total + 1) - 1
    if step <= peak:
        return 1 + (first - 1) * half_wave(step / peak)
    return last + (1 - last) * half_wave((step - peak) / (total - peak))


def half_wave(progress: float) -> float:
    """Half a cosine wave: 1 at `progress` 0, 0 at 1 and beyond."""
    return 0.5 * (1 + math.cos(math.pi * min(progress, 1.0)))
