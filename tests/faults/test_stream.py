"""A stream whose Batcher is killed: training goes on at the right place, and no instance is trained twice."""

import json
import signal

import pytest

CODE = """
import time
import numpy as np
from batcher.plugin import Data
from torch import nn


class Slow:
    # Instance k holds k.
    def __init__(self):
        self.next = 0

    def __iter__(self):
        while True:
            time.sleep(0.0005)
            self.next += 1
            yield np.array([self.next - 1, 1, 1], np.float32), self.next % 2

    def state_dict(self):
        return {"next": self.next}

    def load_state_dict(self, state):
        self.next = state["next"]
        if self.next:
            open("states", "a").write(f"{self.next}\\n")


def data():
    return Data(Slow(), class_names=("even", "odd"))


class Noting(nn.Module):
    # Notes what it is trained on.
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, inputs):
        if self.training and len(inputs) > 2:
            open("trained", "a").write("".join(f"{int(k)}\\n" for k in inputs[:, 0]))
        return self.layer(inputs / 1000)


def model(spec):
    return Noting()
"""
TOTAL = 4000


@pytest.mark.slow
def test_a_stream_goes_on_where_it_was_when_its_batcher_is_killed(start_run, tmp_path):
    (tmp_path / "net.py").write_text(CODE)
    run = start_run(
        "data.name=./net.py:data", f"data.epoch_size={TOTAL}", "run.budget=1", "boss.model=./net.py:model",
        "boss.threads=1", "policy.name=uniform", "boss.checkpoint_every=0.05",
    )  # fmt: skip
    trained = tmp_path / "trained"
    pids = run.all_started()
    run.until(lambda: trained.exists() and len(trained.read_text().splitlines()) > TOTAL / 4, "a quarter of the budget")
    run.kill(pids["batcher"], signal.SIGKILL)
    assert run.wait() == 0, run.stdout + run.stderr
    positions = [int(line) for line in trained.read_text().split()]
    assert positions == list(range(TOTAL))
    states = [int(line) for line in (tmp_path / "states").read_text().split()]
    assert min(states) > TOTAL / 8, "not read from its beginning"
    summary = json.loads((run.run_dir / "summary.json").read_text())
    assert summary["boss_instances"] == summary["candidates"] == TOTAL
    assert [restart["role"] for restart in summary["restarts"]] == ["batcher"]
