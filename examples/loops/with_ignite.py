"""PyTorch-Ignite: `create_supervised_trainer` with its gradient accumulation, and its mixed precision on a GPU.

    python examples/loops/with_ignite.py [--budget EPOCHS]

The data are scikit-learn's handwritten digits.
"""

import argparse

import torch
from ignite.engine import Events, create_supervised_trainer
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset, random_split

import autoassist

device = "cuda" if torch.cuda.is_available() else "cpu"

parser = argparse.ArgumentParser()
parser.add_argument("--budget", type=float, default=10, help="Boss epochs")
args = parser.parse_args()

digits, labels = load_digits(return_X_y=True)
everything = TensorDataset(torch.tensor(digits, dtype=torch.float32) / 16, torch.tensor(labels))
train_set, test_set = random_split(everything, [1437, 360], generator=torch.Generator().manual_seed(0))

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
loader = autoassist.Loader(train_set, batch_size=32, budget=args.budget)


def prepare_batch(batch, device, non_blocking):
    """Ignite wants (x, y); the whole batch takes the place of y, since `report` needs to know which it was."""
    batch = batch.to(device, non_blocking=non_blocking)
    return batch.inputs, batch


def loss_fn(logits, batch):
    return loader.report(batch, cross_entropy(logits, batch.targets, reduction="none"))


trainer = create_supervised_trainer(
    model,
    optimizer,
    loss_fn,
    device=device,
    non_blocking=True,
    prepare_batch=prepare_batch,
    amp_mode="amp" if device == "cuda" else None,
    scaler=device == "cuda",
    gradient_accumulation_steps=2,
)


@trainer.on(Events.ITERATION_COMPLETED(every=100))
def show(engine):
    print(f"{loader.progress:.0%}: loss {engine.state.output:.3f}")


# The whole budget is one of Ignite's epochs; `epoch_length` may also be any number of batches between evaluations.
trainer.run(loader, max_epochs=1, epoch_length=len(loader))
loader.close()

with torch.no_grad():
    inputs, targets = test_set[:]
    accuracy = (model(inputs.to(device)).argmax(1).cpu() == targets).float().mean()
print(f"test accuracy {accuracy:.3f}")
