"""Two runs at one time, on users' own data sets and models: a file, and a package of the working directory."""

import os

import pytest

BLOBS = """
import numpy as np

class Blobs:
    \"\"\"Plain items, as any map-style data set has them: two clouds of points that a line separates.\"\"\"

    def __init__(self, n):
        rng = np.random.default_rng(0)
        self.y = rng.integers(0, 2, n)
        self.x = (rng.normal(size=(n, 4)) + 4 * self.y[:, None]).astype(np.float32)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, index):
        return self.x[index], int(self.y[index])

def make(n=200):
    return Blobs(n), Blobs(50)
"""
NET = """
from torch import nn

def build(spec, hidden=8):
    return nn.Sequential(nn.Linear(spec.input_shape[0], hidden), nn.ReLU(), nn.Linear(hidden, spec.classes))
"""


@pytest.fixture(scope="module")
def pair(start_shared_run, tmp_path_factory):
    """Two finished runs that shared a working directory, a TMPDIR and the time: (uniform, autoassist)."""
    folder = tmp_path_factory.mktemp("my project")
    (folder / "blobs.py").write_text(BLOBS)
    (folder / "mine").mkdir()
    (folder / "mine" / "__init__.py").write_text("")
    (folder / "mine" / "data.py").write_text(BLOBS)
    (folder / "mine" / "net.py").write_text(NET)
    uniform = start_shared_run(
        "run.name=plain", "run.dir=my runs", "run.budget=10.25", "policy.name=uniform", "data.name=./blobs.py:make",
        "boss.model=linear", "boss.threads=1", folder=folder,
    )  # fmt: skip
    (folder / "own.toml").write_text(
        '[data]\nname = "mine.data:make"\nargs = { n = 101 }\n[boss]\nmodel = "mine.net:build"\nargs = { hidden = 5 }\n'
    )
    autoassist = start_shared_run(
        "own.toml", "run.name=shrunk", "run.budget=40", "batcher.batch_size=10", "boss.threads=1",
        folder=folder, tmpdir=uniform.tmpdir,
    )  # fmt: skip
    assert [uniform.wait(), autoassist.wait()] == [0, 0], uniform.stdout + autoassist.stdout
    return uniform, autoassist


def test_uniform_keeps_every_candidate(pair):
    summary = pair[0].summary()
    assert summary["policy"] == "uniform"
    assert summary["kept_fraction"] == 1
    assert summary["candidates"] == summary["boss_instances"] == 2050
    assert sum(summary["dropped_per_class"]) == 0


def test_a_data_set_from_a_file_is_learned(pair):
    summary = pair[0].summary()
    assert summary["data"] == "./blobs.py:make"
    assert summary["test_accuracy"] > 0.9


def test_a_run_directory_may_have_spaces(pair):
    assert pair[0].run_dir.parent.name == "my runs"
    assert "my runs/plain" in pair[0].stdout
    assert (pair[0].run_dir / "model.safetensors").stat().st_size > 0


def test_a_data_set_and_a_model_from_a_package_are_trained(pair):
    summary = pair[1].summary()
    assert (summary["data"], summary["model"]) == ("mine.data:make", "mine.net:build")
    assert summary["boss_instances"] == 40 * 101
    assert summary["test_accuracy"] > 0.9


def test_a_remainder_of_one_instance_joins_the_batch_before(pair):
    whole = 101 * 40 // 10
    assert pair[1].summary()["optimizer_steps"] == whole
    assert pair[0].summary()["optimizer_steps"] == -(-2050 // 32)


def test_runs_do_not_hear_each_other(pair):
    for run in pair:
        summary = run.summary()
        assert summary["frames_refused"] == 0
        assert summary["reports_sent"] == summary["reports_folded"] == summary["optimizer_steps"]


def test_both_leave_nothing(pair):
    assert pair[0].tmpdir == pair[1].tmpdir
    assert pair[0].left() == []
    assert not [name for name in os.listdir(pair[0].folder) if name not in {
        "blobs.py", "mine", "own.toml", "my runs", "runs", "__pycache__",
        ".plain.out", ".plain.err", ".shrunk.out", ".shrunk.err",
    }]  # fmt: skip
