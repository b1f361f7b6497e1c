"""Runs that are interrupted and go on: the same weights, the same accounting, nothing trained twice."""

import json
import math
import os
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
from collections import Counter

import logged_ids
import pytest
from logged_ids import BUDGET, N, trained_ids, until_trained

CODE = """
import os, signal, time
import numpy as np
from torch import nn

from boss.models import small_cnn


class Blobs:  # images of 2x4 pixels
    def __init__(self, size):
        rng = np.random.default_rng(size)
        self.targets = rng.integers(0, 4, size)
        self.inputs = (rng.normal(size=(size, 8)) + 2 * np.eye(8)[self.targets]).astype(np.float32).reshape(-1, 1, 2, 4)

    def __len__(self):
        return len(self.targets)

    def __getitem__(self, index):
        return self.inputs[index], int(self.targets[index])


def data():
    return Blobs(320), Blobs(64)


class Mortal(nn.Module):
    # Kills its process in the training batch that DIES_AT names, counted from when the process was started.
    def __init__(self, *layers):
        super().__init__()
        self.layers = nn.Sequential(*layers)
        self.left = int(os.environ.get("DIES_AT", 0))

    def forward(self, inputs):
        if self.training and len(inputs) > 2:
            self.left -= 1
            if self.left == 0:
                time.sleep(1.0)  # the checkpoint of the batch before gets whole
                os.kill(os.getpid(), signal.SIGKILL)
        return self.layers(inputs)


def model(spec):
    block = nn.Linear(8, 32), nn.BatchNorm1d(32), nn.Dropout(0.2), nn.ReLU()
    return Mortal(nn.Flatten(), *block, nn.Linear(32, 4))


def cnn(spec):
    return Mortal(small_cnn(spec))
"""
# 10 batches to a pass and a checkpoint after each.
WORDS = (
    "data.name=./net.py:data", "boss.model=./net.py:model", "run.budget=4", "batcher.batch_size=32", "boss.threads=1",
    "boss.checkpoint_every=0.1", "boss.eval_every=1", "boss.ema=0.9", "run.deterministic=true", "policy.gamma=0.3",
    "boss.flip=true", "boss.cutout=1",
    "policy.name=autoassist",  # which selects from the second pass on; the default's gate opens later
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
    """Starts a run, by default the same one, so that the Boss dies in its n-th training batch, and waits for that."""

    def start(dies_at, words=WORDS):
        (tmp_path / "net.py").write_text(CODE)
        run = start_run(*words, DIES_AT=str(dies_at))
        assert run.wait() == 75, run.stdout
        assert "to go on: autoassist launch --resume" in run.stdout
        return run

    return start


@pytest.fixture
def start_logging(start_run, tmp_path):
    """Starts a run that notes what it is trained on, and takes no checkpoint of its own accord; `add` is added to its
    model's class."""

    def start(*words, add=""):
        code = logged_ids.CODE.replace("\n\ndef model(spec)", f"{add}\n\ndef model(spec)")
        (tmp_path / "net.py").write_text(code)
        return start_run(*logged_ids.WORDS, "policy.name=uniform", "boss.checkpoint_every=1000", *words)

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


@pytest.mark.slow
def test_without_the_deterministic_mode_accuracy_and_accounting_are_as_of_a_run_that_was_not_interrupted(
    start_run, broken
):
    # 45 batches to a Boss epoch; the Boss dies in batch 60, and again in batch 100.
    words = (
        "boss.model=./net.py:cnn", "run.budget=4", "boss.threads=1", "boss.checkpoint_every=0.5", "boss.eval_every=0.1",
    )  # fmt: skip
    run = broken(60, words)
    assert checkpoints(run)[-1] == "batch-000000000045"
    assert resume(run, DIES_AT="55").returncode == 75
    assert checkpoints(run)[-1] == "batch-000000000090"
    assert run.records("eval")[-1]["trained"] > 90 * 32, "there is something to cut off"
    assert resume(run).returncode == 0

    whole = []
    for seed in range(3):
        whole.append(start_run(*words, f"run.seed={seed}", f"run.name=whole-{seed}"))
        assert whole[-1].wait() == 0, whole[-1].stdout
    accuracies = [one.summary()["test_accuracy"] for one in whole]
    # A fourth seed's accuracy lies as far outside the range of three as that range is wide once in eight times. Where
    # the three nearly agree, two standard errors of an accuracy that is measured on 360 images (6 of them) are allowed.
    mean = statistics.mean(accuracies)
    margin = max(max(accuracies) - min(accuracies), 2 * math.sqrt(mean * (1 - mean) / 360))
    summary = run.summary()
    assert min(accuracies) - margin <= summary["test_accuracy"] <= max(accuracies) + margin

    for one in (run, *whole):
        counts = one.summary()
        assert (counts["boss_instances"], counts["optimizer_steps"]) == (4 * 1437, 180)
        assert counts["candidates"] == counts["boss_instances"] + sum(counts["dropped_per_class"])
        assert counts["reports_sent"] == 180
        assert counts["reports_sent"] - counts["reports_folded"] - counts["reports_dropped"] == counts["reports_unread"]
    places = [[(record["trained"], record["step"]) for record in one.records("eval")] for one in (run, whole[0])]
    assert places[0] == places[1], "what was written after a checkpoint is cut off when the run goes on from it"
    beats = [record["trained"] for record in run.records("beat") if record["role"] == "boss"]
    assert beats == sorted(beats)


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


@pytest.mark.parametrize(
    "words", [(), pytest.param(("run.deterministic=true", "boss.accumulate=3"), marks=pytest.mark.slow)]
)
def test_stopped_by_sigterm_it_writes_a_checkpoint_and_goes_on(start_logging, tmp_path, words):
    run = start_logging("boss.eval_every=0.5", *words)
    until_trained(run, 150)
    (tmp_path / "hold").touch()  # however long the next lines take, the run is under way
    busy = resume(run)
    assert busy.returncode == 2
    assert f"this run is under way (pid {run.process.pid})" in busy.stderr
    run.kill(run.process.pid, signal.SIGTERM)
    os.killpg(run.process.pid, signal.SIGTERM)  # as `timeout` does it
    (tmp_path / "hold").unlink()
    assert run.wait() == 143
    (name,) = checkpoints(run)
    manifest = json.loads((run.run_dir / "checkpoints" / name / "manifest.json").read_text())
    assert 0 < manifest["trained"] == run.summary()["boss_instances"] < BUDGET * N
    assert resume(run).returncode == 0
    summary = run.summary()
    assert summary["boss_instances"] == BUDGET * N
    assert set(Counter(trained_ids(run)).values()) == {BUDGET}, "none was lost or trained twice"
    assert summary["resumed_from"] == name
    assert [record["boss_epochs"] for record in run.records("eval")] == sorted(
        {record["boss_epochs"] for record in run.records("eval")}
    )


@pytest.mark.slow
def test_stopped_by_sigterm_a_checkpoint_that_takes_long_to_write_is_waited_for(start_logging, tmp_path):
    slow = "\n    def state_dict(self, *args, **kwargs):\n        time.sleep(6 * os.path.exists('slow'))\n"
    run = start_logging(add=f"{slow}        return super().state_dict(*args, **kwargs)\n")
    until_trained(run, 150)
    (tmp_path / "slow").touch()
    run.kill(run.process.pid, signal.SIGTERM)
    assert run.wait() == 143
    assert run.summary()["killed"] == []
    assert len(checkpoints(run)) == 1


def test_a_full_disk_leaves_the_run_training_with_a_warning(start_run):
    # Weights alone fit into the limit (in KiB) on the size of a file, weights with the optimizer's state do not.
    limited = ("bash", "-c", f'ulimit -f 500; exec {shlex.quote(sys.executable)} -m autoassist launch "$@"', "bash")
    run = start_run("run.budget=2", "boss.model=mlp", "boss.threads=1", command=limited)
    assert run.wait() == 0, run.stdout
    assert "not written" in run.stdout
    assert run.summary()["checkpoints_failed"] == 2
    assert checkpoints(run) == []
