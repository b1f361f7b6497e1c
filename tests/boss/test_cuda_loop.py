"""The loop on the GPU itself: it waits for nothing, and it does what it does on the CPU."""

from typing import Any

import numpy as np
import pytest
import torch
from toys import batch, spec

from boss.config import BossConfig
from boss.outlet import LossOutlet
from boss.trainer import Trainer
from proto.batches import Batch
from proto.config import RunConfig

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]

IMAGES = spec(input_shape=(1, 8, 8), input_dtype="uint8", mean=(0.5,), std=(0.3,), train_batches=12)


def given(n: int = 12) -> list[Batch]:
    draw = np.random.default_rng(0)
    return [
        batch(range(8), draw.integers(0, 256, (8, 1, 8, 8), dtype=np.uint8), draw.integers(0, 3, 8), seq=seq)
        for seq in range(n)
    ]


def trainer(device: str = "cuda", **config: Any) -> Trainer:
    args = {"batch_norm": True}
    return Trainer(RunConfig(), BossConfig(device=device, **{"args": args, "tf32": False, **config}), IMAGES)


def train(ours: Trainer, batches: list[Batch]) -> list[list[float]]:
    reports: list[Any] = []
    outlet = LossOutlet(lambda report: reports.append(report) or True, 100)  # type: ignore[func-returns-value]

    class Listed:
        def __iter__(self) -> Any:
            return iter(batches)

        def release(self, batch: Batch) -> None: ...

    ours.train(Listed(), outlet, lambda event, values: None)
    return [report.losses.tolist() for report in reports]


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"amp": "bf16", "channels_last": True},
        {"amp": "fp16"},
        {"accumulate": 4, "microbatch": 3},
        {"crop": 2, "flip": True, "cutout": 3},
        {"optimizer": "adamw", "ema": 0.9, "clip_norm": 1.0, "mixup": 0.2, "cutmix": 1.0, "label_smoothing": 0.1},
    ],
)
def test_no_step_waits_for_the_device(config: dict[str, Any]) -> None:
    ours, batches = trainer(**config), given()
    train(ours, batches[:4])
    outlet = LossOutlet(lambda report: True, 100)
    torch.cuda.set_sync_debug_mode("error")
    try:
        for one in batches[4:]:
            ours.train_step(one, outlet)
            ours.prepare.copier.finished(1)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    ours.stepper.health.look(wait=True)
    assert ours.stepper.health.masked == 0


def test_it_trains_as_on_the_cpu() -> None:
    on_gpu, on_cpu = (np.array(train(trainer(device), given())) for device in ("cuda", "cpu"))
    np.testing.assert_allclose(on_gpu[:6], on_cpu[:6], rtol=2e-2, atol=2e-3)


def test_a_suppressed_step_is_known_later_and_leaves_everything_as_it_was() -> None:
    ours, batches = trainer(ema=0.5), given()
    train(ours, batches[:3])
    before, steps = ours.state(), ours.stepper.steps
    train(ours, [one.model_copy(update={"weights": np.full(8, np.inf, np.float32)}) for one in batches[3:4]])
    after = ours.state()
    assert (ours.stepper.steps, ours.stepper.health.suppressed) == (steps, 1)
    for name, tensor in before.tensors.items():
        if not name.startswith("random"):
            torch.testing.assert_close(after.tensors[name], tensor, rtol=0, atol=0)


def test_resume_in_fp16_keeps_scale_and_random_state() -> None:
    straight = trainer(amp="fp16")
    train(straight, given()[:6])
    other = trainer(amp="fp16")
    other.load(straight.state())
    assert other.stepper.scaler.get_scale() == straight.stepper.scaler.get_scale()
    a, b = train(straight, given()[6:]), train(other, given()[6:])
    np.testing.assert_allclose(a, b, rtol=1e-2, atol=1e-3)
