"""Batches for the plain loop, in the fastest forms that people use."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, default_collate

from batcher.core import BatcherCore
from batcher.plugin import Split

Batches = Iterator[tuple[Tensor, Tensor]]
Normalise = Callable[[Tensor], Tensor]


def order(size: int, total: int, batch_size: int, seed: int) -> list[Tensor]:
    """`total` ids in shuffled passes over `size` instances, as batches. A remainder of one joins its predecessor."""
    draw = torch.Generator().manual_seed(seed)
    passes = [torch.randperm(size, generator=draw) for _ in range(-(-total // size))]
    batches = list(torch.cat(passes)[:total].split(batch_size))  # type: ignore[no-untyped-call]
    if len(batches) > 1 and len(batches[-1]) == 1:
        batches[-2:] = [torch.cat(batches[-2:])]
    return batches


def in_memory(core: BatcherCore, normalise: Normalise, seed: int, device: torch.device) -> Batches | None:
    """Normalised floats that lie on the device before the first step; None unless the data set is arrays."""
    if core.train.by_item:
        return None
    import numpy as np

    _, arrays = core.train.take(np.arange(core.train.size))
    inputs = normalise(torch.from_numpy(arrays["inputs"]).to(device))
    targets = torch.from_numpy(arrays["targets"]).to(device)
    batches = order(len(targets), core.total, core.config.batch_size, seed)
    return ((inputs[ids], targets[ids]) for ids in (batch.to(device) for batch in batches))


class Items(Dataset[Any]):
    """A split as a DataLoader reads it fastest: whole batches, where the split can give them."""

    def __init__(self, split: Split) -> None:
        self.split = split

    def __len__(self) -> int:
        return len(self.split)

    def __getitem__(self, index: int) -> Any:
        return self.split[index]

    def __getitems__(self, ids: list[int]) -> Any:
        import numpy as np

        if (fill := getattr(self.split, "fill", None)) is not None:
            example = np.asarray(self.split[ids[0]][0])
            inputs, targets = np.empty((len(ids), *example.shape), example.dtype), np.empty(len(ids), np.int64)
            fill(np.asarray(ids), {"inputs": inputs, "targets": targets})
            return torch.from_numpy(inputs), torch.from_numpy(targets)
        many = getattr(self.split, "__getitems__", None)
        return default_collate(many(ids) if many is not None else [self.split[index] for index in ids])


def loaded(core: BatcherCore, normalise: Normalise, seed: int, device: torch.device, workers: int) -> Batches:
    """A DataLoader with so many workers, which stay for all passes."""
    batches = [batch.tolist() for batch in order(core.train.size, core.total, core.config.batch_size, seed)]
    torch.manual_seed(seed)
    loader = DataLoader(
        Items(core.train.split),
        batch_sampler=batches,
        num_workers=workers,
        collate_fn=_as_it_is,
        pin_memory=device.type == "cuda",
    )
    for inputs, targets in loader:
        yield normalise(inputs.to(device, non_blocking=True)), targets.to(device, non_blocking=True)


def _as_it_is(batch: Any) -> Any:
    return batch
