"""Distributed data parallel: each rank trains on every R-th batch of one stream.

    torchrun --nproc-per-node 2 examples/loops/with_ddp.py [--budget EPOCHS]

The data are scikit-learn's handwritten digits; gloo on CPUs, nccl on GPUs.
"""

import argparse
import os

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import TensorDataset, random_split

import autoassist

parser = argparse.ArgumentParser()
parser.add_argument("--budget", type=float, default=10, help="Boss epochs")
args = parser.parse_args()

cuda = torch.cuda.is_available()
dist.init_process_group("nccl" if cuda else "gloo")
device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if cuda else torch.device("cpu")

digits, labels = load_digits(return_X_y=True)
everything = TensorDataset(torch.tensor(digits, dtype=torch.float32) / 16, torch.tensor(labels))
train_set, test_set = random_split(everything, [1437, 360], generator=torch.Generator().manual_seed(0))

torch.manual_seed(0)
model = DistributedDataParallel(nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)).to(device))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

# Rank 0 has Batcher and Assistant; in place of a DistributedSampler the stream is dealt out. A batch is one rank's.
with autoassist.Loader(train_set, batch_size=16, budget=args.budget) as loader:
    ids = []
    for batch in loader:
        batch = batch.to(device, non_blocking=True)
        losses = cross_entropy(model(batch.inputs), batch.targets, reduction="none")
        loader.report(batch, losses).backward()
        optimizer.step()
        optimizer.zero_grad()
        ids += batch.ids.tolist()
    stats = loader.stats()

with torch.no_grad():
    inputs, targets = test_set[:]
    accuracy = (model(inputs.to(device)).argmax(1).cpu() == targets).float().mean()
weight = sum(parameter.double().sum().item() for parameter in model.parameters())
print(f"rank {dist.get_rank()}: {len(ids)} instances, weights {weight:.6f}, test accuracy {accuracy:.3f}\n", end="")
if dist.get_rank() == 0:
    print(f"{stats['reports_made']} reports made, {stats['assistant_reports_folded']} folded in\n", end="")
dist.destroy_process_group()
