"""Configuration of the Boss: `[boss]`, and the built-in models."""

from typing import Any, Literal

from pydantic import Field

from proto.config import Section
from proto.resolver import Builtin

MODELS = {
    "small_cnn": Builtin("boss.models:small_cnn", "two 3x3 convolutions and two linear layers, for small images"),
    "mlp": Builtin("boss.models:mlp", "two hidden layers, for any input shape"),
    "linear": Builtin("boss.models:linear", "multinomial logistic regression, for any input shape"),
}


class BossConfig(Section):
    """The Boss."""

    model: str = "small_cnn"
    """Built-in name (see `autoassist models`), `package.module:callable` or `./file.py:callable`."""
    args: dict[str, Any] = Field(default_factory=dict)
    """Further arguments of the model's callable."""
    device: str = "auto"
    """Where the model is trained: "auto" (the GPU if there is one), "cpu", "cuda", "cuda:1", ..."""
    threads: int = Field(default=0, ge=0, le=1024)
    """CPU threads torch computes with; 0 leaves it to torch."""
    lr: float = Field(default=0.05, gt=0, allow_inf_nan=False)
    """Largest learning rate of the schedule."""
    momentum: float = Field(default=0.9, ge=0, lt=1)
    """Momentum of SGD (Nesterov's when above 0)."""
    weight_decay: float = Field(default=5e-4, ge=0, allow_inf_nan=False)
    """Weight decay of SGD."""
    schedule: Literal["constant", "one_cycle"] = "one_cycle"
    """Learning rate over the run's optimizer steps."""
    eval_every: float = Field(default=1.0, ge=0, allow_inf_nan=False)
    """Evaluate on the test split each time so many Boss epochs are trained; 0: only at the end."""
    checkpoint_every: float = Field(default=1.0, ge=0, allow_inf_nan=False)
    """Write a checkpoint each time so many Boss epochs are trained, and when stopped by a signal; 0: never."""
    slots: int = Field(default=4, ge=1, le=4096)
    """Batches on their way to the Boss at one time."""
    loss_queue: int = Field(default=256, ge=1, le=1_000_000)
    """Loss reports kept while the Assistant is not reading; then the oldest is dropped, and counted."""
