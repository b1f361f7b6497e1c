"""A plain training loop, over a `Loader` and over DataLoaders of the same data set; `benchmarks.loader` measures it.

The loop trains a small network on MNIST, float32 in a TensorDataset, batch 256, one thread; with the `Loader` (policy
`uniform`) it also reports its losses, and the Assistant learns. DataLoaders have 0, 1 and 2 workers, and, as their
fastest form, a batch sampler without workers.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset

from autoassist import Loader
from batcher.datasets.idx import mnist
from benchmarks.loader import BATCH, by_batch
from benchmarks.loader import loader as dataloader

SEED = 0
LOADER, SAMPLER = "loop_loader", "loop_batch_sampler"
DATALOADERS = tuple(f"loop_dataloader_{workers}_workers" for workers in (0, 1, 2))


class Loop:
    """A model that is trained on batch after batch."""

    def __init__(self, batches: Iterator[Any], close: Callable[[], object], report: Callable[..., Tensor]) -> None:
        """`report(batch, losses)` gives the loss that is minimised."""
        torch.manual_seed(SEED)
        self._model = nn.Sequential(nn.Flatten(), nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))
        self._optimizer = torch.optim.SGD(self._model.parameters(), lr=0.05, momentum=0.9)
        self._batches, self.close, self._report = batches, close, report

    def __call__(self) -> int:
        batch = next(self._batches)
        inputs, targets = batch if isinstance(batch, list | tuple) else (batch.inputs, batch.targets)
        losses = cross_entropy(self._model(inputs), targets, reduction="none")
        self._report(batch, losses).backward()
        self._optimizer.step()
        self._optimizer.zero_grad()
        return len(targets)


def over(loader: Any) -> Loop:
    """The loop over a DataLoader, epoch after epoch."""

    def endless() -> Iterator[Any]:
        while True:
            yield from loader

    batches = endless()
    return Loop(batches, batches.close, lambda batch, losses: losses.mean())  # type: ignore[attr-defined]


def assisted(data: TensorDataset) -> Loop:
    loader = Loader(data, batch_size=BATCH, budget=1e6, policy="uniform", seed=SEED)
    return Loop(iter(loader), loader.close, loader.report)


def loops(folder: str) -> dict[str, Loop]:
    """The loops by name; `folder` holds MNIST/raw."""
    split: Any = mnist(folder).train
    data = TensorDataset(torch.tensor(split.inputs).float() / 255, torch.tensor(split.targets))
    theirs = {name: over(dataloader(data, workers)) for workers, name in enumerate(DATALOADERS)}
    return {LOADER: assisted(data), SAMPLER: over(by_batch(data)), **theirs}
