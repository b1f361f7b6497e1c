"""Batches for the plain loop, in the fastest forms that people use."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, default_collate

from batcher.core import BatcherCore
from batcher.plugin import Split
from boss.augment import Augmenter

Batches = Iterator[tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class Prepare:
    """Makes inputs [B, ...] as they are stored what the model is trained on: augmented, and normalised."""

    normalise: Callable[[Tensor], Tensor]
    augmenter: Augmenter | None = None

    def __call__(self, inputs: Tensor, ids: Tensor, passes: Tensor) -> Tensor:
        """`inputs` of the instances `ids` int64 [B] in their `passes` int64 [B], both on the CPU."""
        if self.augmenter is None:
            return self.normalise(inputs)
        drawn = torch.from_numpy(self.augmenter.draw(passes.numpy(), ids.numpy())).to(inputs.device)
        return self.augmenter.cut(self.normalise(self.augmenter.move(inputs, drawn)), drawn)


@dataclass(frozen=True)
class Order:
    """`total` ids in shuffled passes over `size` instances, as batches of (ids, their passes), a pass in memory at a
    time.

    A remainder of one joins its predecessor.
    """

    size: int
    total: int
    batch_size: int
    seed: int

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        draw = torch.Generator().manual_seed(self.seed)
        ids, given = torch.empty(0, dtype=torch.int64), 0
        while given < self.total:
            left = self.total - given
            n = left if left == self.batch_size + 1 else min(left, self.batch_size)
            while len(ids) < n:
                ids = torch.cat([ids, torch.randperm(self.size, generator=draw)])
            yield ids[:n], torch.arange(given, given + n) // self.size
            ids, given = ids[n:], given + n


@dataclass(frozen=True)
class Sampled:
    """The ids of an order, as a DataLoader takes them."""

    order: Order

    def __iter__(self) -> Iterator[list[int]]:
        return (ids.tolist() for ids, _ in self.order)


def in_memory(core: BatcherCore, prepare: Prepare, seed: int, device: torch.device) -> Batches | None:
    """Tensors that lie on the device before the first step, normalised unless they are augmented; None unless the data
    set is arrays."""
    if core.train.by_item:
        return None
    import numpy as np

    _, arrays = core.train.take(np.arange(core.train.size))
    inputs, targets = (torch.from_numpy(arrays[name]).to(device) for name in ("inputs", "targets"))
    batches = Order(len(targets), core.total, core.config.batch_size, seed)
    if prepare.augmenter is None:
        ready = prepare.normalise(inputs)
        return ((ready[ids], targets[ids]) for ids in (ids.to(device) for ids, _ in batches))
    return ((prepare(inputs[ids.to(device)], ids, passes), targets[ids.to(device)]) for ids, passes in batches)


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


def loaded(core: BatcherCore, prepare: Prepare, seed: int, device: torch.device, workers: int) -> Batches:
    """A DataLoader with so many workers, which stay for all passes."""
    batches = Order(core.train.size, core.total, core.config.batch_size, seed)
    torch.manual_seed(seed)
    loader = DataLoader(
        Items(core.train.split),
        batch_sampler=Sampled(batches),
        num_workers=workers,
        collate_fn=_as_it_is,
        pin_memory=device.type == "cuda",
    )
    for (inputs, targets), (ids, passes) in zip(loader, batches, strict=True):
        yield prepare(inputs.to(device, non_blocking=True), ids, passes), targets.to(device, non_blocking=True)


def _as_it_is(batch: Any) -> Any:
    return batch
