"""The complete state of a Trainer between two optimizer steps: tensors and JSON, nothing else."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from boss.step import Stepper


@dataclass(frozen=True)
class State:
    """What exact resume needs. Tensors are on the CPU and share no memory with the Trainer or with one another."""

    tensors: dict[str, Tensor]
    plain: dict[str, Any]
    """JSON."""


def gather(stepper: Stepper) -> State:
    """The state of `stepper`, between steps. Waits for the device."""
    assert not stepper.window, "a window is under way"
    stepper.health.look(wait=True)
    tensors = {name: tensor.detach().to("cpu", copy=True) for name, tensor in _tensors(stepper)}
    for name, parameter in stepper.model.named_parameters():
        for key, value in stepper.optimizer.state.get(parameter, {}).items():
            tensors[f"optimizer.{name}.{key}"] = value.detach().to("cpu", copy=True)
    tensors |= _random_states(stepper)
    health = stepper.health
    return State(
        tensors,
        {
            "steps": stepper.steps,
            "batches": stepper.batches,
            "trained": stepper.trained,
            "losses_masked": health.masked,
            "steps_suppressed": health.suppressed,
            "dead": health.dead,
            "scaler": stepper.scaler.state_dict(),
        },
    )


def spread(state: State, stepper: Stepper) -> None:
    """Makes `stepper` go on where `state` was taken. Raises ValueError when it is the state of another model."""
    tensors = dict(state.tensors)
    with torch.no_grad():
        for name, tensor in _tensors(stepper):
            found = _take(tensors, name)
            if found.shape != tensor.shape or found.dtype != tensor.dtype:
                raise ValueError(f"the state has {name} of {_kind(found)} where the model has {_kind(tensor)}")
            tensor.copy_(found)
    _set_random_states(stepper, tensors)
    stepper.optimizer.state.clear()
    parameters = dict(stepper.model.named_parameters())
    for name in [name for name in tensors if name.startswith("optimizer.")]:
        of, _, key = name.removeprefix("optimizer.").rpartition(".")
        if of not in parameters:
            raise ValueError(f"the state has {name}, which the model has no parameter for")
        # In the parameter's memory format: fused optimizers walk all of a parameter's tensors in the order of memory.
        found, parameter = tensors.pop(name), parameters[of]
        like = parameter if found.shape == parameter.shape else found
        stepper.optimizer.state[parameter][key] = torch.empty_like(
            like, dtype=found.dtype, device=parameter.device, requires_grad=False
        ).copy_(found)
    if tensors:
        raise ValueError(f"the state has {next(iter(tensors))}, which the model has not")
    plain = state.plain
    if plain["scaler"]:
        stepper.scaler.load_state_dict(plain["scaler"])
    stepper.resume(
        plain["steps"],
        plain["batches"],
        plain["trained"],
        masked=plain["losses_masked"],
        suppressed=plain["steps_suppressed"],
        dead=plain["dead"],
    )


def numbers_to_json(values: dict[str, Any]) -> dict[str, Any]:
    """Strict JSON has no NaN and no infinity: they become None."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value for name, value in values.items()
    }


def numbers_from_json(values: dict[str, Any]) -> dict[str, Any]:
    return {name: math.nan if value is None else value for name, value in values.items()}


def _tensors(stepper: Stepper) -> Iterator[tuple[str, Tensor]]:
    """Every tensor of fixed shape that training changes; shared ones once."""
    yield from _named("model", stepper.model)
    if stepper.ema is not None:
        yield from _named("ema", stepper.ema.model)
        yield "ema_count", stepper.ema.count


def _named(prefix: str, model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    # Not state_dict: buffers that are not persistent also change in training.
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        yield f"{prefix}.{name}", tensor


def _random_states(stepper: Stepper) -> dict[str, Tensor]:
    states = {"random.cpu": torch.get_rng_state()}
    if stepper.device.type == "cuda":
        states["random.cuda"] = torch.cuda.get_rng_state(stepper.device)
    return states


def _set_random_states(stepper: Stepper, tensors: dict[str, Tensor]) -> None:
    torch.set_rng_state(_take(tensors, "random.cpu"))
    cuda = tensors.pop("random.cuda", None)
    if cuda is not None and stepper.device.type == "cuda":
        torch.cuda.set_rng_state(cuda, stepper.device)


def _take(tensors: dict[str, Tensor], name: str) -> Tensor:
    if name not in tensors:
        raise ValueError(f"the state has no {name}; it is of another model or configuration")
    return tensors.pop(name)


def _kind(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"
