"""Small data sets, and scripts of a user's own."""

import subprocess
import sys
import textwrap

import pytest
import torch
from torch.utils.data import TensorDataset


@pytest.fixture(scope="session")
def points():
    """200 instances float32 [4] of 2 classes, which a linear model tells apart; instance i has i as its last number."""
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(200, 4, generator=generator)
    labels = (inputs[:, 0] > 0).long()
    inputs[:, 3] = torch.arange(200)
    return TensorDataset(inputs, labels)


@pytest.fixture
def run_script(tmp_path):
    """Runs a script as a user would, from a file of its own in a folder of its own; returns what it printed."""

    def run(code, *, name="train.py", command=(), stdin=None, timeout=120):
        path = tmp_path / name
        path.write_text(textwrap.dedent(code))
        command = command or (sys.executable, str(path))
        done = subprocess.run(command, cwd=tmp_path, input=stdin, capture_output=True, text=True, timeout=timeout)
        assert done.returncode == 0, done.stderr + done.stdout
        return done.stdout

    return run
