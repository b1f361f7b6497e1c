"""Python objects in a data set: with forked workers each look at one copies the page it lies on, and memory grows until
every worker has its own of all. Ours are fresh interpreters, whose memory is their own from the start."""

import os
from pathlib import Path

import many_strings
import numpy as np
import pytest

from batcher.config import DataConfig
from batcher.plugin import load
from batcher.source import Source
from batcher.workers import Pool

BATCH = 512
WORKERS = 2


def resident_kb(pid: int) -> int:
    """What of the process's memory is its own and in use, in kB: the memory shared with the Batcher is not."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("RssAnon:")[2].split()[0])


@pytest.mark.parametrize(
    "size", [pytest.param(50_000, id="50,000"), pytest.param(1_000_000, id="1,000,000", marks=pytest.mark.slow)]
)
def test_what_workers_keep_of_python_strings_does_not_grow_over_a_pass(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    support = str(Path(many_strings.__file__).parent)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([support, os.environ.get("PYTHONPATH", "")]))
    config = DataConfig(name="many_strings:strings", args={"size": size})
    source = Source(load(config).train, "strings")
    order = np.random.default_rng(0).permutation(size)
    pool = Pool(config, 0, {"train": source}, BATCH, WORKERS)
    try:
        source.take(order[:BATCH])
        pids = [process.child.pid for process in pool._processes]
        before = [resident_kb(pid) for pid in pids]
        for start in range(0, size, BATCH):
            source.take(order[start : start + BATCH])
        after = [resident_kb(pid) for pid in pids]
    finally:
        pool.close()
    assert min(before) > size * 80 / 1024, "each has the strings, of at least 80 bytes"
    # All strings together are ten times that, and copying their pages would take as much again.
    assert max(np.subtract(after, before)) < size * 8 / 1024 + 1024
