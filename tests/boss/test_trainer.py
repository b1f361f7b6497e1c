from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from toys import batch, batches, opened, spec

from batcher.datasets.arrays import ArraySplit
from batcher.plugin import Data
from boss.config import BossConfig
from boss.outlet import LossOutlet
from boss.trainer import Trainer
from proto.batches import Batch
from proto.config import RunConfig
from proto.control import DataSpec
from proto.errors import ConfigError
from proto.learning import Losses

MODELS = """
import torch
from torch import nn

def wrong_shape(spec):
    return nn.Linear(6, spec.classes + 1)

def does_not_fit(spec):
    return nn.Linear(7, spec.classes)

def no_tensor(spec):
    class Model(nn.Module):
        def forward(self, x):
            return "logits"
    return Model()

def raising(spec):
    return {}["width"]

def number(spec):
    return 5

def normed(spec):
    return nn.Sequential(nn.BatchNorm1d(6), nn.Dropout(0.5), nn.Linear(6, spec.classes))

def lazy(spec):
    return nn.LazyLinear(spec.classes)
"""


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models.py").write_text(MODELS)


def make(model: str = "linear", of: DataSpec | None = None, seed: int = 0, **config: Any) -> Trainer:
    return Trainer(RunConfig(seed=seed), BossConfig(model=model, **{"device": "cpu", **config}), of or spec())


class Listed:
    """A stream of the given batches."""

    def __init__(self, *given: Batch) -> None:
        self.given, self.released = given, []

    def __iter__(self) -> Any:
        return iter(self.given)

    def release(self, batch: Batch) -> None:
        self.released.append(batch.seq)


def run(trainer: Trainer, *given: Batch) -> tuple[list[Losses], list[Any], list[int]]:
    """What is reported, recorded and released."""
    reports: list[Losses] = []
    recorded: list[Any] = []
    stream = Listed(*given)
    outlet = LossOutlet(lambda report: reports.append(report) or True, 4)
    trainer.train(stream, outlet, lambda event, values: recorded.append((event, values)))
    return reports, recorded, stream.released


def clouds() -> Data:
    """Three classes that can be told apart."""
    rng = np.random.default_rng(0)
    labels = np.arange(300) % 3
    inputs = (np.eye(6)[labels] * 3 + rng.normal(size=(300, 6))).astype(np.float32)
    return Data(ArraySplit(inputs[:240], labels[:240]), ArraySplit(inputs[240:], labels[240:]))


def all_batches(seed: int = 0) -> tuple[DataSpec, list[Batch]]:
    core = opened(clouds(), budget=4.0, eval_every=1.0, seed=seed)
    return core.spec, batches(core)


def test_it_learns_and_evaluates_where_the_stream_says() -> None:
    of, given = all_batches()
    trainer = make(of=of)
    reports, recorded, released = run(trainer, *given)
    assert released == [one.seq for one in given]
    assert [report.batch_id for report in reports] == [one.seq for one in given if one.kind == "train"]
    assert [report.step for report in reports] == list(range(1, of.train_batches + 1))
    assert [event for event, _ in recorded] == ["eval"] * 4
    epochs = [values["boss_epochs"] for _, values in recorded]
    assert epochs[-1] == 4.0
    assert all(epoch >= n for n, epoch in enumerate(epochs, 1))
    assert recorded[-1][1]["test_accuracy"] > 0.9
    metrics = trainer.metrics()
    assert metrics["test_accuracy"] == recorded[-1][1]["test_accuracy"]
    assert (metrics["trained"], metrics["step"]) == (960, of.train_batches)


def test_reported_losses_are_those_before_the_step_in_the_order_of_the_ids() -> None:
    of, given = all_batches()
    one = given[0]
    untouched = make(of=of)
    with torch.no_grad():
        logits = untouched.model(torch.tensor(one.arrays["inputs"]))
    expected = torch.nn.functional.cross_entropy(logits, torch.tensor(one.arrays["targets"]), reduction="none")
    [report], _, _ = run(make(of=of), one)
    np.testing.assert_allclose(report.losses, expected, rtol=1e-5)
    assert report.ids.tolist() == one.ids.tolist()


