from typing import Any

import pytest
import torch
from torch import Tensor, nn
from toys import spec

from boss.config import BossConfig
from boss.precision import Precision
from boss.step import Stepper

CPU = torch.device("cpu")


class Watched(nn.Module):
    """A convolution and a linear layer that remember what they saw."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.linear = nn.Conv2d(2, 4, 3, padding=1), nn.Linear(64, 3)
        self.seen: list[Tensor] = []

    def forward(self, inputs: Tensor) -> Tensor:
        self.seen.append(inputs)
        features = self.conv(inputs)
        self.seen.append(features)
        logits: Tensor = self.linear(features.flatten(1))
        return logits


def stepper(**config: Any) -> Stepper:
    settings = BossConfig(schedule="constant", **config)
    precision = Precision(settings, CPU)
    return Stepper(precision.model(Watched()), settings, spec(), precision, seed=0)


def step(ours: Stepper) -> Tensor:
    draw = torch.Generator().manual_seed(0)
    losses = ours.forward_backward(
        torch.randn(6, 2, 4, 4, generator=draw), torch.tensor([0, 1, 2, 0, 1, 2]), torch.ones(6)
    )
    ours.step()
    return losses


@pytest.mark.parametrize(("amp", "dtype"), [("off", torch.float32), ("bf16", torch.bfloat16), ("fp16", torch.float16)])
def test_amp_computes_in_its_dtype_and_keeps_weights_and_losses_in_float32(amp: str, dtype: torch.dtype) -> None:
    plain, ours = stepper(), stepper(amp=amp)
    losses = step(ours)
    torch.testing.assert_close(losses, step(plain), rtol=0.02, atol=0.02)
    assert losses.dtype == torch.float32
    assert ours.model.seen[1].dtype == dtype  # type: ignore[index, union-attr]
    for mine, exact in zip(ours.model.parameters(), plain.model.parameters(), strict=True):
        assert mine.dtype == torch.float32
        torch.testing.assert_close(mine, exact, rtol=0.02, atol=0.02)
    assert ours.predict(torch.zeros(2, 2, 4, 4)).dtype == torch.float32
    assert ours.steps == 1


def test_only_fp16_scales() -> None:
    assert [stepper(amp=amp).scaler.is_enabled() for amp in ("off", "bf16", "fp16")] == [False, False, True]


def test_a_step_that_the_scaler_leaves_out_moves_nothing_but_the_scale() -> None:
    ours = stepper(amp="fp16", ema=0.5)
    ours.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**40)
    before = [value.clone() for value in ours.model.state_dict().values()]
    average = [value.clone() for value in ours.evaluated.state_dict().values()]
    losses = step(ours)
    assert losses.isfinite().all()
    assert all(map(torch.equal, ours.model.state_dict().values(), before))
    assert all(map(torch.equal, ours.evaluated.state_dict().values(), average))
    assert (ours.steps, ours.health.suppressed) == (0, 1)
    assert ours.scaler.get_scale() == 2.0**39
    while ours.steps == 0:
        step(ours)
    assert 0 < ours.health.suppressed < 40
    assert not torch.equal(ours.model.state_dict()["linear.weight"], before[2])


def test_channels_last_is_a_matter_of_memory_alone() -> None:
    plain, ours = stepper(), stepper(channels_last=True)
    for _ in range(2):
        torch.testing.assert_close(step(ours), step(plain))
    assert ours.model.seen[0].is_contiguous(memory_format=torch.channels_last)  # type: ignore[index, union-attr]
    assert ours.model.conv.weight.is_contiguous(memory_format=torch.channels_last)  # type: ignore[operator, union-attr]
    buffer = ours.optimizer.state[ours.model.conv.weight]["momentum_buffer"]  # type: ignore[union-attr, index]
    assert buffer.is_contiguous(memory_format=torch.channels_last)
    for mine, exact in zip(ours.model.parameters(), plain.model.parameters(), strict=True):
        torch.testing.assert_close(mine, exact)
