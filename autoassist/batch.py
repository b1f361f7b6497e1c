"""`Batch`: what a `Loader` hands out."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from proto.batches import Batch as Message
from proto.structure import put_together
from proto.types import Array


@dataclass
class Ticket:
    """What a loader knows of a batch it handed out; every copy of the batch carries the same one."""

    message: Message
    """The Batcher's, without its arrays."""
    share: float = 1.0
    """What this rank's mean counts for, beside those of the other ranks: see `autoassist.ranks`."""
    weighted: bool = True
    """Whether not all weights are 1."""
    reported: bool = False


@dataclass(frozen=True)
class Batch:
    """B instances, in memory that is the batch's own: it may be kept, and changed, for as long as you like."""

    data: Any
    """The instances as the data set gives them (a pair, tuple, named tuple, dict, list, nested or not), with one tensor
    [B, ...] in the place of each value. Floats are float32; integers are int64, uint8 stays."""
    ids: Tensor
    """Which instances these are, int64 [B], indices into the data set. Always on the CPU."""
    weights: Tensor
    """What the policy has each count for in the mean that `Loader.report` returns, float32 [B]."""
    ticket: Ticket = field(repr=False, compare=False)
    mask: Tensor | None = None
    """Where instances differ in length: bool [B, T], true where a position is the instance's own; elsewhere the inputs
    are 0."""
    lengths: Tensor | None = None
    """The same as a number of positions, int64 [B]."""

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def inputs(self) -> Any:
        """The first of a pair. Raises AttributeError where instances are no pairs."""
        return self._pair()[0]

    @property
    def targets(self) -> Any:
        """The second of a pair. Raises AttributeError where instances are no pairs."""
        return self._pair()[1]

    def __contains__(self, key: object) -> bool:
        """Whether the instances are dicts with this `key`."""
        return isinstance(self.data, dict) and key in self.data

    def __getitem__(self, key: Any) -> Any:
        """`data[key]`, so that a batch can be read as one instance is."""
        return self.data[key]

    def _pair(self) -> Any:
        if isinstance(self.data, tuple | list) and len(self.data) == 2:
            return self.data
        found = f"dicts with {', '.join(map(str, self.data))}" if isinstance(self.data, dict) else "no pairs"
        raise AttributeError(f"inputs and targets are the two of a pair; these instances are {found}: see batch.data")

    def to(self, device: torch.device | str | int, non_blocking: bool = False) -> "Batch":
        """The batch with its tensors, but for the ids, on `device`."""

        def move(tensor: Tensor) -> Tensor:
            return tensor.to(device, non_blocking=non_blocking)

        return self._each(move)

    def pin_memory(self) -> "Batch":
        """The batch in pinned memory, so that `to(device, non_blocking=True)` does not wait."""
        return self._each(Tensor.pin_memory)

    def _each(self, change: Callable[[Tensor], Tensor]) -> "Batch":
        rest = {name: each(change, getattr(self, name)) for name in ("weights", "mask", "lengths")}
        return replace(self, data=each(change, self.data), **rest)


def each(change: Callable[[Tensor], Tensor], data: Any) -> Any:
    """`data` with `change` applied to each of its tensors."""
    if isinstance(data, Tensor):
        return change(data)
    if isinstance(data, dict):
        return {key: each(change, value) for key, value in data.items()}
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*(each(change, value) for value in data))
    if isinstance(data, tuple | list):
        return type(data)(each(change, value) for value in data)
    return data


def own(message: Message, structure: Any, share: float, *, pinned: bool) -> Batch:
    """`message` as a batch that owns its memory: its slot is free again, whatever the user does with the batch."""

    def copy(array: Array) -> Tensor:
        dtype = torch.from_numpy(np.empty(0, array.dtype)).dtype
        tensor = torch.empty(array.shape, dtype=dtype, pin_memory=pinned)
        np.copyto(tensor.numpy(), array)
        return tensor

    tensors = {name: copy(array) for name, array in message.arrays.items()}
    bare = message.model_copy(update={"arrays": {}})
    ticket = Ticket(bare, share, weighted=bool((message.weights != 1).any()))
    mask, lengths = tensors.get("mask"), tensors.get("lengths")
    data = put_together(structure, tensors)
    return Batch(data, torch.tensor(message.ids), copy(message.weights), ticket, mask, lengths)
