"""One optimizer step from several batches, or from parts of one: how instances come in batches changes nothing."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from toys import spec

from boss.config import BossConfig
from boss.precision import Precision
from boss.step import Stepper, part_count

CPU = torch.device("cpu")


def net(*, double: bool = True) -> nn.Module:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
    return model.double() if double else model


def stepper(model: nn.Module | None = None, batches: int = 8, **config: Any) -> Stepper:
    config = {"schedule": "constant", "weight_decay": 0.01, **config}
    of, settings = spec(train_batches=batches), BossConfig(**config)
    return Stepper(model or net(), settings, of, Precision(settings, CPU), seed=0)


def instances(n: int = 8, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor]:
    draw = torch.Generator().manual_seed(1)
    weights = torch.rand(n, generator=draw) * 3 + 0.1
    return torch.randn(n, 6, generator=draw, dtype=dtype), torch.randint(3, (n,), generator=draw), weights


def train(ours: Stepper, sizes: list[int], data: tuple[Tensor, Tensor, Tensor] | None = None) -> Tensor:
    """One window of batches of these `sizes`; the reported losses of all instances."""
    data = data or instances(sum(sizes))
    losses = [ours.forward_backward(*piece) for piece in zip(*(tensor.split(sizes) for tensor in data), strict=True)]
    ours.step()
    return torch.cat(losses)


def weights_of(ours: Stepper) -> Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in ours.model.parameters()])


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
@pytest.mark.parametrize("sizes", [[4, 4], [5, 3], [2, 2, 2, 2], [1, 4, 1, 2]])
def test_a_window_of_batches_equals_one_large_batch(sizes: list[int], optimizer: str) -> None:
    whole = stepper(optimizer=optimizer, clip_norm=0.1)
    parts = stepper(optimizer=optimizer, clip_norm=0.1, accumulate=len(sizes))
    for _ in range(3):
        torch.testing.assert_close(train(parts, sizes), train(whole, [8]))
        torch.testing.assert_close(weights_of(parts), weights_of(whole), atol=1e-6, rtol=0)
    assert parts.steps == whole.steps == 3


@pytest.mark.parametrize("microbatch", [2, 3, 5, 8, 9])
def test_parts_of_a_batch_equal_the_whole(microbatch: int) -> None:
    whole, parts = stepper(), stepper(microbatch=microbatch)
    torch.testing.assert_close(train(parts, [8]), train(whole, [8]))
    torch.testing.assert_close(weights_of(parts), weights_of(whole), atol=1e-6, rtol=0)


def test_the_step_is_along_the_gradient_of_the_mean_by_weight() -> None:
    inputs, targets, weights = instances()
    ours, plain = stepper(lr=0.1, momentum=0.0, weight_decay=0.0, accumulate=2), net()
    losses = cross_entropy(plain(inputs), targets, reduction="none")
    ((losses * weights).sum() / weights.double().sum()).backward()
    torch.testing.assert_close(train(ours, [5, 3]), losses.detach())
    for after, before in zip(ours.model.parameters(), plain.parameters(), strict=True):
        assert before.grad is not None
        torch.testing.assert_close(after, before - 0.1 * before.grad, atol=1e-7, rtol=0)


def test_a_window_that_is_not_full_is_a_step_on_its_own_mean() -> None:
    whole, short = stepper(), stepper(accumulate=4)
    train(whole, [3])
    train(short, [2, 1])
    torch.testing.assert_close(weights_of(short), weights_of(whole), atol=1e-6, rtol=0)
    assert short.steps == 1


@pytest.mark.parametrize("size", range(1, 21))
@pytest.mark.parametrize("most", [0, 2, 3, 4, 7])
def test_parts_are_even_and_never_of_one(size: int, most: int) -> None:
    sizes = [len(part) for part in torch.zeros(size).tensor_split(part_count(size, most))]
    assert sum(sizes) == size
    assert max(sizes) - min(sizes) <= 1
    assert min(sizes) >= min(size, 2)
    if most:
        assert max(sizes) <= max(most, 3 if most == 2 else 0)


def test_batch_norm_never_sees_one_instance() -> None:
    seen: list[int] = []
    model = nn.Sequential(nn.BatchNorm1d(6), nn.Linear(6, 3)).double()
    model[0].register_forward_pre_hook(lambda module, args: seen.append(len(args[0])))
    ours = stepper(model, microbatch=2)
    for size in range(2, 12):
        train(ours, [size])
    assert min(seen) == 2
    assert ours.health.masked == 0


@pytest.mark.parametrize("scale", [1.0, 65536.0])
def test_the_norm_is_clipped_after_the_loss_scale_is_taken_out(scale: float) -> None:
    ours = stepper(net(double=False), lr=1.0, momentum=0.0, weight_decay=0.0, clip_norm=0.05, accumulate=2)
    ours.scaler = torch.amp.GradScaler("cpu", init_scale=scale)
    before = weights_of(ours)
    train(ours, [5, 3], instances(dtype=torch.float32))
    assert (weights_of(ours) - before).norm() == pytest.approx(0.05, rel=1e-4)


# -- what is not finite


class Trap(nn.Module):
    """A linear model whose gradient is NaN, and its loss is not, while `on`."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.norm, self.linear = nn.BatchNorm1d(6), nn.Linear(6, 3)
        self.zero = nn.Parameter(torch.zeros(1))
        self.on = False

    def forward(self, inputs: Tensor) -> Tensor:
        logits: Tensor = self.linear(self.norm(inputs))
        return logits + 0 * self.zero.sqrt() if self.on else logits + 0 * self.zero


