"""Number formats: automatic mixed precision, TensorFloat-32, memory formats."""

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor, nn

from boss.config import BossConfig

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


class Precision:
    """What `boss.amp`, `boss.tf32` and `boss.channels_last` ask for on `device`."""

    def __init__(self, config: BossConfig, device: torch.device) -> None:
        self._amp, self._device, self._channels_last = config.amp, device, config.channels_last
        if device.type == "cuda":
            torch.set_float32_matmul_precision("high" if config.tf32 else "highest")
            torch.backends.cudnn.allow_tf32 = config.tf32

    def model(self, model: nn.Module) -> nn.Module:
        """`model` on the device, in its memory format."""
        if self._channels_last:
            # Type stubs have no overload of Module.to with a memory format alone.
            return model.to(self._device, memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]
        return model.to(self._device)

    def inputs(self, inputs: Tensor) -> Tensor:
        """`inputs` [B, ...] in the model's memory format."""
        if self._channels_last and inputs.ndim == 4:
            return inputs.contiguous(memory_format=torch.channels_last)
        return inputs

    def autocast(self) -> AbstractContextManager[None]:
        """Where a forward pass belongs."""
        if self._amp == "off":
            return nullcontext()
        return torch.autocast(self._device.type, dtype=DTYPES[self._amp])

    def scaler(self) -> torch.amp.GradScaler:
        """Scales losses in fp16, and is transparent otherwise."""
        return torch.amp.GradScaler(self._device.type, enabled=self._amp == "fp16")


def full(tensor: Tensor) -> Tensor:
    """`tensor` in float32, unless it is wider: losses are computed in full precision."""
    return tensor if tensor.dtype == torch.float64 else tensor.float()
