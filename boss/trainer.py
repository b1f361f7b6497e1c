"""The Boss's core: a stream of batches in, loss reports and metrics out. Knows no socket."""

from collections.abc import Callable, Iterator
from typing import Protocol

import torch
from torch import nn

from boss.augment import make_augmenter
from boss.config import MODELS, BossConfig
from boss.copier import make_copier
from boss.dry_run import dry_run, sample, try_forward
from boss.evaluate import Evaluation
from boss.outlet import LossOutlet
from boss.precision import Precision
from boss.state import State, gather, numbers_from_json, numbers_to_json, spread
from boss.step import Preparer, Stepper
from proto.batches import Batch
from proto.config import RunConfig
from proto.control import DataSpec
from proto.errors import ConfigError
from proto.messages import Value
from proto.resolver import make

Recorder = Callable[[str, dict[str, Value]], None]


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
        precision = Precision(config, self.device)
        self.model = precision.model(_model(config, spec))
        copier = make_copier(self.device, pin_memory=config.pin_memory)
        self.prepare = Preparer(spec, self.device, copier, make_augmenter(config, spec, run.seed))
        inputs = sample(spec, self.prepare, self.device)
        # Before the optimizer: a lazy module has no parameters until its first forward.
        logits = try_forward(self.model, config, spec, inputs)
        self.stepper = Stepper(self.model, config, spec, precision, run.seed)
        dry_run(self.stepper, spec, inputs, logits)
        if config.compile:
            # In place, so that parameters keep their names; after the dry run, whose batch size is not the run's.
            self.model.compile()
        self.max_lag = 0
        self.evaluation: dict[str, Value] = {}
        self.best = float("-inf")
        """Best validation accuracy so far; the negative of the smallest loss where there are no classes."""
        self.improved = False
        """Whether the newest evaluation of the validation split was the best so far; set before it is recorded."""
        self._evaluating: Evaluation | None = None
        self._evaluated_of = 0
        """Incarnation of the Batcher whose batches it is made of."""

    @property
    def evaluated(self) -> nn.Module:
        """The model that evaluations speak of, and that is worth saving: the average with `boss.ema`."""
        return self.stepper.evaluated

    def train(
        self,
        stream: Batches,
        report: LossOutlet,
        record: Recorder,
        after_batch: Callable[[Batch], None] = lambda batch: None,
    ) -> None:
        """Takes every batch of `stream`: trains on it, or evaluates.

        A batch is released once its copy to the device has ended. `after_batch` is called after each training batch,
        its report made. Raises RuntimeError when the losses are not finite any more.
        """
        copier = self.prepare.copier
        under_way = min(self.config.slots - 1, 1)  # with one slot the stream has no batch until it is released
        for batch in stream:
            if batch.kind == "train":
                self.train_step(batch, report)
            else:
                self.evaluate_step(batch, record)
            for copied in copier.finished(under_way):
                stream.release(copied)
            if batch.kind == "train":
                after_batch(batch)
        if self.stepper.window:  # the stream ended early: what was reported as trained is
            self.stepper.step()
        report.flush(wait=True)
        for copied in copier.finished(0):
            stream.release(copied)

    def train_step(self, batch: Batch, report: LossOutlet) -> None:
        """Adds `batch` to the optimizer step under way, and takes the step when its last batch is there."""
        if batch.version:
            self.max_lag = max(self.max_lag, self.stepper.steps + 1 - batch.version_step)
        losses = self.stepper.forward_backward(*self.prepare(batch))
        report.report(batch, self.stepper.steps + 1, losses)
        if self.stepper.window_full or batch.last:
            self.stepper.step()
        self.stepper.check()

    def evaluate_step(self, batch: Batch, record: Recorder) -> None:
        """Evaluates `batch`; records the metrics of its split with the last one."""
        if self._evaluating is None or batch.incarnation != self._evaluated_of:
            # A Batcher that was started anew makes an evaluation that was cut off again, from its beginning.
            self._evaluated_of = batch.incarnation
            self._evaluating = Evaluation(self.spec.classes, self.device, self.stepper.criterion.plain)
        inputs, targets, _, beside = self.prepare(batch)
        self._evaluating.add(self.stepper.predict(inputs, beside), targets)
        if batch.last:
            result = {f"{batch.kind}_{name}": value for name, value in self._evaluating.result().items()}
            self._evaluating = None
            self.evaluation |= {**result, f"{batch.kind}_boss_epochs": self.boss_epochs}
            if batch.kind == "validation":
                score = result["validation_accuracy"] if self.spec.classes else result["validation_loss"]
                assert isinstance(score, float)
                score = score if self.spec.classes else -score
                self.improved = score > self.best
                self.best = max(self.best, score)
            where: dict[str, Value] = {"trained": self.trained, "step": self.stepper.steps}
            record("eval", {**where, "boss_epochs": self.boss_epochs, **result})

    @property
    def between_steps(self) -> bool:
        """True when no optimizer step is under way: only then `state` can be taken."""
        return not self.stepper.window

    def state(self) -> State:
        """All that exact resume needs; an evaluation under way is made again. Waits for the device."""
        state = gather(self.stepper)
        mine = {"max_lag": self.max_lag, "improved": self.improved}
        numbers = numbers_to_json({"best": self.best, **self.evaluation})
        return State(state.tensors, {**state.plain, **mine, "evaluation": numbers})

    def load(self, state: State) -> None:
        """Goes on where `state` was taken. Raises ValueError when it is the state of another model."""
        spread(state, self.stepper)
        plain = state.plain
        self.max_lag, self.improved = plain["max_lag"], plain["improved"]
        self.evaluation = numbers_from_json(plain["evaluation"])
        best = self.evaluation.pop("best")
        self.best = best if isinstance(best, float) and best == best else float("-inf")

    @property
    def trained(self) -> int:
        """Instances trained."""
        return self.stepper.trained

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
            "steps_suppressed": self.stepper.health.suppressed,
            "losses_masked": self.stepper.health.masked,
            **self.evaluation,
        }


def _model(config: BossConfig, spec: DataSpec) -> nn.Module:
    """The model that `boss.model` names; raises ConfigError."""
    model = make("boss.model", config.model, MODELS, {"spec": spec}, config.args)
    if not isinstance(model, nn.Module):
        raise ConfigError("boss.model", config.model, f"returned a {type(model).__name__}; needed: a torch.nn.Module")
    return model


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