def everything(ours: Stepper) -> dict[str, Tensor]:
    found = {f"model.{name}": value.clone() for name, value in ours.model.state_dict().items()}
    found |= {f"ema.{name}": value.clone() for name, value in ours.evaluated.state_dict().items()}
    for i, state in enumerate(ours.optimizer.state.values()):
        found |= {f"optimizer.{i}.{name}": value.clone() for name, value in state.items()}
    return found


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adamw"])
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("accumulate", [1, 2])
def test_a_step_without_finite_gradient_leaves_everything_as_it_was(
    optimizer: str, first: bool, accumulate: int
) -> None:
    model = Trap()
    ours = stepper(model, optimizer=optimizer, schedule="cosine", ema=0.5, accumulate=accumulate, batches=20)
    data, sizes = instances(dtype=torch.float32), [8] if accumulate == 1 else [5, 3]
    if not first:
        train(ours, sizes, data)
    before, steps, rate = everything(ours), ours.steps, ours.optimizer.param_groups[0]["lr"]
    model.on = True
    losses = train(ours, sizes, data)
    assert losses.isfinite().all()
    after = {name: value for name, value in everything(ours).items() if name in before}  # Adam's are made in the step
    torch.testing.assert_close(after, before, rtol=0, atol=0)
    assert (ours.steps, ours.optimizer.param_groups[0]["lr"]) == (steps, rate)
    assert ours.health.suppressed == 1
    model.on = False
    train(ours, sizes, data)
    assert ours.steps == steps + 1
    assert all(value.isfinite().all() for value in everything(ours).values())


def test_a_suppressed_first_step_changes_nothing_later() -> None:
    straight, late = stepper(Trap(), ema=0.5), stepper(Trap(), ema=0.5)
    late.model.on = True  # type: ignore[assignment]
    train(late, [8], instances(dtype=torch.float32))
    late.model.on = False  # type: ignore[assignment]
    for ours in (straight, late):
        for _ in range(2):
            train(ours, [8], instances(dtype=torch.float32))
    torch.testing.assert_close(everything(late), everything(straight), rtol=0, atol=0)


LOSSES = """
import torch
from torch.nn.functional import cross_entropy

def infinite_for_class_2(logits, targets):
    # Infinite with a derivative that is no number, as of log(0).
    return cross_entropy(logits, targets, reduction="none") - ((targets != 2) + 0 * logits.sum(1)).log()

def never_finite(logits, targets):
    return cross_entropy(logits, targets, reduction="none") * float("nan")
"""


@pytest.fixture
def losses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "losses.py").write_text(LOSSES)


@pytest.mark.usefixtures("losses")
@pytest.mark.parametrize("sizes", [[8], [5, 3]])
def test_a_loss_that_is_not_finite_contributes_nothing_and_is_reported(sizes: list[int]) -> None:
    data = instances()
    good = data[1] != 2
    ours = stepper(loss="./losses.py:infinite_for_class_2", accumulate=len(sizes))
    others = stepper()
    reported = train(ours, sizes, data)
    expected = train(others, [int(good.sum())], (data[0][good], data[1][good], data[2][good]))
    torch.testing.assert_close(weights_of(ours), weights_of(others), atol=1e-6, rtol=0)
    torch.testing.assert_close(reported[good], expected)
    assert reported[~good].isinf().all()
    assert (ours.health.masked, ours.health.suppressed) == (int((~good).sum()), 0)


@pytest.mark.usefixtures("losses")
@pytest.mark.parametrize("accumulate", [1, 2])
def test_three_batches_without_a_finite_loss_end_the_run(accumulate: int) -> None:
    ours = stepper(loss="./losses.py:never_finite", accumulate=accumulate)
    before = weights_of(ours)
    for _ in range(2):
        ours.forward_backward(*instances())
        if ours.window_full:
            ours.step()
        ours.check()
    ours.forward_backward(*instances())
    with pytest.raises(RuntimeError, match="step 1: 3 batches in a row had no finite loss"):
        ours.check()
    assert torch.equal(weights_of(ours), before)
    assert ours.health.masked == 24


@pytest.mark.usefixtures("losses")
def test_two_such_batches_do_not() -> None:
    ours, data = stepper(), instances()
    broken = (torch.full_like(data[0], np.nan), *data[1:])
    for given in (broken, broken, data, broken, broken, data):
        train(ours, [8], given)
        ours.check()
    assert (ours.steps, ours.health.suppressed, ours.health.masked) == (2, 4, 32)


@pytest.mark.parametrize("sizes", [[8], [5, 3]])
def test_a_host_that_would_have_to_wait_to_know_what_is_finite_takes_the_same_steps(
    sizes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    knows, waits = (stepper(accumulate=len(sizes), microbatch=4, momentum=0.9) for _ in range(2))
    monkeypatch.setattr(waits.health, "sure", lambda values: False)
    for _ in range(3):
        assert torch.equal(train(knows, sizes), train(waits, sizes))
    assert torch.equal(weights_of(knows), weights_of(waits))
    assert (waits.steps, waits.health.masked) == (knows.steps, knows.health.masked) == (3, 0)
