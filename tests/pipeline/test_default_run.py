"""`autoassist launch` without arguments: three processes train a small CNN on the digits."""

import json
import subprocess
import sys

import pytest
from safetensors.numpy import load_file

from autoassist.config import load
from proto.messages import ROLES


def test_exits_with_0_and_shows_the_accuracy(default_run):
    assert default_run.exit_code == 0
    assert f"{default_run.summary()['test_accuracy']:.4f}" in default_run.stdout
    assert default_run.stderr == ""


def test_three_processes_of_their_own_do_the_work(default_run):
    pids = {*default_run.seen.values(), default_run.process.pid}
    assert set(default_run.seen) == set(ROLES)
    assert len(pids) == 4


def test_their_threads_leave_the_cores_to_one_another(default_run):
    threads = {role: "OMP_NUM_THREADS=1\0" in found for role, found in default_run.environments.items()}
    waits = {role: "OMP_WAIT_POLICY=PASSIVE\0" in found for role, found in default_run.environments.items()}
    assert threads == {"boss": False, "batcher": True, "assistant": True}
    assert waits == {"boss": True, "batcher": False, "assistant": False}


def test_says_once_which_process_is_which(default_run):
    for role, pid in default_run.seen.items():
        assert default_run.stdout.count(f"{role} (pid {pid})") == 1


def test_leaves_no_process_and_no_socket(default_run):
    assert default_run.left() == []


def test_reaches_97_percent(default_run):
    assert default_run.summary()["test_accuracy"] >= 0.97


def test_trains_exactly_the_budget(default_run, defaults):
    summary = default_run.summary()
    assert summary["boss_instances"] == round(defaults.run.budget * 1437)
    assert summary["boss_epochs"] == pytest.approx(defaults.run.budget)
    assert summary["optimizer_steps"] == -(-summary["boss_instances"] // defaults.batcher.batch_size)


def test_drops_candidates_and_says_how_many(default_run):
    summary = default_run.summary()
    dropped = summary["candidates"] - summary["boss_instances"]
    assert 0 < summary["kept_fraction"] < 1
    assert summary["kept_fraction"] == pytest.approx(summary["boss_instances"] / summary["candidates"])
    assert len(summary["dropped_per_class"]) == 10 + 1, "the last are those whose class is not known"
    assert sum(summary["dropped_per_class"]) == dropped


def test_accounts_for_every_loss_report(default_run):
    summary = default_run.summary()
    assert summary["reports_sent"] == summary["optimizer_steps"]
    assert summary["reports_folded"] == summary["reports_sent"] - summary["reports_dropped"]
    assert summary["reports_unread"] == 0
    assert summary["frames_refused"] == 0


def test_the_assistant_has_learned_something(default_run):
    summary = default_run.summary()
    assert summary["assistant_accuracy"] > 0.6
    assert summary["assistant_auc"] > 0.5


def test_summary_is_flat_strict_json(default_run):
    summary = default_run.summary()
    assert (summary["exit_code"], summary["killed"], summary["serial"]) == (0, [], False)
    assert summary["startup_s"] > 0
    assert (summary.pop("restarts"), summary.pop("frames_refused_by_kind")) == ([], {})
    assert all(isinstance(value, int | float | str | list | None) for value in summary.values())
    assert not any(
        isinstance(item, list | dict) for value in summary.values() if isinstance(value, list) for item in value
    )


def test_run_directory_holds_the_documented_files(default_run):
    found = {str(path.relative_to(default_run.run_dir)) for path in default_run.run_dir.rglob("*") if path.is_file()}
    logs = {f"logs/{role}.log" for role in ROLES}
    assert found >= {"config.toml", "metrics.jsonl", "summary.json", "model.safetensors", *logs}
    assert not [name for name in found if name.rpartition("/")[2].startswith(".")], "a partial file was left"


def test_config_toml_is_resolved_and_loads_back(default_run, defaults):
    settings = load(default_run.run_dir / "config.toml", [])
    assert settings.run.name == "default"
    assert settings.model_copy(update={"run": settings.run.model_copy(update={"name": ""})}) == defaults


def test_metrics_are_json_lines_with_an_evaluation_per_epoch(default_run, defaults):
    lines = (default_run.run_dir / "metrics.jsonl").read_text().splitlines()
    records = [
        json.loads(line, parse_constant=lambda constant: pytest.fail(f"{constant} is no JSON")) for line in lines
    ]
    evaluations = [record for record in records if record["event"] == "eval"]
    assert all({"t", "role", "event"} <= record.keys() for record in records)
    assert [record["t"] for record in records] == sorted(record["t"] for record in records)
    assert [round(record["boss_epochs"]) for record in evaluations] == list(range(1, int(defaults.run.budget) + 1))
    assert evaluations[-1]["test_accuracy"] == default_run.summary()["test_accuracy"]
    assert {record["role"] for record in records} == set(ROLES)


def test_each_worker_logs_its_end(default_run):
    for role, pid in default_run.seen.items():
        log = (default_run.run_dir / "logs" / f"{role}.log").read_text()
        assert f"{role} {pid} INFO done" in log
        assert "WARNING" not in log


def test_weights_are_those_of_the_model(default_run):
    tensors = load_file(default_run.run_dir / "model.safetensors")
    shapes = {tensor.shape for name, tensor in tensors.items() if name.endswith("weight")}
    assert shapes == {(32, 1, 3, 3), (64, 32, 3, 3), (128, 256), (10, 128)}


@pytest.mark.parametrize("role", ROLES)
def test_a_worker_started_after_the_end_says_that_the_run_is_over(default_run, role):
    late = subprocess.run(
        [sys.executable, "-m", role, "--run-dir", default_run.run_dir], capture_output=True, text=True, check=False
    )
    assert late.returncode == 2
    assert (
        late.stderr
        == f"{role}: --run-dir = {str(default_run.run_dir)!r}: this run is over; start it with `autoassist launch`\n"
    )
