"""What the Assistant learns with: one interface for both kinds of model."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import torch

from proto.messages import Value
from proto.types import Array, Float32s, Int64s


@dataclass(frozen=True)
class Lesson:
    """One batch to learn from: features float32 [n, D], labels int64 [n], finite losses float32 [n].

    `records` are the ledger's, from before the batch was trained; `wanted` [n] as in `Features`; `step` is the Boss's,
    `mean_loss` the running mean that losses are compared with.
    """

    features: Float32s
    labels: Int64s
    losses: Float32s
    wanted: Float32s
    records: Mapping[str, Array]
    step: int
    mean_loss: float


def aligned(array: Array) -> torch.Tensor:
    """A copy of `array` in memory that torch has allocated.

    The last bits of a product can depend on where in memory its factors begin, and arrays of numpy begin anywhere.
    """
    return torch.from_numpy(array).clone()


class Model(Protocol):
    """Something that learns online which losses are high."""

    def learn(self, lesson: Lesson) -> float:
        """Learns from one batch; the accuracy of what it would have said on it before: "above the mean"."""
        ...

    def arrays(self) -> dict[str, Array]:
        """What `proto.scorer` scores with."""
        ...

    def adopt(self, arrays: Mapping[str, Array]) -> None:
        """Goes on with the `arrays` of another one, with an optimizer that begins anew."""
        ...

    def state(self) -> dict[str, Array]:
        """What another one needs to go on from here."""
        ...

    def load(self, arrays: Mapping[str, Array]) -> None:
        """Takes over what `state` gave."""
        ...

    def metrics(self) -> dict[str, Value]: ...
