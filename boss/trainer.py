"""The Boss's core: a stream of batches in, loss reports and metrics out. Knows no socket."""

from collections.abc import Callable, Iterator
from typing import Protocol

import torch
from torch import nn

from boss.config import MODELS, BossConfig
from boss.evaluate import Evaluation
from boss.outlet import LossOutlet
from boss.state import State
from boss.step import Preparer, Stepper
from proto.config import RunConfig
from proto.errors import ConfigError
from proto.messages import Batch, DataSpec, Value
from proto.resolver import build, resolve


class Batches(Protocol):
    """Where batches come from: `boss.inlet.Stream`, or the serial wiring."""

    def __iter__(self) -> Iterator[Batch]: ...

    def release(self, batch: Batch) -> None: ...


class Trainer:
    """Trains a model on a stream of batches, evaluates it where the stream says so."""

    def __init__(self, run: RunConfig, config: BossConfig, spec: DataSpec) -> None:
        """Builds the model and tries it; raises ConfigError when it does not fit the data or the device is missing."""
        self.config, self.spec = config, spec
        self.device = _device(config.device)
        torch.manual_seed(run.seed)
        model = build("boss.args", resolve("boss.model", config.model, MODELS), {"spec": spec}, config.args)
        if not isinstance(model, nn.Module):
            raise ConfigError(
                "boss.model", config.model, f"returned a {type(model).__name__}; needed: a torch.nn.Module"
            )
        self.model: nn.Module = model.to(self.device)
        self._try_model()  # before the optimizer: a lazy module has no parameters until its first forward
        self.stepper = Stepper(self.model, config, spec.train_batches)
        self.prepare = Preparer(spec, self.device)
        self.trained = 0
        self.max_lag = 0
        self.evaluation: dict[str, Value] = {}
        self._evaluating: Evaluation | None = None

    def _try_model(self) -> None:
        """One forward pass of two instances, without a trace: does the model fit the data?"""
        zeros = torch.zeros(
            (2, *self.spec.input_shape), dtype=getattr(torch, self.spec.input_dtype), device=self.device
        )
        inputs = zeros.float() if zeros.dtype == torch.uint8 else zeros
        self.model.eval()
        try:
            with torch.no_grad():
                logits = self.model(inputs)
        except Exception as error:  # whatever a model raises on inputs it does not fit
            shape = list(self.spec.input_shape)
            raise ConfigError(
                "boss.model", self.config.model, f"does not fit inputs of shape {shape}: {error}"
            ) from error
        finally:
            self.model.train()
        found, needed = list(getattr(logits, "shape", [])), [2, self.spec.classes]
        if found != needed:
            raise ConfigError(
                "boss.model", self.config.model, f"returns shape {found} for 2 instances; needed: {needed}"
            )

    between_steps = True

    def state(self) -> State:
        tensors = {f"model.{k}": v for k, v in self.model.state_dict().items()}
        for i, values in self.stepper.optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{i}.{k}": v for k, v in values.items() if isinstance(v, torch.Tensor)}
        return State(tensors, {"steps": self.stepper.steps, "trained": self.trained})

    def load(self, state: State) -> None:
        model = {k[6:]: v for k, v in state.tensors.items() if k.startswith("model.")}
        self.model.load_state_dict(model)
        optimizer = self.stepper.optimizer.state_dict()
        for key, value in state.tensors.items():
            if key.startswith("optimizer."):
                _, i, name = key.split(".")
                optimizer["state"].setdefault(int(i), {})[name] = value
        self.stepper.optimizer.load_state_dict(optimizer)
        for _ in range(state.plain["steps"]):
            assert self.stepper.schedule is not None
            self.stepper.schedule.step()
        self.stepper.steps, self.trained = state.plain["steps"], state.plain["trained"]

    def train(
        self,
        stream: Batches,
        report: LossOutlet,
        record: Callable[[str, dict[str, Value]], None],
        after_batch: Callable[[Batch], None] = lambda batch: None,
    ) -> None:
        """Takes every batch of `stream`: trains on it, or evaluates."""
        for batch in stream:
            if batch.kind == "train":
                self.train_step(batch, report)
                after_batch(batch)
            else:
                self.evaluate_step(batch, record)
            stream.release(batch)
        report.flush(wait=True)

    def train_step(self, batch: Batch, report: LossOutlet) -> None:
        if batch.version:
            self.max_lag = max(self.max_lag, self.stepper.steps + 1 - batch.version_step)
        losses = self.stepper.step(*self.prepare(batch))
        self.trained += len(batch.ids)
        report.report(batch, self.stepper.steps, losses)

    def evaluate_step(self, batch: Batch, record: Callable[[str, dict[str, Value]], None]) -> None:
        if self._evaluating is None:
            self._evaluating = Evaluation(self.spec.classes, self.device)
        inputs, targets, _ = self.prepare(batch)
        self.model.eval()
        with torch.no_grad():
            self._evaluating.add(self.model(inputs), targets)
        self.model.train()
        if batch.last:
            result = {f"{batch.kind}_{name}": value for name, value in self._evaluating.result().items()}
            self._evaluating = None
            self.evaluation |= result
            where: dict[str, Value] = {"trained": self.trained, "step": self.stepper.steps}
            record("eval", {**where, "boss_epochs": self.boss_epochs, **result})

    @property
    def boss_epochs(self) -> float:
        return self.trained / self.spec.train_size

    def metrics(self) -> dict[str, Value]:
        """Where training stands."""
        return {
            "step": self.stepper.steps,
            "trained": self.trained,
            "boss_epochs": self.boss_epochs,
            "max_lag": self.max_lag,
            "lr": float(self.stepper.optimizer.param_groups[0]["lr"]),
            **self.evaluation,
        }


def _device(name: str) -> torch.device:
    """The device that `boss.device` names; raises ConfigError when it is not there."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).splitlines()[0]
        raise ConfigError(
            "boss.device", name, f"cannot be used here ({reason}); allowed: auto, cpu, cuda, cuda:N"
        ) from None
    return device


def device_name(device: torch.device) -> str:
    """What `device` is: "cpu", or the name of the GPU."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
