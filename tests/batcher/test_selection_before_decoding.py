"""What is dropped costs no decode: from an instance's second visit on, or at once where features are offered."""

import subprocess
import sys
from collections import Counter

import decoded_items
import numpy as np
import pytest

from batcher.config import BatcherConfig, PolicyConfig
from batcher.core import BatcherCore
from proto.batches import End, Open
from proto.config import RunConfig


class Sparse:
    """Keeps three of ten from the `first` pass on, once their features are known."""

    def __init__(self, first=1):
        self.first = first

    def __call__(self, candidates):
        known = np.abs(candidates.features).sum(axis=1) > 0
        p = np.where(known & (candidates.progress.passes >= self.first), 0.3, 1.0)
        return p.astype(np.float32), np.ones(len(candidates), np.float32)


def lend(slot, layout):
    return {name: np.empty(shape, dtype) for name, (shape, dtype) in layout.items()}


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs a stream of `data` through `Sparse`; decodes by id, and trained ids by pass."""

    def run(data, first, budget=3.0):
        log = tmp_path / "decoded"
        policy = PolicyConfig(name=f"{__name__}:Sparse", args={"first": first})
        monkeypatch.setitem(sys.modules, __name__, sys.modules[__name__])
        core = BatcherCore(RunConfig(budget=budget), BatcherConfig(batch_size=5), policy, data, "toy")
        before = len(log.read_text().splitlines())
        core.open(Open(incarnation=0, rank=0, slots=1, eval_every=0.0))
        trained = []
        while not isinstance((message := core.next(0, 0, lend)[0]), End):
            trained.append(message)
        lines = log.read_text().splitlines()[before:]
        return Counter(int(line.split()[1]) for line in lines), trained

    return run


@pytest.mark.parametrize(("kind", "first"), [("Split", 1), ("Many", 1), ("WithFeatures", 0)])
def test_only_the_kept_are_decoded(run, tmp_path, kind, first):
    decodes, trained = run(decoded_items.data(kind, log=str(tmp_path / "decoded")), first)
    assert decodes == Counter(np.concatenate([batch.ids for batch in trained]).tolist())
    later = [batch for batch in trained if batch.passes >= first]
    candidates = sum(batch.candidates for batch in later[2:])
    kept = sum(len(batch.ids) for batch in later[2:])
    assert kept / candidates == pytest.approx(0.3, abs=0.12)
    assert sum(batch.dropped.sum() for batch in trained) == sum(batch.candidates - len(batch.ids) for batch in trained)


def test_array_data_needs_no_torch():
    code = """
import sys
import numpy as np
import batcher.__main__, batcher.workers
from batcher.config import BatcherConfig, PolicyConfig
from batcher.core import BatcherCore
from batcher.datasets.arrays import ArraySplit
from batcher.plugin import Data
from proto.config import RunConfig
from proto.batches import Open
split = ArraySplit(np.zeros((50, 1, 4, 4), np.uint8), np.arange(50) % 5)
core = BatcherCore(RunConfig(budget=2.0), BatcherConfig(batch_size=10), PolicyConfig(), Data(split), "toy")
core.open(Open(incarnation=0, rank=0, slots=1, eval_every=0.0))
for _ in range(5):
    core.next(0, 0, lambda slot, layout: {n: np.empty(s, d) for n, (s, d) in layout.items()})
heavy = {"torch", "torchvision", "sklearn", "scipy"} & set(sys.modules)
assert not heavy, heavy
"""
    subprocess.run([sys.executable, "-c", code], check=True)
