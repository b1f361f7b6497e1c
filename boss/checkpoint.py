"""What the Boss keeps on disk."""

import os
from pathlib import Path

from safetensors.torch import save_model
from torch import nn


def save_weights(model: nn.Module, path: Path) -> None:
    """Writes the weights of `model` as safetensors, whole or not at all."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        save_model(model, str(partial))
        with partial.open("rb") as file:
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