def test_the_same_seed_gives_the_same_run_bit_by_bit() -> None:
    of, given = all_batches()

    def losses(seed: int) -> bytes:
        return b"".join(report.losses.tobytes() for report in run(make("mlp", of=of, seed=seed), *given)[0])

    assert losses(5) == losses(5)
    assert losses(5) != losses(6)


@pytest.mark.parametrize("schedule", ["one_cycle", "constant"])
@pytest.mark.parametrize("steps", [1, 17])
def test_a_trainer_that_takes_over_a_state_goes_on_bit_by_bit(schedule: str, steps: int) -> None:
    of, given = all_batches()
    training = [one for one in given if one.kind == "train"]
    old, new = (make("mlp", of=of, seed=seed, schedule=schedule) for seed in (1, 2))
    run(old, *training[:steps])
    new.load(deepcopy(old.state()))  # as if from disk
    (ours, _, _), (theirs, _, _) = run(old, *training[steps:]), run(new, *training[steps:])
    assert [report.losses.tobytes() for report in ours] == [report.losses.tobytes() for report in theirs]
    assert (old.trained, old.stepper.steps) == (new.trained, new.stepper.steps) == (960, of.train_batches)
    assert old.metrics()["lr"] == new.metrics()["lr"]


@pytest.mark.usefixtures("models")
def test_evaluation_leaves_no_trace_in_the_model() -> None:
    of, given = all_batches()
    trainer = make("./models.py:normed", of=of)
    before = {name: value.clone() for name, value in trainer.model.state_dict().items()}
    run(trainer, *(one for one in given if one.kind != "train"))
    for name, value in trainer.model.state_dict().items():
        torch.testing.assert_close(value, before[name])
    assert trainer.model.training
    assert trainer.trained == 0


@pytest.mark.usefixtures("models")
def test_a_lazy_model_is_trained() -> None:
    of, given = all_batches()
    _, recorded, _ = run(make("./models.py:lazy", of=of), *given)
    assert recorded[-1][1]["test_accuracy"] > 0.9


@pytest.mark.usefixtures("models")
@pytest.mark.parametrize(
    ("model", "text"),
    [
        ("wrong_shape", r"returns shape \[2, 4\] for 2 instances; needed: a tensor of shape \[2, 3\]"),
        ("does_not_fit", r"does not fit inputs of shape \[6\]"),
        ("no_tensor", r"returns a str for 2 instances; needed: a tensor of shape \[2, 3\]"),
        ("raising", r"making it failed: KeyError: 'width' \(models\.py, line \d+\)"),
        ("number", r"returned a int; needed: a torch\.nn\.Module"),
    ],
)
def test_a_model_that_does_not_fit_is_refused_with_the_shapes(model: str, text: str) -> None:
    with pytest.raises(ConfigError, match=rf"boss\.model = .*{model}.*{text}"):
        make(f"./models.py:{model}")


def test_arguments_that_the_model_does_not_take_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"boss\.args = .*arguments taken: hidden"):
        make("mlp", args={"hiden": 3})


@pytest.mark.parametrize("device", ["gpu", "cuda:99", "", "meta", "cpu:x"])
def test_a_device_that_is_not_there_is_refused(device: str) -> None:
    with pytest.raises(ConfigError, match=r"boss\.device = .*allowed: auto, cpu, cuda"):
        make(device=device)


def test_the_lag_is_the_largest_between_a_step_and_what_its_version_had_seen() -> None:
    trainer = make()
    run(
        trainer,
        batch([1, 2], version=0, version_step=0),
        batch([1, 2], version=1, version_step=1),
        batch([1, 2], version=1, version_step=1),
        batch([1, 2], version=2, version_step=3),
    )
    assert trainer.max_lag == 2
