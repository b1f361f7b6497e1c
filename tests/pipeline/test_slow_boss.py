"""A Boss that takes no batch for a while: what the Batcher keeps in memory meanwhile."""

import time
from pathlib import Path

import pytest

CODE = """
import time
from pathlib import Path

import numpy as np
from torch import nn

from batcher.plugin import Data


class Large:
    targets = np.arange(256) % 2

    def __len__(self):
        return 256

    def __getitem__(self, index):
        return np.full((3, 324, 324), index, np.uint8), int(self.targets[index])


def data():
    return Data(Large(), class_names=["even", "odd"])


def stand(place):
    Path(f"at {place}").touch()
    while not Path(f"on from {place}").exists():
        time.sleep(0.02)


class Net(nn.Module):
    def __init__(self, outputs):
        super().__init__()
        self.last = nn.Linear(1, outputs)

    def forward(self, inputs):
        if len(inputs) > 2:  # not when everything is tried on two
            stand("the first step")
        return self.last(inputs.mean((1, 2, 3))[:, None])


def net(spec):
    stand("the model")
    return Net(spec.outputs)
"""
ROWS, SLOTS = 32, 4
BATCH_MB = ROWS * 3 * 324 * 324 / 2**20
"""About 10."""


def resident_mb(pid: int) -> float:
    """What of the process is in memory, slots included."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 2])
def test_the_batcher_stays_within_slots_and_a_batch_for_each_worker(start_run, tmp_path, workers):
    (tmp_path / "slow.py").write_text(CODE)
    run = start_run(
        "data.name=./slow.py:data", "boss.model=./slow.py:net", f"batcher.batch_size={ROWS}", "run.budget=1",
        f"batcher.workers={workers}", f"boss.slots={SLOTS}", "boss.threads=1", "policy.name=uniform",
    )  # fmt: skip
    run.until((tmp_path / "at the model").exists, "the model's building")
    batcher = run.all_started()["batcher"]
    before = resident_mb(batcher)
    (tmp_path / "on from the model").touch()
    run.until((tmp_path / "at the first step").exists, "the first step")
    run.until(lambda: resident_mb(batcher) - before > SLOTS * BATCH_MB * 0.9, "slots that are filled")
    time.sleep(1)  # in which a Batcher that does not wait would make dozens of batches
    grown = resident_mb(batcher) - before
    (tmp_path / "on from the first step").touch()
    assert run.wait() == 0, run.stdout + run.stderr
    # What else an interpreter needs for its first batches is less than half of one.
    assert grown < (SLOTS + max(workers, 1) + 0.5) * BATCH_MB
