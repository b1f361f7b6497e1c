"""One of everything on two instances before training begins, so that what cannot work is said at once, in one line."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from boss.config import BossConfig
from boss.evaluate import Evaluation
from boss.state import gather, spread
from boss.step import Preparer, Stepper, named_arrays
from proto.control import DataSpec
from proto.errors import RAISED, ConfigError, raised

INSTANCES = 2
"""The smallest batch that batch norm can train on; no batch is smaller where any is as large."""


def sample(spec: DataSpec, prepare: Preparer, device: torch.device) -> Tensor:
    """Two inputs like those of `spec`, normalised: noise where they are numbers, zeros where they are ids."""
    shape = (INSTANCES, *spec.input_shape)
    noise = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    if spec.input_dtype == "uint8":
        noise = noise.mul(64).add(128).clamp(0, 255)
    elif not spec.input_dtype.startswith("float"):
        noise = torch.zeros(shape)
    return prepare.normalise(noise.to(getattr(torch, spec.input_dtype)).to(device))


def sample_beside(spec: DataSpec, device: torch.device) -> dict[str, Tensor]:
    """What else travels with two such inputs: true and 1, and of lengths the largest."""
    found = {}
    for name, (dtype, shape) in spec.beside.items():
        value = spec.input_shape[0] if name == "lengths" and spec.input_shape else 1
        found[name] = torch.full((INSTANCES, *shape), value, dtype=getattr(torch, dtype), device=device)
    return found


def try_forward(model: nn.Module, config: BossConfig, spec: DataSpec, inputs: Tensor) -> Tensor:
    """Logits [2, C] of `inputs`, without a trace: does the model fit the data? Raises ConfigError."""
    model.eval()
    beside = sample_beside(spec, inputs.device)
    try:
        with torch.no_grad():
            logits = model(inputs, **{name: beside[name] for name in named_arrays(model, spec)})
    except RAISED as error:  # whatever a model raises on inputs it does not fit
        problem = f"does not fit inputs of shape {list(spec.input_shape)}: {raised(error)}"
        if not inputs.is_floating_point():
            problem += (
                f" (inputs are {spec.input_dtype}, as token ids are; let the data set give float32 if they are not)"
            )
        raise ConfigError("boss.model", config.model, problem) from error
    finally:
        model.train()
    found = list(getattr(logits, "shape", []))
    # What a loss of one's own makes of targets that are no class numbers is its own affair.
    needed = [INSTANCES, spec.classes if spec.classes else "..."]
    if not isinstance(logits, Tensor) or (found != needed if spec.classes else found[:1] != [INSTANCES]):
        what = f"shape {found}" if isinstance(logits, Tensor) else f"a {type(logits).__name__}"
        problem = f"returns {what} for {INSTANCES} instances; needed: a tensor of shape {needed}"
        raise ConfigError("boss.model", config.model, problem)
    return logits


def dry_run(stepper: Stepper, spec: DataSpec, inputs: Tensor, logits: Tensor) -> None:
    """Trains on `inputs` for one step, evaluates, takes and loads the state; then everything is as it was before.

    `logits` are those of `inputs`. Raises ConfigError for what fails.
    """
    shape, dtype = (INSTANCES, *spec.target_shape), getattr(torch, spec.target_dtype)
    targets, beside = torch.zeros(shape, dtype=dtype, device=stepper.device), sample_beside(spec, stepper.device)
    weights = torch.ones(INSTANCES, device=stepper.device)
    stepper.criterion.check(logits, targets)
    before, n = gather(stepper), min(INSTANCES, spec.max_batch)
    few = f"on {n} instances" if n > 1 else "on 1 instance, which is all there is to a batch here"
    try:
        with _phase(f"forward and backward pass failed {few}", stepper.config):
            stepper.forward_backward(
                inputs[:n], targets[:n], weights[:n], {name: values[:n] for name, values in beside.items()}
            )
        with _phase(f"optimizer step failed {few}", stepper.config):
            stepper.step()
        with _phase(f"evaluation failed {few}", stepper.config):
            evaluation = Evaluation(spec.classes, stepper.device, stepper.criterion.plain)
            evaluation.add(stepper.predict(inputs, beside), targets)
            evaluation.result()
        with _phase(f"saving and loading the state failed {few}", stepper.config):
            spread(gather(stepper), stepper)
    finally:
        spread(before, stepper)


@contextmanager
def _phase(what: str, config: BossConfig) -> Iterator[None]:
    try:
        yield
    except ConfigError:
        raise
    except RAISED as error:  # whatever model, loss or device raise: before training it is the user's to mend
        raise ConfigError("boss.model", config.model, f"the {what}: {raised(error)}") from error
