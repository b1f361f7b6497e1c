"""One optimizer step: batch -> forward -> weighted mean of the losses -> backward -> step."""

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from boss.config import BossConfig
from proto.messages import Batch, DataSpec


class Preparer:
    """Brings a batch to the device as tensors, uint8 inputs as normalised floats."""

    def __init__(self, spec: DataSpec, device: torch.device) -> None:
        self.device = device
        # Normalising k/255 by mean and deviation is one multiply and one add on k.
        shape = (-1, *[1] * (len(spec.input_shape) - 1))
        mean, std = torch.tensor(spec.mean or (0.0,)), torch.tensor(spec.std or (1.0,))
        self._factor = (1 / (255 * std)).reshape(shape).to(device)
        self._offset = (-mean / std).reshape(shape).to(device)

    def __call__(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """Inputs [B, ...], targets int64 [B] and instance weights float32 [B] of `batch`."""
        inputs, targets, weights = (
            # A copy: the arrays are read-only views of what the transport lent us.
            torch.tensor(array, device=self.device)
            for array in (batch.arrays["inputs"], batch.arrays["targets"], batch.weights)
        )
        if inputs.dtype == torch.uint8:
            inputs = torch.addcmul(self._offset, inputs.float(), self._factor)
        return inputs, targets, weights


class Stepper:
    """Model, optimizer and schedule, and the step they take together."""

    def __init__(self, model: nn.Module, config: BossConfig, total_steps: int) -> None:
        self.model = model
        self.optimizer = torch.optim.SGD(
            model.parameters(),
            lr=config.lr,
            momentum=config.momentum,
            nesterov=config.momentum > 0,
            weight_decay=config.weight_decay,
        )
        self.schedule: torch.optim.lr_scheduler.LRScheduler | None = None
        if config.schedule == "one_cycle":
            self.schedule = torch.optim.lr_scheduler.OneCycleLR(
                self.optimizer, config.lr, total_steps=total_steps + 1, cycle_momentum=False
            )
        self.steps = 0

    def step(self, inputs: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
        """Trains on one batch; returns its unweighted per-instance losses float [B], detached."""
        losses = cross_entropy(self.model(inputs).float(), targets, reduction="none")
        loss = (losses * weights).sum() / weights.sum()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        if self.schedule is not None:
            self.schedule.step()
        self.steps += 1
        return losses.detach()
