"""An exponential moving average of a model's weights."""

import copy

import torch
from torch import Tensor, nn


class Ema:
    """A copy of `model` whose parameters and float buffers follow the model's: e = decay x e + (1 - decay) x w.

    The same average as torch.optim.swa_utils.AveragedModel with get_ema_multi_avg_fn and use_buffers, which begins as
    a copy of the weights after the first step. That class cannot be used here: its count lives on the host, so each
    update would wait for the device, and a suppressed step could not be left out.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.model = copy.deepcopy(model).requires_grad_(False).eval()
        self._decay = decay
        device = next((parameter.device for parameter in model.parameters()), None)
        self.count = torch.zeros((), dtype=torch.int64, device=device)
        """Updates so far, on the device."""
        pairs = list(zip(_tensors(self.model), _tensors(model), strict=True))
        self._floats = [(mine, theirs) for mine, theirs in pairs if mine.is_floating_point()]
        self._others = [(mine, theirs) for mine, theirs in pairs if not mine.is_floating_point()]

    @torch.no_grad()
    def update(self, failed: Tensor) -> None:
        """Follows the model, unless the step `failed`, bool [] on the device."""
        rate = torch.where(self.count == 0, 1.0, 1 - self._decay) * failed.logical_not()
        ours = [mine for mine, _ in self._floats]
        way = torch._foreach_sub([theirs for _, theirs in self._floats], ours)
        torch._foreach_mul_(way, rate)
        torch._foreach_add_(ours, way)
        for mine, theirs in self._others:
            mine.copy_(theirs)
        self.count += failed.logical_not()


def _tensors(model: nn.Module) -> list[Tensor]:
    return [*(parameter.detach() for parameter in model.parameters()), *model.buffers()]
