"""Training on what are no class numbers, and on instances that differ in length."""

from typing import Any

import numpy as np
import pytest
import torch
from ragged_items import Collating, Offering
from toys import batches, opened, spec

from batcher.datasets.arrays import ArraySplit
from batcher.plugin import Data
from boss.account import Account
from boss.config import BossConfig
from boss.mixing import Mixer
from boss.outlet import LossOutlet
from boss.trainer import Trainer
from proto.batches import Batch
from proto.config import RunConfig
from proto.errors import ConfigError
from proto.learning import Losses
from proto.messages import Value

RNG = np.random.default_rng(0)
INPUTS = RNG.normal(size=(200, 6)).astype(np.float32)
WEIGHTS = RNG.normal(size=(6, 3)).astype(np.float32)

MODEL = """
import torch
from torch import nn

class Recurrent(nn.Module):
    def __init__(self, spec):
        super().__init__()
        self.embedding, self.gru = nn.Embedding(spec.vocabulary, 4), nn.GRU(4, 8, batch_first=True)
        self.linear = nn.Linear(8, spec.outputs)

    def forward(self, inputs, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(
            self.embedding(inputs), lengths.cpu(), batch_first=True, enforce_sorted=False
        )
        return self.linear(self.gru(packed)[1][0])

class Attentive(nn.Module):
    def __init__(self, spec):
        super().__init__()
        self.embedding = nn.Embedding(spec.vocabulary, spec.outputs)

    def forward(self, inputs, attention_mask):
        shares = attention_mask / attention_mask.sum(1, keepdim=True)
        return (self.embedding(inputs) * shares.unsqueeze(2)).sum(1)
"""


class Listed:
    def __init__(self, given: list[Batch]) -> None:
        self.given = given

    def __iter__(self) -> Any:
        return iter(self.given)

    def release(self, batch: Batch) -> None: ...


def train(data: Data, **config: Any) -> tuple[Trainer, list[Losses], list[dict[str, Value]]]:
    core = opened(data, budget=20.0, batch_size=20, eval_every=5.0)
    found: list[dict[str, Value]] = []
    reports: list[Losses] = []
    trainer = Trainer(RunConfig(), BossConfig(device="cpu", **config), core.spec)
    trainer.train(
        Listed(batches(core)),
        LossOutlet(lambda message: reports.append(message) is None, 1000),  # type: ignore[arg-type, func-returns-value]
        lambda event, values: found.append(values),
    )
    return trainer, reports, found


@pytest.mark.parametrize("several", [False, True])
def test_regression_is_learned_and_evaluated_by_its_loss_alone(several: bool) -> None:
    targets = INPUTS @ WEIGHTS if several else INPUTS @ WEIGHTS[:, 0]
    data = Data(ArraySplit(INPUTS, targets), ArraySplit(INPUTS, targets), ArraySplit(INPUTS, targets))
    trainer, reports, found = train(data, model="linear", loss="mse", weight_decay=0.0)
    told = {f"{split}_{what}" for split in ("test", "validation") for what in ("loss", "boss_epochs")}
    assert set(trainer.evaluation) == told
    assert trainer.evaluation["test_loss"] < 1e-2  # type: ignore[operator]
    assert trainer.best == pytest.approx(-min(v["validation_loss"] for v in found if "validation_loss" in v))  # type: ignore[type-var, operator]
    first = reports[0]
    assert first.losses.shape == first.ids.shape


def test_several_labels_each_are_learned() -> None:
    targets = INPUTS @ WEIGHTS > 0
    data = Data(ArraySplit(INPUTS, targets), ArraySplit(INPUTS, targets))
    trainer, _, found = train(data, model="mlp", loss="bce", mixup=0.2)
    assert trainer.evaluation["test_loss"] < 0.5 * found[0]["test_loss"] or trainer.evaluation["test_loss"] < 0.1  # type: ignore[operator]


@pytest.fixture
def models(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models.py").write_text(MODEL)


@pytest.mark.usefixtures("models")
@pytest.mark.parametrize(
    ("split", "model"),
    [(Offering, "embedding_bag"), (Offering, "./models.py:Recurrent"), (Collating, "./models.py:Attentive")],
)
def test_a_model_is_given_what_it_names(split: Any, model: str) -> None:
    trainer, _, _ = train(
        Data(split(), split(20), vocabulary=30), model=model, optimizer="adam", lr=0.02, microbatch=8, ema=0.5
    )
    assert trainer.evaluation["test_accuracy"] >= 0.4  # type: ignore[operator]


def test_padding_changes_nothing() -> None:
    of = spec(input_shape=(8,), input_dtype="int64", vocabulary=10, beside={"mask": ("bool", (8,))}, classes=3)
    trainer = Trainer(RunConfig(), BossConfig(device="cpu", model="embedding_bag"), of)
    tokens, mask = torch.tensor([[1, 2, 0, 0], [4, 5, 6, 0]]), torch.tensor([[1, 1, 0, 0], [1, 1, 1, 0]], dtype=bool)
    garbage = torch.where(mask, tokens, 9)
    one, other = (trainer.stepper.predict(inputs, {"mask": mask}) for inputs in (tokens, garbage))
    torch.testing.assert_close(one, other)


def test_instances_of_different_length_are_not_mixed() -> None:
    of = spec(input_shape=(8, 2), beside={"mask": ("bool", (8,))})
    with pytest.raises(ConfigError, match=r"boss\.mixup = 0\.2.*different length"):
        Mixer(BossConfig(mixup=0.2), of, 0)


def test_where_there_are_no_classes_no_counts_per_class_are_told() -> None:
    core = opened(Data(ArraySplit(INPUTS, INPUTS @ WEIGHTS)), batch_size=20)
    account = Account()
    for batch in batches(core):
        account.add(batch)
    assert account.metrics()["dropped_per_class"] == ()


def test_the_schedule_ends_with_the_budget_whatever_the_batches() -> None:
    of = spec(train_total=100, train_batches=10, max_tokens=50)
    trainer = Trainer(RunConfig(), BossConfig(device="cpu", model="linear", schedule="cosine", lr=1.0), of)
    rates = []
    for size in (10, 40, 50):
        trainer.stepper.forward_backward(torch.zeros(size, 6), torch.zeros(size, dtype=torch.int64), torch.ones(size))
        trainer.stepper.step()
        rates.append(trainer.stepper.optimizer.param_groups[0]["lr"])
    assert rates == pytest.approx([0.5 * (1 + np.cos(np.pi * done)) for done in (0.1, 0.5, 1.0)], abs=1e-6)
