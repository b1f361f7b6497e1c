"""A Batcher or an Assistant that dies under a loop is started anew, and the loop goes on."""

import os
import signal
from collections import Counter
from pathlib import Path

import pytest
import torch

from autoassist import Loader


def workers(run_dir):
    """Role -> pid of the workers of the run in `run_dir`."""
    found = {}
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_text().split("\0")
        except OSError:
            continue  # no process, or gone meanwhile
        if str(run_dir) in words and words[2] in ("batcher", "assistant"):
            found[words[2]] = int(entry.name)
    return found


@pytest.mark.slow
def test_a_loop_goes_on_when_its_workers_are_killed(points, tmp_path):
    ids = []
    with Loader(points, batch_size=20, budget=4, policy="uniform", run_dir=tmp_path / "run") as loader:
        for k, batch in enumerate(loader):
            loader.report(batch, torch.ones(len(batch)))
            ids += batch.ids.tolist()
            if k == 5:
                os.kill(workers(tmp_path / "run")["batcher"], signal.SIGKILL)
            if k == 20:
                os.kill(workers(tmp_path / "run")["assistant"], signal.SIGKILL)
    assert set(Counter(ids).values()) == {4}  # each instance once in each pass, none lost and none twice
    assert len(set(ids)) == 200
