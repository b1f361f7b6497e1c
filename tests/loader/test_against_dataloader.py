"""Under `uniform` a loop trains as well as over a DataLoader: the same data, model, schedule and number of steps."""

from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

from autoassist import Loader
from batcher.datasets.idx import mnist

FOLDER = Path(__file__).parents[2].parent / "shared/data/mnist"
BUDGET, SIZE = 2, 128


def train(batches, steps, seed, report):
    """Trained on `batches`; `report(batch, losses)` gives the loss. The model in training mode."""
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Flatten(), nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=steps + 1)
    for batch in batches:
        inputs, targets = batch if isinstance(batch, list) else (batch.inputs, batch.targets)
        losses = cross_entropy(model(inputs), targets, reduction="none")
        report(batch, losses).backward()
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
    return model


@pytest.mark.slow
@pytest.mark.skipif(not (FOLDER / "MNIST/raw").is_dir(), reason="the MNIST files are not in ../shared/data/mnist")
def test_the_accuracy_is_that_of_a_dataloader():
    data = mnist(str(FOLDER))
    splits = [
        TensorDataset(torch.tensor(split.inputs).float() / 255, torch.tensor(split.targets))
        for split in (data.train, data.test)
    ]
    inputs, targets = splits[1].tensors

    def accuracy(model):
        with torch.no_grad():
            return (model(inputs).argmax(1) == targets).float().mean().item()

    theirs, ours = [], []
    for seed in range(3):
        torch.manual_seed(seed)
        loader = DataLoader(splits[0], batch_size=SIZE, shuffle=True)
        batches = (batch for _ in range(BUDGET) for batch in loader)
        model = train(batches, BUDGET * len(loader), seed, lambda batch, losses: losses.mean())
        theirs.append(accuracy(model))
        with Loader(splits[0], batch_size=SIZE, budget=BUDGET, policy="uniform", seed=seed) as loader:
            ours.append(accuracy(train(loader, len(loader), seed, loader.report)))
    print(f"Loader {[round(x, 4) for x in ours]}, DataLoader {[round(x, 4) for x in theirs]}")
    # Their means differ by less than the spread of the seeds, or by less than three instances in a thousand.
    spread = max(max(theirs) - min(theirs), max(ours) - min(ours), 0.003)
    assert abs(sum(ours) - sum(theirs)) / 3 < spread, (ours, theirs)
