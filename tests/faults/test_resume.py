"""Runs that are interrupted and go on: the same weights, the same accounting, nothing trained twice."""

import json
import os
import shutil
import signal
import subprocess
import sys

import pytest

CODE = """
import os, signal, time
import numpy as np
from torch import nn


class Blobs:
    def __init__(self, size):
        rng = np.random.default_rng(size)
        self.targets = rng.integers(0, 4, size)
        self.inputs = (rng.normal(size=(size, 8)) + 2 * np.eye(8)[self.targets]).astype(np.float32)

    def __len__(self):
        return len(self.targets)

    def __getitem__(self, index):
        return self.inputs[index], int(self.targets[index])


def data():
    return Blobs(320), Blobs(64)


class Mortal(nn.Module):
    # Kills its process in the training batch that DIES_AT names, counted from when the process was started.
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 32), nn.BatchNorm1d(32), nn.Dropout(0.2), nn.ReLU(), nn.Linear(32, 4))
        self.left = int(os.environ.get("DIES_AT", 0))

    def forward(self, inputs):
        if self.training and len(inputs) > 2:
            self.left -= 1
            if self.left == 0:
                time.sleep(1.0)  # the checkpoint of the batch before gets whole
                os.kill(os.getpid(), signal.SIGKILL)
        return self.layers(inputs)


def model(spec):
    return Mortal()
"""
# 10 batches to a pass and a checkpoint after each.
WORDS = (
    "data.name=./net.py:data", "boss.model=./net.py:model", "run.budget=4", "batcher.batch_size=32", "boss.threads=1",
    "boss.checkpoint_every=0.1", "boss.eval_every=1", "boss.ema=0.9", "run.deterministic=true", "policy.gamma=0.3",
)  # fmt: skip
COUNTED = ("boss_instances", "optimizer_steps", "candidates", "dropped_per_class", "reports_sent", "test_accuracy")


@pytest.fixture(scope="module")
def whole(start_shared_run, tmp_path_factory):
    """A run that nothing interrupted."""
    folder = tmp_path_factory.mktemp("whole")
    (folder / "net.py").write_text(CODE)
    run = start_shared_run(*WORDS, folder=folder)
    assert run.wait() == 0, run.stdout
    return run


@pytest.fixture
def broken(start_run, tmp_path):
    """Starts the same run so that the Boss dies in its n-th training batch, and waits for that."""

    def start(dies_at):
        (tmp_path / "net.py").write_text(CODE)
        run = start_run(*WORDS, DIES_AT=str(dies_at))
        assert run.wait() == 75, run.stdout
        assert "to go on: autoassist launch --resume" in run.stdout
        return run

    return start


def resume(run, **env):
    """Goes on with `run`; the finished process."""
    command = [sys.executable, "-m", "autoassist", "launch", "--resume", str(run.run_dir)]
    env = {**os.environ, "TMPDIR": str(run.tmpdir), **env}
    return subprocess.run(command, cwd=run.folder, env=env, capture_output=True, text=True, timeout=100)


def checkpoints(run):
    return sorted(path.name for path in (run.run_dir / "checkpoints").iterdir())


def weights(run):
    return (run.run_dir / "model.safetensors").read_bytes()


def evaluations(run):
    return [{key: value for key, value in record.items() if key != "t"} for record in run.records("eval")]


def test_killed_in_a_pass_later_in_it_and_at_its_end_it_ends_as_if_it_had_never_been(whole, broken):
    run = broken(6)
    assert checkpoints(run)[-1] == "batch-000000000005"
    assert resume(run, DIES_AT="4").returncode == 75
    assert checkpoints(run)[-1] == "batch-000000000008"
    assert resume(run, DIES_AT="3").returncode == 75
    assert checkpoints(run)[-1] == "batch-000000000010", "exactly the end of the first pass"
    assert resume(run, DIES_AT="9").returncode == 75
    assert resume(run).returncode == 0
    assert weights(run) == weights(whole)
    assert {key: run.summary()[key] for key in COUNTED} == {key: whole.summary()[key] for key in COUNTED}
    assert evaluations(run) == evaluations(whole)
    assert run.summary()["reports_folded"] == run.summary()["reports_sent"]


def test_a_tampered_checkpoint_is_refused_by_name_and_the_one_before_is_used(whole, broken):
    run = broken(8)
    newest, before = checkpoints(run)[-1], checkpoints(run)[-2]
    path = run.run_dir / "checkpoints" / newest / "boss.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    found = resume(run)
    assert found.returncode == 0
    assert f"checkpoint {newest} is refused" in found.stderr
    assert f"going on from {before} instead" in found.stderr
    assert weights(run) == weights(whole)
    assert run.summary()["resumed_from"] == before


def test_without_a_good_checkpoint_there_is_nothing_to_go_on_from(broken):
    run = broken(4)
    for folder in (run.run_dir / "checkpoints").iterdir():
        (folder / "assistant.json").write_text("{}")
    found = resume(run)
    assert found.returncode == 2
    assert found.stderr.splitlines()[-1].endswith("has no checkpoint to go on from; launch the run anew")
    shutil.rmtree(run.run_dir / "checkpoints")
    assert resume(run).returncode == 2


def test_a_complete_run_is_not_trained_again(whole):
    found = resume(whole)
    assert found.returncode == 2
    assert "this run is complete" in found.stderr


@pytest.mark.parametrize("words", [(), ("run.deterministic=true", "boss.accumulate=3")])
def test_stopped_by_sigterm_it_writes_a_checkpoint_and_goes_on(start_run, words):
    run = start_run("run.budget=30", "boss.model=mlp", "boss.threads=1", "boss.checkpoint_every=1000", *words)
    run.training(0.3)
    busy = resume(run)
    assert busy.returncode == 2
    assert f"this run is under way (pid {run.process.pid})" in busy.stderr
    run.kill(run.process.pid, signal.SIGTERM)
    assert run.wait() == 143
    (name,) = checkpoints(run)
    manifest = json.loads((run.run_dir / "checkpoints" / name / "manifest.json").read_text())
    assert 0 < manifest["trained"] == run.summary()["boss_instances"] < 30 * 1437
    assert resume(run).returncode == 0
    summary = run.summary()
    assert summary["boss_instances"] == 30 * 1437
    assert summary["resumed_from"] == name
    assert [record["boss_epochs"] for record in run.records("eval")] == sorted(
        {record["boss_epochs"] for record in run.records("eval")}
    )


def test_a_full_disk_leaves_the_run_training_with_a_warning(start_run):
    # Weights alone fit into the limit (in KiB) on the size of a file, weights with the optimizer's state do not.
    limited = ("bash", "-c", f'ulimit -f 500; exec {sys.executable} -m autoassist launch "$@"', "bash")
    run = start_run("run.budget=2", "boss.model=mlp", "boss.threads=1", command=limited)
    assert run.wait() == 0, run.stdout
    assert "not written" in run.stdout
    assert run.summary()["checkpoints_failed"] == 2
    assert checkpoints(run) == []
