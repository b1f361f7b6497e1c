"""A Trainer that is resumed from a state goes on bit for bit like the one that was not interrupted."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from toys import batch, spec

from boss.config import BossConfig
from boss.outlet import LossOutlet
from boss.state import State
from boss.trainer import Trainer
from proto.batches import Batch
from proto.config import RunConfig
from proto.control import DataSpec
from proto.messages import Kind

IMAGES = spec(input_shape=(1, 8, 8), input_dtype="uint8", train_batches=12, train_size=96, validation_size=6)

MODELS = """
import torch
from torch import nn

def dropping(spec):
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.BatchNorm1d(32), nn.Dropout(0.5), nn.Linear(32, 3))

class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(64, 64), nn.Linear(64, 64)
        self.two.weight = self.one.weight
        self.out = nn.Linear(64, 3)
        self.register_buffer("passes", torch.zeros(()), persistent=False)

    def forward(self, x):
        if self.training:
            self.passes += 1
        return self.out(self.two(self.one(x.flatten(1)).relu())) * (1 + self.passes / 100)

def tied(spec):
    return Tied()
"""


@pytest.fixture(autouse=True)
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models.py").write_text(MODELS)


def given(n: int = 12, kind: Kind = "train", last: bool = False) -> list[Batch]:
    draw = np.random.default_rng(0)
    return [
        batch(
            range(8),
            draw.integers(0, 256, (8, 1, 8, 8), dtype=np.uint8),
            draw.integers(0, 3, 8),
            weights=draw.random(8, dtype=np.float32) + 0.5,
            kind=kind,
            seq=seq,
            last=last and seq == n - 1,
        )
        for seq in range(n)
    ]


class Listed:
    def __init__(self, batches: list[Batch]) -> None:
        self.batches = batches

    def __iter__(self) -> Any:
        return iter(self.batches)

    def release(self, one: Batch) -> None: ...


def make(of: DataSpec = IMAGES, **config: Any) -> Trainer:
    return Trainer(RunConfig(seed=3), BossConfig(device="cpu", **{"lr": 0.05, **config}), of)


def train(trainer: Trainer, batches: list[Batch], record: Any = lambda event, values: None) -> list[list[float]]:
    reports: list[Any] = []
    outlet = LossOutlet(lambda report: reports.append(report) or True, 1000)  # type: ignore[func-returns-value]
    trainer.train(Listed(batches), outlet, record)
    return [report.losses.tolist() for report in reports]


def on_disk(state: State, folder: Path) -> State:
    """`state` after a journey through safetensors and strict JSON."""
    save_file({name: tensor.contiguous() for name, tensor in state.tensors.items()}, folder / "state.safetensors")
    return State(load_file(folder / "state.safetensors"), json.loads(json.dumps(state.plain, allow_nan=False)))


@pytest.mark.parametrize(
    "config",
    [
        {"model": "small_cnn", "args": {"batch_norm": True}},
        {"model": "small_cnn", "args": {"batch_norm": True}, "channels_last": True},
        {"model": "mlp", "optimizer": "adamw", "lr": 0.001, "schedule": "cosine", "warmup": 0.2, "ema": 0.9},
        {"model": "mlp", "optimizer": "adam", "lr": 0.001, "momentum": 0.0, "decay_norms": False},
        {"model": "./models.py:dropping", "mixup": 0.4, "cutmix": 1.0, "label_smoothing": 0.1, "ema": 0.5},
        {"model": "mlp", "crop": 2, "flip": True, "cutout": 3, "mixup": 0.4},
        {"model": "./models.py:tied", "accumulate": 2, "clip_norm": 0.5, "microbatch": 3},
        {"model": "./models.py:tied", "momentum": 0.0, "amp": "fp16"},
    ],
)
def test_resuming_is_exact(config: dict[str, Any], tmp_path: Path) -> None:
    batches = given()
    straight = make(**config)
    train(straight, batches[:6])
    state = on_disk(straight.state(), tmp_path)
    resumed = make(**config)
    torch.rand(5)  # whatever happened before is no matter
    random = torch.get_rng_state()
    torch.set_rng_state(state.tensors["random.cpu"])
    losses = train(straight, batches[6:])
    torch.set_rng_state(random)
    resumed.load(state)
    assert train(resumed, batches[6:]) == losses
    one, other = straight.state(), resumed.state()
    assert one.plain == other.plain
    assert set(one.tensors) == set(other.tensors)
    for name, tensor in one.tensors.items():
        assert torch.equal(tensor, other.tensors[name]), name


def test_a_state_is_a_copy() -> None:
    trainer = make(model="mlp")
    train(trainer, given()[:2])
    state = trainer.state()
    before = {name: tensor.clone() for name, tensor in state.tensors.items()}
    other = make(model="mlp")
    other.load(state)
    for ours in (trainer, other):
        train(ours, given()[2:])
    assert all(torch.equal(tensor, before[name]) for name, tensor in state.tensors.items())


def test_a_state_carries_counts_and_evaluations() -> None:
    trainer = make(model="linear")
    train(trainer, [*given(4), *given(2, "validation", last=True), *given(2, "test", last=True)])
    other = make(model="linear")
    other.load(trainer.state())
    assert other.metrics() == trainer.metrics()
    assert other.metrics()["trained"] == 32
    assert (other.best, other.improved) == (trainer.best, True)


def test_the_best_is_that_of_the_validation_split_and_known_before_it_is_recorded() -> None:
    trainer, seen = make(model="linear", lr=1e-9), []
    train(trainer, given(2, "test", last=True), lambda event, values: seen.append(trainer.improved))
    for _ in range(2):
        train(trainer, given(2, "validation", last=True), lambda event, values: seen.append(trainer.improved))
    assert seen == [False, True, False]


def test_the_average_is_what_is_evaluated_and_saved() -> None:
    trainer, found = make(model="linear", ema=0.99, lr=0.5), []
    train(trainer, given())
    weights = trainer.evaluated.state_dict()["1.weight"]
    assert not torch.equal(weights, trainer.model.state_dict()["1.weight"])
    train(trainer, given(3, "test", last=True), lambda event, values: found.append(values))
    plain = make(model="linear")
    plain.model.load_state_dict(trainer.evaluated.state_dict())
    train(plain, given(3, "test", last=True))
    assert found[0]["test_loss"] == plain.evaluation["test_loss"]
    assert trainer.model.training
    assert not trainer.evaluated.training


def test_no_state_is_taken_in_the_middle_of_a_step() -> None:
    trainer, places = make(model="linear", accumulate=3), []
    outlet = LossOutlet(lambda report: True, 100)
    trainer.train(
        Listed(given(7)), outlet, lambda event, values: None, lambda batch: places.append(trainer.between_steps)
    )
    assert places == [False, False, True, False, False, True, False]
    assert trainer.between_steps, "the batches of a window that was not filled are a step"
    trainer.train_step(given(1)[0], outlet)
    with pytest.raises(AssertionError):
        trainer.state()


def test_seven_batches_by_four_are_two_steps_of_a_schedule_of_two() -> None:
    of = IMAGES.model_copy(update={"train_batches": 7})
    trainer, steps = make(of, model="linear", accumulate=4, lr=1.0), []
    reports: list[Any] = []
    outlet = LossOutlet(lambda report: reports.append(report.step) or True, 100)  # type: ignore[func-returns-value]
    trainer.train(
        Listed(given(7, last=True)),
        outlet,
        lambda event, values: None,
        lambda batch: steps.append((trainer.stepper.steps, len(reports))),
    )
    assert reports == [1, 1, 1, 1, 2, 2, 2]
    assert steps == [(0, 1), (0, 2), (0, 3), (1, 4), (1, 5), (1, 6), (2, 7)]
    assert trainer.metrics()["lr"] == pytest.approx(1 / 25e4), "the schedule has come to its end"


@pytest.mark.parametrize(
    ("other", "text"),
    [
        ({"model": "linear"}, "the state has no model.1.weight of|model.1.weight"),
        ({"model": "mlp", "args": {"hidden": 8}}, r"model\.1\.weight of float32 \[16, 64\] where .* \[8, 64\]"),
        ({"model": "mlp", "args": {"hidden": 16}, "ema": 0.9}, r"the state has no ema\."),
    ],
)
def test_the_state_of_another_model_is_refused(other: dict[str, Any], text: str) -> None:
    state = make(model="mlp", args={"hidden": 16}).state()
    with pytest.raises(ValueError, match=text):
        make(**other).load(state)
