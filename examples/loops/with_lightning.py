"""Lightning: a module whose `training_step` reports, and a Trainer that goes through the loader once.

    python examples/loops/with_lightning.py [--budget EPOCHS]

The data are scikit-learn's handwritten digits.
"""

import argparse

import torch
from lightning import LightningModule, Trainer, seed_everything
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset, random_split

import autoassist


class Digits(LightningModule):
    def __init__(self, loader):
        super().__init__()
        self.loader = loader
        self.net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))

    def training_step(self, batch, index):
        losses = cross_entropy(self.net(batch.inputs), batch.targets, reduction="none")
        return self.loader.report(batch, losses)

    def test_step(self, batch, index):
        inputs, targets = batch
        self.log("accuracy", (self.net(inputs).argmax(1) == targets).float().mean())

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)


parser = argparse.ArgumentParser()
parser.add_argument("--budget", type=float, default=10, help="Boss epochs")
args = parser.parse_args()
seed_everything(0, verbose=False)

digits, labels = load_digits(return_X_y=True)
everything = TensorDataset(torch.tensor(digits, dtype=torch.float32) / 16, torch.tensor(labels))
train_set, test_set = random_split(everything, [1437, 360], generator=torch.Generator().manual_seed(0))

quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False}
with autoassist.Loader(train_set, batch_size=32, budget=args.budget) as loader:
    module = Digits(loader)
    # The whole budget is one of Lightning's epochs; val_check_interval says after how many batches to validate.
    trainer = Trainer(max_epochs=1, accumulate_grad_batches=2, **quiet)
    trainer.fit(module, loader)
    print(f"{loader.progress:.0%}, {trainer.global_step} optimizer steps")
    result = trainer.test(module, DataLoader(test_set, batch_size=360), verbose=False)
print(f"test accuracy {result[0]['accuracy']:.3f}")
