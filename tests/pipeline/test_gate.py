"""The gate in whole runs, in one process: it is open where selecting gains something, and closed where nothing can."""

import io
import json

import pytest
from rich.console import Console

from autoassist.config import load
from autoassist.launch import launch

CODE = """
import numpy as np
from batcher.datasets.digits import digits
from batcher.plugin import Data

class Random:
    '''Digits whose labels are drawn anew at each visit.'''

    def __init__(self, split):
        self.split, self.rng = split, np.random.default_rng(0)

    def __len__(self):
        return len(self.split)

    def __getitem__(self, index):
        return self.split[index]

    def fill(self, ids, out):
        self.split.fill(ids, out)
        out["targets"][:] = self.rng.integers(0, 10, len(ids))

def data():
    made = digits()
    return Data(Random(made.train), made.test, class_names=made.class_names, mean=made.mean, std=made.std)
"""


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs `words` serially; the summary, and what metrics.jsonl and the console say of the gate."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "noise.py").write_text(CODE)

    def run(*words):
        console = Console(file=io.StringIO(), width=300)
        words = ("run.serial=true", "run.dir=runs", "run.name=r", "boss.threads=1", "boss.checkpoint_every=0", *words)
        assert launch(load(None, words), console) == 0
        lines = [json.loads(line) for line in (tmp_path / "runs/r/metrics.jsonl").read_text().splitlines()]
        summary = json.loads((tmp_path / "runs/r/summary.json").read_text())
        return summary, [line for line in lines if line["event"] == "gate"], console.file.getvalue()

    return run


def test_labels_that_are_random_at_each_visit_close_it(run):
    summary, changes, _ = run("data.name=./noise.py:data", "run.budget=4", "boss.lr=0.02")
    assert summary["selecting"] is False
    assert summary["kept_fraction"] == 1
    assert changes == []


def test_digits_open_it_and_it_stays_open(run):
    summary, changes, shown = run("run.budget=8")
    assert summary["selecting"] is True
    assert [change["selecting"] for change in changes] == [1]
    assert changes[0]["gain_low"] > 0.01
    assert summary["kept_fraction"] < 0.7
    assert sum(summary["p_histogram"][:5]) > sum(summary["p_histogram"][5:9])
    assert "selects from now on; gain" in shown
    assert len(summary["kept_fraction_per_class"]) == 10
