"""One optimizer step: batches -> forward, loss, backward, each adding to the gradient -> step."""

import inspect
import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_

from boss.augment import Augmenter
from boss.config import BossConfig
from boss.copier import Copier, PlainCopier, bring_few
from boss.ema import Ema
from boss.health import PATIENCE, BufferGuard, Health, finite
from boss.losses import Criterion
from boss.mixing import Mixer
from boss.optim import Schedule, make_optimizer
from boss.precision import Precision, full
from proto.batches import Batch
from proto.control import DataSpec

EMPTY: Mapping[str, Tensor] = MappingProxyType({})


class Preparer:
    """Brings a batch to the device as tensors, uint8 inputs as normalised floats, augmented if it is for training."""

    def __init__(
        self,
        spec: DataSpec,
        device: torch.device,
        copier: Copier | None = None,
        augmenter: Augmenter | None = None,
    ) -> None:
        self.copier: Copier = copier or PlainCopier(device)
        self._device, self._augmenter = device, augmenter
        # Normalising k/255 by mean and deviation is one multiply and one add on k.
        shape = (-1, *[1] * (len(spec.input_shape) - 1))
        mean, std = torch.tensor(spec.mean or (0.0,)), torch.tensor(spec.std or (1.0,))
        self._factor = (1 / (255 * std)).reshape(shape).to(device)
        self._offset = (-mean / std).reshape(shape).to(device)

    def __call__(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor, dict[str, Tensor]]:
        """Inputs [B, ...], targets [B, ...], instance weights float32 [B] of `batch`, and what else it brings."""
        arrays = self.copier.bring(batch)
        inputs, targets, weights = (arrays.pop(name) for name in ("inputs", "targets", "weights"))
        if self._augmenter is None or batch.kind != "train":
            return self.normalise(inputs), targets, weights, arrays
        drawn = bring_few(self._augmenter.draw(batch.passes_of, batch.ids), self._device)
        inputs = self._augmenter.cut(self.normalise(self._augmenter.move(inputs, drawn)), drawn)
        return inputs, targets, weights, arrays

    def normalise(self, inputs: Tensor) -> Tensor:
        if inputs.dtype == torch.uint8:
            return inputs.float().mul_(self._factor).add_(self._offset)
        return inputs


