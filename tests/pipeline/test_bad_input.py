"""What a user can mend is one line that names key, value and what is allowed, exit code 2, and nothing is left."""

import os
from pathlib import Path

import pytest

AT_ONCE = {
    "unknown section": (["bos.lr=1"], ["bos", "1", "did you mean 'boss'?"]),
    "unknown key": (["batcher.batchsize=8"], ["batcher.batchsize = 8", "did you mean 'batcher.batch_size'?"]),
    "wrong type": (["run.budget=long"], ["run.budget = 'long'", "number"]),
    "out of range": (["policy.gamma=1.5"], ["policy.gamma = 1.5", "less than or equal to 1"]),
    "unknown data set": (["data.name=digit"], ["data.name = 'digit'", "did you mean 'digits'?"]),
    "unknown model": (["boss.model=smal_cnn"], ["boss.model = 'smal_cnn'", "did you mean 'small_cnn'?"]),
    "unknown policy": (["policy.name=unifrom"], ["policy.name = 'unifrom'", "did you mean 'uniform'?"]),
    "missing data root": (["data.name=mnist", "data.root=nowhere"], ["data.root = 'nowhere'", "no such folder"]),
    "malformed override": (["run.budget=1", "budget"], ["'budget'", "section.key=value"]),
    "missing file": (["missing.toml"], ["'missing.toml'", "No such file"]),
    "invalid file": (["invalid.toml"], ["'invalid.toml'", "no valid TOML", "line 2"]),
    "run that exists": (["run.name=taken", "run.dir=."], ["run.name = 'taken'", "exists already"]),
    "run directory that cannot be": (["run.dir=invalid.toml"], ["run.dir = 'invalid.toml'", "cannot make"]),
    "missing user file": (["boss.model=./net.py:build"], ["boss.model = './net.py:build'", "no file ./net.py"]),
}


def assert_refused(run, *fragments, timeout=30.0):
    """`run` ends with exit code 2 and one line on stderr that holds `fragments`, and leaves nothing."""
    assert run.wait(timeout) == 2, run.stdout + run.stderr
    assert run.stderr.count("\n") == 1, run.stderr
    assert run.stderr.startswith("autoassist: ")
    assert [fragment for fragment in fragments if fragment not in run.stderr] == [], run.stderr
    assert "Traceback" not in run.stdout
    assert not (run.folder / "runs").exists() or not list((run.folder / "runs").iterdir())
    assert run.left() == []


@pytest.mark.parametrize("case", AT_ONCE)
def test_refused_before_anything_is_started(case, start_run, tmp_path):
    (tmp_path / "invalid.toml").write_text("[run]\nbudget == 3\n")
    (tmp_path / "taken").mkdir()
    words, fragments = AT_ONCE[case]
    run = start_run(*words)
    assert_refused(run, *fragments)
    assert run.stdout == ""
    assert not (tmp_path / "runs").exists()
    assert list((tmp_path / "taken").iterdir()) == []


def test_another_package_named_proto_is_named_before_it_breaks_anything(start_run, tmp_path):
    other = tmp_path / "other" / "proto"
    other.mkdir(parents=True)
    (other / "__init__.py").write_text("raise RuntimeError('the wrong proto was imported')\n")
    path = os.pathsep.join(filter(None, [str(other.parent), os.environ.get("PYTHONPATH")]))
    run = start_run(PYTHONPATH=path)
    assert_refused(run, "package proto", str(other), "environment of its own")


def test_a_tmpdir_too_long_for_sockets_is_named(start_run, tmp_path):
    deep = tmp_path / ("d" * 100)
    deep.mkdir()
    assert_refused(start_run(tmpdir=deep), "TMPDIR", str(deep), "shorter")


# -- found by a worker while it builds itself

FLAT = """
import numpy as np
from batcher.datasets.arrays import ArraySplit

def flat():
    rng = np.random.default_rng(0)
    return ArraySplit(rng.normal(size=(64, 16)).astype(np.float32), rng.integers(0, 3, 64))

def away():
    raise FileNotFoundError("the disk is away")
"""
NARROW = """
from torch import nn

def build(spec):
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 7))
"""

IN_THE_HANDSHAKE = {
    "failing data set": (
        ["data.name=./flat.py:away"],
        ["data.name = './flat.py:away': loading it failed", "the disk is away"],
    ),
    "batch size": (["batcher.batch_size=5000"], ["batcher.batch_size = 5000", "1437"]),
    "model for images": (["data.name=./flat.py:flat"], ["boss.model = 'small_cnn'", "[16]", "try mlp"]),
    "output shape": (["boss.model=./narrow.py:build"], ["boss.model = './narrow.py:build'", "[2, 7]", "[2, 10]"]),
    "failing import": (
        ["data.name=./broken.py:flat"],
        ["data.name = './broken.py:flat'", "RuntimeError", "second line"],
    ),
}


@pytest.mark.parametrize("case", IN_THE_HANDSHAKE)
def test_refused_by_a_worker_before_the_first_step(case, start_run, tmp_path: Path):
    (tmp_path / "flat.py").write_text(FLAT)
    (tmp_path / "narrow.py").write_text(NARROW)
    (tmp_path / "broken.py").write_text("raise RuntimeError('first line\\nsecond line')\n")
    words, fragments = IN_THE_HANDSHAKE[case]
    run = start_run(*words)
    assert_refused(run, *fragments)
    assert "running" not in run.stdout
    assert not run.run_dir.exists(), "the name must be free for the corrected run"


def test_refused_without_processes_just_the_same(start_run):
    assert_refused(start_run("run.serial=true", "batcher.batch_size=5000"), "batcher.batch_size = 5000", "1437")
