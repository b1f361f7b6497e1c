import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy
from toys import batch, batches, numbered, opened, spec

from boss.config import BossConfig
from boss.models import linear
from boss.precision import Precision
from boss.step import Preparer, Stepper

CPU = torch.device("cpu")
RNG = np.random.default_rng(0)


def stepper(total_steps: int = 10, **config: object) -> Stepper:
    torch.manual_seed(0)
    settings = BossConfig(**{"momentum": 0.0, "weight_decay": 0.0, **config})
    of = spec(train_batches=total_steps)
    return Stepper(linear(of), settings, of, Precision(settings, CPU), seed=0)


def step(ours: Stepper, inputs: torch.Tensor, targets: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    losses = ours.forward_backward(inputs, targets, weights)
    ours.step()
    return losses


def some(n: int = 4) -> tuple[torch.Tensor, torch.Tensor]:
    inputs = torch.from_numpy(RNG.normal(size=(n, 6)).astype(np.float32))
    return inputs, torch.from_numpy(RNG.integers(0, 3, n))


def test_it_steps_along_the_weighted_mean_and_reports_the_unweighted_losses() -> None:
    inputs, targets = some()
    weights = torch.tensor([0.5, 3.0, 0.0, 1.5])
    ours, plain = stepper(lr=0.1, schedule="constant"), stepper()
    losses = cross_entropy(plain.model(inputs), targets, reduction="none")
    ((losses * weights).sum() / weights.sum()).backward()

    reported = step(ours, inputs, targets, weights)

    torch.testing.assert_close(reported, losses.detach())
    assert not reported.requires_grad
    for after, before in zip(ours.model.parameters(), plain.model.parameters(), strict=True):
        torch.testing.assert_close(after, before - 0.1 * before.grad)


def test_equal_weights_of_any_size_change_nothing() -> None:
    inputs, targets = some()
    ones, sevens = stepper(), stepper()
    step(ones, inputs, targets, torch.ones(4))
    step(sevens, inputs, targets, torch.full((4,), 7.0))
    for a, b in zip(ones.model.parameters(), sevens.model.parameters(), strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("size", [31, 32, 33, 64, 65, 66, 97])
@pytest.mark.parametrize("budget", [1.0, 1.5, 2.0])
def test_the_one_cycle_schedule_ends_exactly_with_the_budget(size: int, budget: float) -> None:
    core = opened(numbered(size), batch_size=min(32, size), budget=budget)
    ours = stepper(core.spec.train_batches, lr=0.5)
    for one in batches(core):
        step(ours, *some(len(one.ids)), torch.ones(len(one.ids)))
    assert ours.steps == core.spec.train_batches
    assert ours.optimizer.param_groups[0]["lr"] == pytest.approx(0.5 / 25 / 1e4)


def test_the_one_cycle_schedule_rises_to_the_configured_rate_and_falls_to_nothing() -> None:
    ours = stepper(100, lr=0.5)
    rates = []
    for _ in range(100):
        rates.append(ours.optimizer.param_groups[0]["lr"])
        step(ours, *some(), torch.ones(4))
    assert max(rates) == pytest.approx(0.5, rel=0.01)
    assert 20 < int(np.argmax(rates)) < 40
    assert rates[-1] < 0.01
    assert ours.optimizer.param_groups[0]["lr"] == pytest.approx(0.5 / 25 / 1e4)


def test_the_constant_schedule_is_constant() -> None:
    ours = stepper(3, lr=0.5, schedule="constant")
    for _ in range(20):
        step(ours, *some(), torch.ones(4))
        assert ours.optimizer.param_groups[0]["lr"] == 0.5


@pytest.mark.parametrize(
    ("shape", "mean", "std"),
    [((3, 4, 4), (0.1, 0.2, 0.3), (0.4, 0.5, 0.6)), ((1, 4, 4), (0.1307,), (0.3081,)), ((5,), (0.5,), (0.25,)),
     ((3, 4, 4), (), ())],
)  # fmt: skip
def test_uint8_inputs_are_normalised_per_channel(
    shape: tuple[int, ...], mean: tuple[float, ...], std: tuple[float, ...]
) -> None:
    images = RNG.integers(0, 256, (2, *shape), dtype=np.uint8)
    prepare = Preparer(spec(input_shape=shape, input_dtype="uint8", mean=mean, std=std), CPU)
    inputs, targets, weights, _ = prepare(batch([1, 2], inputs=images, targets=np.array([2, 1])))
    per_channel = (-1, *[1] * (len(shape) - 1))
    m, s = np.reshape(mean or [0.0], per_channel), np.reshape(std or [1.0], per_channel)
    np.testing.assert_allclose(inputs.numpy(), (images / 255 - m) / s, atol=1e-5)
    assert inputs.dtype == torch.float32
    assert targets.tolist() == [2, 1]
    assert weights.tolist() == [1, 1]


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_other_inputs_are_left_as_they_are(dtype: type) -> None:
    values = np.array([[1, 2, 3, 4, 5, 6]], dtype)
    inputs, _, _, _ = Preparer(spec(mean=(5.0,), std=(5.0,)), CPU)(batch([1], inputs=values))
    np.testing.assert_array_equal(inputs.numpy(), values)
    assert inputs.numpy().dtype == dtype


def test_the_tensors_do_not_share_memory_with_the_slot() -> None:
    values = np.ones((1, 6), np.float32)
    inputs, _, _, _ = Preparer(spec(), CPU)(batch([1], inputs=values))
    values[:] = 99
    assert inputs.tolist() == [[1.0] * 6]
