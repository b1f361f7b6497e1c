"""A plain PyTorch loop: mixed precision, gradient accumulation, a schedule, and a checkpoint to go on from.

    python examples/loops/plain.py [--budget EPOCHS] [--policy NAME] [--checkpoint FILE]

The data are scikit-learn's handwritten digits. What differs from a loop over a DataLoader is marked.
"""

import argparse
from pathlib import Path

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset, random_split

import autoassist

ACCUMULATE = 2
device = "cuda" if torch.cuda.is_available() else "cpu"

parser = argparse.ArgumentParser()
parser.add_argument("--budget", type=float, default=10, help="Boss epochs")
parser.add_argument("--policy", default="assist")
parser.add_argument("--checkpoint", type=Path, help="written each Boss epoch, and gone on from when it is there")
args = parser.parse_args()

digits, labels = load_digits(return_X_y=True)
everything = TensorDataset(torch.tensor(digits, dtype=torch.float32) / 16, torch.tensor(labels))
train_set, test_set = random_split(everything, [1437, 360], generator=torch.Generator().manual_seed(0))

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
scaler = torch.amp.GradScaler(device, enabled=device == "cuda")

loader = autoassist.Loader(train_set, batch_size=32, budget=args.budget, policy=args.policy)  # in place of a DataLoader
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.2, total_steps=loader.steps_total // ACCUMULATE + 1)

if args.checkpoint and args.checkpoint.exists():
    saved = torch.load(args.checkpoint)
    for name, part in (("model", model), ("optimizer", optimizer), ("schedule", schedule), ("loader", loader)):
        part.load_state_dict(saved[name])
    print(f"going on at {loader.progress:.0%}")

step = 0
for epoch in loader.epochs():  # in place of: for epoch in range(EPOCHS): for inputs, targets in loader:
    for batch in epoch:
        batch = batch.to(device, non_blocking=True)
        with torch.autocast(device, dtype=torch.bfloat16 if device == "cpu" else torch.float16):
            losses = cross_entropy(model(batch.inputs), batch.targets, reduction="none")  # one for each instance
        loss = loader.report(batch, losses)  # in place of losses.mean()
        scaler.scale(loss / ACCUMULATE).backward()
        step += 1
        if step % ACCUMULATE == 0:
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
            schedule.step()
    if args.checkpoint:
        parts = {"model": model, "optimizer": optimizer, "schedule": schedule, "loader": loader}
        torch.save({name: part.state_dict() for name, part in parts.items()}, args.checkpoint)

with torch.no_grad():
    inputs, targets = test_set[:]
    accuracy = (model(inputs.to(device)).argmax(1).cpu() == targets).float().mean()
stats = loader.stats()
print(f"{stats['trained']} instances trained, {stats['candidates']} candidates, kept {stats['kept_fraction']:.2f}")
print(f"test accuracy {accuracy:.3f}")
