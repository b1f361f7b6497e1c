"""What cannot work is said before the first step, and trying it leaves no trace."""

from pathlib import Path
from typing import Any

import pytest
import torch
from toys import spec

from boss.config import BossConfig
from boss.trainer import Trainer
from proto.config import RunConfig
from proto.errors import ConfigError

MODELS = """
import torch
from torch import nn

def normed(spec):
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 3))

class NoBackward(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 3)

    def forward(self, x):
        logits = self.linear(x)
        return logits.detach() if self.training else logits

def no_backward(spec):
    return NoBackward()

class TrainsOtherwise(NoBackward):
    def forward(self, x):
        logits = self.linear(x)
        return (logits, logits) if self.training else logits

def trains_otherwise(spec):
    return TrainsOtherwise()

def sparse(spec):
    return nn.Sequential(nn.Embedding(5, 4, sparse=True), nn.Flatten(), nn.Linear(24, 3))

def for_scalar(logits, targets):
    return torch.nn.functional.cross_entropy(logits, targets)

def for_tokens(logits, targets):
    return logits[:, :2]
"""


@pytest.fixture(autouse=True)
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "users.py").write_text(MODELS)


def make(of: Any = None, **config: Any) -> Trainer:
    return Trainer(RunConfig(), BossConfig(device="cpu", **config), of or spec())


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_it_leaves_no_trace(optimizer: str) -> None:
    torch.manual_seed(0)
    untouched = torch.nn.Sequential(
        torch.nn.Linear(6, 8), torch.nn.BatchNorm1d(8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 3)
    )
    random = torch.get_rng_state()
    trainer = make(model="./users.py:normed", optimizer=optimizer, ema=0.9, mixup=0.2, lr=0.05)
    assert torch.equal(torch.get_rng_state(), random)
    for name, value in untouched.state_dict().items():
        assert torch.equal(trainer.model.state_dict()[name], value), name
        assert torch.equal(trainer.evaluated.state_dict()[name], value), name
    assert all(parameter.grad is None for parameter in trainer.model.parameters())
    moments = [value for state in trainer.stepper.optimizer.state.values() for value in state.values()]
    assert not any(bool(value.any()) for value in moments)
    assert (trainer.stepper.steps, trainer.stepper.batches, trainer.trained) == (0, 0, 0)
    assert trainer.metrics()["lr"] == pytest.approx(0.05 / 25)
    assert trainer.evaluation == {}
    assert trainer.model.training


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ({"loss": "./users.py:for_scalar"}, r"boss\.loss = .*returns shape \[\] for 2 instances; needed: \[2\]"),
        ({"loss": "./users.py:for_tokens"}, r"boss\.loss = .*returns shape \[2, 2\] for 2 instances; needed: \[2\]"),
        ({"model": "./users.py:no_backward"}, r"boss\.model = .*the forward and backward pass failed on 2 instances"),
        ({"model": "./users.py:trains_otherwise"}, r"boss\.model = .*the forward and backward pass failed"),
    ],
)
def test_what_fails_is_named_with_its_phase(config: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        make(**{"model": "linear", **config})


def test_what_the_optimizer_refuses_is_named() -> None:
    with pytest.raises(ConfigError, match=r"the (optimizer step|forward and backward pass) failed"):
        make(spec(input_dtype="int64"), model="./users.py:sparse")


@pytest.mark.parametrize("dtype", ["uint8", "float32", "int64"])
def test_it_tries_with_inputs_like_those_of_the_data(dtype: str) -> None:
    of = spec(input_shape=(1, 8, 8), input_dtype=dtype)
    if dtype == "int64":
        with pytest.raises(ConfigError, match=r"does not fit inputs of shape \[1, 8, 8\]"):
            make(of, model="linear")
    else:
        make(of, model="linear")


def test_batch_norm_that_would_be_given_one_instance_at_a_time_is_said_before_training() -> None:
    problem = r"failed on 1 instance, which is all there is to a batch here: ValueError: Expected more than 1 value"
    with pytest.raises(ConfigError, match=problem):
        make(spec(max_batch=1, train_batches=200), model="./users.py:normed")
    make(spec(max_batch=1, train_batches=200), model="linear")