class Stepper:
    """Model, optimizer and schedule, and the steps they take together.

    `forward_backward` takes one batch and adds to the gradient; `step` ends the *window* of the batches since the step
    before. What one step does depends on its instances and their weights alone, not on how they came in batches and
    parts of batches (batch norm's statistics, dropout and mixing apart).
    """

    def __init__(self, model: nn.Module, config: BossConfig, spec: DataSpec, precision: Precision, seed: int) -> None:
        """Trains `model`, which is on its device; raises ConfigError when loss or mixing cannot be."""
        self.model, self.config, self.precision = model, config, precision
        self.criterion, self._mixer = Criterion(config), Mixer(config, spec, seed)
        self.named = named_arrays(model, spec)
        self.optimizer = make_optimizer(model, config)
        self._spec, self._expected = spec, math.ceil(spec.train_batches / config.accumulate)
        self.schedule = Schedule(self.optimizer, config, self._expected)
        self.scaler = precision.scaler()
        self.ema = Ema(model, config.ema) if config.ema else None
        self.batches = self.window = self.trained = 0
        """Batches trained: in all, and in the window under way; instances trained."""
        self._parameters = [parameter for group in self.optimizer.param_groups for parameter in group["params"]]
        self.device = self._parameters[0].device
        self.health = Health(self.device)
        self._never = torch.zeros((), dtype=torch.bool, device=self.device)
        self._guard = BufferGuard(model)
        self._attempts = 0
        self._totals: list[Tensor] = []
        """Weight of the instances with a finite loss, of each piece in the window."""
        self._divisor: int | None = None

    @property
    def steps(self) -> int:
        """Optimizer steps taken. A suppressed one is none, as soon as the host knows of it."""
        return self._attempts - self.health.suppressed

    @property
    def window_full(self) -> bool:
        return self.window == self.config.accumulate

    def forward_backward(
        self, inputs: Tensor, targets: Tensor, weights: Tensor, beside: Mapping[str, Tensor] = EMPTY
    ) -> Tensor:
        """Adds a batch to the window; returns its reported losses float [B] (see `Criterion`), detached. `beside` is
        what else the batch brings: the model is given what it names.

        A loss that is not finite contributes nothing, and its weight leaves the total.
        """
        parts = part_count(len(targets), self.config.microbatch)
        if not self.window:
            self._forget_gradients()
            self._guard.keep()
            self._totals = []
            # The total weight of several pieces is known after the last one. Until then their gradients are divided by
            # about what it will be, since mere sums would overflow in fp16.
            self._divisor = len(targets) * self.config.accumulate if parts > 1 or self.config.accumulate > 1 else None
        elif self._divisor is None:
            raise AssertionError("a window of one batch got a second one")
        inputs, share = self._mixer(inputs, self.batches)
        batch = (inputs, targets, weights, targets if share == 1.0 else targets.roll(1, 0), *self._chosen(beside))
        pieces = [batch] if parts == 1 else list(zip(*(tensor.tensor_split(parts) for tensor in batch), strict=True))
        losses, counts = zip(*(self._piece(*piece, share=share) for piece in pieces), strict=True)
        self.health.batch(len(targets), sum(counts[1:], start=counts[0]))
        self.window += 1
        self.batches += 1
        self.trained += len(targets)
        return _joined(losses)

    def _chosen(self, beside: Mapping[str, Tensor]) -> list[Tensor]:
        return [beside[name] for name in self.named]

    def _piece(
        self, inputs: Tensor, targets: Tensor, weights: Tensor, partners: Tensor, *beside: Tensor, share: float
    ) -> tuple[Tensor, Tensor | int]:
        """Forward and backward of what goes through the model at once; reported losses [B], and how many are finite."""
        with self.precision.autocast():
            logits = self.model(self.precision.inputs(inputs), **dict(zip(self.named, beside, strict=True)))
        trained, reported = self.criterion(logits, targets, partners, share)
        losses, weights = trained.detach(), weights.to(trained.dtype)
        count: Tensor | int = len(losses)
        if not self.health.sure([losses]):
            counts = finite(losses)
            count = counts.sum()
            # The masked losses' own derivatives may be NaN, and NaN times 0 is NaN: they must not get past the logits.
            rows = counts.reshape(-1, *[1] * (logits.ndim - 1))
            logits.register_hook(lambda gradient: gradient.where(rows, 0))
            weights = weights.where(counts, 0)
        total = weights.sum()
        # The derivative of the mean by weight with respect to each loss: cheaper than to write that mean out.
        shares = weights / (total if self._divisor is None else self._divisor)
        trained.backward(self.scaler.scale(shares))  # type: ignore[no-untyped-call]
        self._totals.append(total)
        return reported, count

    def step(self) -> None:
        """Ends the window: one optimizer step on the mean over its instances, by weight.

        Without a finite loss, or with a gradient that is not finite, it is suppressed on the device: parameters,
        buffers, optimizer, schedule, average and step count stay as they were.
        """
        self.scaler.unscale_(self.optimizer)
        total = _summed(self._totals)
        gradients = [parameter.grad for parameter in self._parameters if parameter.grad is not None]
        if self._divisor is not None:
            torch._foreach_mul_(gradients, self._divisor / total)
        if self.config.clip_norm:
            norms: Sequence[Tensor] = [clip_grad_norm_(self._parameters, self.config.clip_norm)]
        else:
            norms = torch._foreach_norm(gradients)
        # Without weight the reciprocal is infinite.
        numbers = [*norms, total.reciprocal().to(norms[0].dtype)]
        sure = self.health.sure(numbers)
        failed = self._never if sure else finite(torch.stack(numbers)).all().logical_not()
        self.optimizer.found_inf = None if sure else failed.float()  # type: ignore[attr-defined]
        self.optimizer.step()
        self.scaler.update()
        if not sure:
            self._guard.restore(failed)
        if self.ema is not None:
            self.ema.update(failed)
        self.health.step(failed)
        self._attempts += 1
        self.window = 0
        # In fp16 steps are left out as a matter of course, so there the schedule waits for the flag.
        self.health.look(wait=self.scaler.is_enabled())
        self.schedule.set(self._progress)

    @property
    def _progress(self) -> float:
        """Where the schedule stands, in optimizer steps.

        Where batches are cut by positions their number is not known before. Then it is the share of the instances that
        is trained, in as many steps as are expected.
        """
        return self._expected * self.trained / self._spec.train_total if self._spec.max_tokens else self.steps

    @property
    def evaluated(self) -> nn.Module:
        """What predicts: the average of the model if there is one."""
        return self.model if self.ema is None else self.ema.model

    def predict(self, inputs: Tensor, beside: Mapping[str, Tensor] = EMPTY) -> Tensor:
        """Logits float [B, C] of `inputs` in evaluation mode; `beside` as for `forward_backward`."""
        self.evaluated.eval()
        named = dict(zip(self.named, self._chosen(beside), strict=True))
        with torch.no_grad(), self.precision.autocast():
            logits: Tensor = self.evaluated(self.precision.inputs(inputs), **named)
        self.model.train()
        return full(logits)

    def check(self) -> None:
        """Raises RuntimeError once the run cannot recover."""
        self.health.look()
        if self.health.over:
            raise RuntimeError(
                f"step {self.steps + 1}: {PATIENCE} batches in a row had no finite loss; "
                "a smaller boss.lr, boss.clip_norm, or boss.amp = bf16 in place of fp16 may help"
            )

    def resume(self, steps: int, batches: int, trained: int, *, masked: int, suppressed: int, dead: int) -> None:
        """Goes on from these counts, at the beginning of a window."""
        self.health.load(masked, suppressed, dead)
        self._attempts, self.batches, self.trained, self.window = steps + suppressed, batches, trained, 0
        self._forget_gradients()
        self.schedule.set(self._progress)

    def _forget_gradients(self) -> None:
        # As zero_grad of the optimizer, less what that spends on profiling itself.
        for parameter in self._parameters:
            parameter.grad = None


def named_arrays(model: nn.Module, spec: DataSpec) -> list[str]:
    """The arrays beside inputs and targets that `model` is given: those that are parameters of its `forward`."""
    return [name for name in spec.beside if name in inspect.signature(model.forward).parameters]


def part_count(size: int, most: int) -> int:
    """Into how many even parts a batch of `size` is split so that each has at most `most` instances (0: any).

    No part has one instance, on which batch norm cannot train: 3 instances stay together even with `most` = 2.
    """
    return max(min(math.ceil(size / most), size // 2), 1) if most else 1


def _joined(tensors: Sequence[Tensor]) -> Tensor:
    return tensors[0] if len(tensors) == 1 else torch.cat(list(tensors))


def _summed(totals: Sequence[Tensor]) -> Tensor:
    return totals[0] if len(totals) == 1 else torch.stack(list(totals)).sum()
