"""`run.serial=true`: the same run in one process, for debuggers, tests and quick comparisons."""

import pytest

SERIAL = ("run.serial=true", "boss.threads=1")


@pytest.fixture(scope="module")
def twins(start_shared_run):
    """Two finished serial runs of one configuration."""
    runs = [start_shared_run(*SERIAL, f"run.name={name}") for name in ("one", "other")]
    for run in runs:
        run.until(lambda run=run: run.records("eval"), "the first evaluation")
        run.left_while_training = run.left()
        run.workers()
    assert [run.wait() for run in runs] == [0, 0]
    return runs


def test_needs_no_workers_and_no_sockets(twins):
    for run in twins:
        assert run.seen == {}
        assert len(run.left_while_training) == 1, "only the process itself"
        assert run.left() == []
        assert not (run.run_dir / "run.json").exists()


def test_one_seed_gives_identical_weights(twins):
    one, other = ((run.run_dir / "model.safetensors").read_bytes() for run in twins)
    assert one == other


def test_one_seed_gives_one_story(twins):
    one, other = (run.summary() for run in twins)
    same = [key for key in one if key != "name" and not key.startswith(("cpu_s", "train_s", "boss_waited_s"))]
    assert {key: one[key] for key in same} == {key: other[key] for key in same}


def test_summary_has_the_keys_of_a_run_with_processes(twins, default_run):
    assert set(twins[0].summary()) == set(default_run.summary())


def test_accuracy_is_in_the_range_of_a_run_with_processes(twins, default_run):
    serial, processes = twins[0].summary(), default_run.summary()
    assert serial["serial"] is True
    assert serial["test_accuracy"] >= 0.97
    assert serial["test_accuracy"] == pytest.approx(processes["test_accuracy"], abs=0.02)
    assert serial["boss_instances"] == processes["boss_instances"]
    # Where the Assistant does not keep up, as on a busy machine, more is kept.
    assert serial["kept_fraction"] - 0.15 < processes["kept_fraction"] < 1


def test_lag_is_the_configured_one(twins, defaults):
    assert twins[0].summary()["max_lag"] == defaults.run.lag


def test_accounts_for_every_loss_report(twins):
    summary = twins[0].summary()
    assert summary["reports_sent"] == summary["reports_folded"] == summary["optimizer_steps"]
    assert summary["reports_dropped"] == 0


def test_what_is_kept_is_exactly_what_three_deterministic_processes_keep(start_run):
    words = ("run.deterministic=true", "run.budget=6", "boss.threads=1")
    runs = [start_run(*words, f"run.serial={serial}", f"run.name=serial-{serial}") for serial in ("true", "false")]
    one, other = runs
    assert (one.wait(), other.wait()) == (0, 0), one.stderr + other.stderr
    serial, processes = one.summary(), other.summary()
    assert serial["kept_fraction"] < 0.95, "something is dropped"
    for key in ("kept_fraction", "candidates", "dropped_per_class", "trained_per_class", "test_accuracy"):
        assert serial[key] == processes[key], key


ELSEWHERE = """
import os
import numpy as np

class Split:
    targets = np.arange(60) % 3
    reads = 0

    def __len__(self):
        return 60

    def __getitem__(self, index):
        self.reads += 1
        if self.reads > int(os.environ.get("READS", 10**6)):
            raise OSError("planned failure")
        return np.full(4, index, np.float32), int(self.targets[index])

def data():
    os.chdir("elsewhere")
    import torch
    open("seen", "w").write(str(torch.are_deterministic_algorithms_enabled()))
    return Split(), Split()
"""


def test_user_code_that_changes_the_working_directory_changes_nothing_else(start_run, tmp_path):
    (tmp_path / "data.py").write_text(ELSEWHERE)
    (tmp_path / "elsewhere" / "runs" / "r").mkdir(parents=True)
    words = (*SERIAL, "data.name=./data.py:data", "batcher.batch_size=10", "boss.model=linear", "run.budget=3")
    run = start_run(*words, "run.deterministic=true")
    assert run.wait() == 0, run.stdout + run.stderr
    assert (tmp_path / "elsewhere" / "seen").read_text() == "True", "as in the Boss's process"
    assert list((tmp_path / "elsewhere" / "runs" / "r").iterdir()) == []
    assert run.summary()["boss_instances"] == 180
    assert run.records("eval")
    assert (run.run_dir / "checkpoints").is_dir()


def test_what_was_trained_before_the_data_failed_is_kept(start_run, tmp_path, monkeypatch):
    (tmp_path / "data.py").write_text(ELSEWHERE.replace("    os.chdir", "    # "))
    monkeypatch.setenv("READS", "300")
    words = (*SERIAL, "data.name=./data.py:data", "batcher.batch_size=10", "batcher.max_bad=0", "boss.model=linear")
    run = start_run(*words, "run.budget=100000", "boss.checkpoint_every=1", "boss.accumulate=4")
    assert run.wait() == 75, run.stdout + run.stderr
    summary = run.summary()
    assert summary["exit_reason"].startswith("batcher.max_bad = 0: ")
    assert summary["exit_reason"] in run.stdout
    assert summary["boss_instances"] >= 60
    assert f"autoassist launch --resume {run.run_dir.relative_to(tmp_path)}" in run.stdout
