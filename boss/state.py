"""The state of a Trainer: tensors by name, and the rest as JSON."""

from dataclasses import dataclass
from typing import Any

from torch import Tensor


@dataclass(frozen=True)
class State:
    """What another Trainer needs to go on from here."""

    tensors: dict[str, Tensor]
    plain: dict[str, Any]
