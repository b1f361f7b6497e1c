"""What a person sees while a run is under way."""

import io

import pytest
from rich.console import Console

from autoassist import live
from autoassist.live import View, describe, evaluation_line, gate_line
from autoassist.state import WorkerState
from proto.messages import ROLES


@pytest.fixture
def workers():
    values = {
        "batcher": {"candidates": 12345, "kept_fraction": 0.25, "version": 7},
        "boss": {"boss_epochs": 1.5, "loss": 0.125, "test_accuracy": 0.97},
        "assistant": {"version": 8, "mean_loss": 0.5, "accuracy": 0.75, "auc": 0.625},
    }
    return {role: WorkerState(phase="running", pid=n, values=values[role]) for n, role in enumerate(ROLES, 101)}


def view(**how):
    return View(Console(file=io.StringIO(), width=200, **how), budget=3.0)


def text(view):
    return view.console.file.getvalue()


def test_each_worker_is_described_by_its_own_numbers(workers):
    lines = {role: describe(role, workers[role], 3.0) for role in ROLES}
    assert lines["batcher"] == "12,345 candidates, kept 25%, version 7"
    assert lines["boss"] == "1.50 of 3 Boss epochs, loss 0.1250, test accuracy 0.9700"
    assert lines["assistant"] == "version 8, mean loss 0.5000, accuracy 0.750, AUC 0.625"


@pytest.mark.parametrize("values", [{"loss": float("nan")}, {}])
def test_before_the_first_step_there_is_no_loss_to_show(values, workers):
    values = {**workers["boss"].values, **values} if values else {"boss_epochs": 1.5, "test_accuracy": 0.97}
    state = WorkerState(phase="running", values=values)
    assert describe("boss", state, 3.0) == "1.50 of 3 Boss epochs, test accuracy 0.9700"


def test_who_waits_for_whom_is_shown(workers):
    workers["batcher"].values |= {"bytes_per_s": 12.5e6, "queue_depth": 2.75, "credit_wait_s": 31.4}
    workers["boss"].values |= {"waited_s": 2.2}
    assert describe("batcher", workers["batcher"], 3.0).endswith(", 12.5 MB/s, 2.8 under way, waited 31 s")
    assert describe("boss", workers["boss"], 3.0).endswith(", waited 2 s")


@pytest.mark.parametrize("phase", ["starting", "building", "ready", "done", "gone"])
def test_a_worker_that_is_not_running_is_described_by_its_phase(phase, workers):
    workers["boss"].phase = phase
    assert describe("boss", workers["boss"], 3.0) == phase


def test_without_a_terminal_pids_are_said_once_and_lines_are_few(workers):
    plain = view()
    with plain:
        for _ in range(3):
            plain.update(workers)
    assert text(plain).count("running: batcher (pid 101), boss (pid 102), assistant (pid 103)") == 1
    assert text(plain).count("12,345 candidates") == 1


def test_without_a_terminal_nothing_is_said_before_all_run(workers):
    workers["assistant"].phase = workers["boss"].phase = "building"
    plain = view()
    with plain:
        plain.update(workers)
    assert text(plain) == ""


def test_in_a_terminal_there_is_a_line_per_worker_that_goes_away(workers):
    live = view(force_terminal=True)
    with live:
        live.update(workers)
        shown = text(live)
        live.say("this stays")
    for role in ROLES:
        assert role in shown
    assert "1.50 of 3 Boss epochs" in shown
    assert "this stays" in text(live)


@pytest.mark.parametrize("line", ["expected [2, 10]", "a [bold] word", "it [/closes] nothing", "runs/a[b]/logs"])
def test_what_is_said_is_shown_as_it_is(line):
    plain = view()
    plain.say(line)
    assert text(plain) == line + "\n"


def test_an_evaluation_is_one_line_with_its_scores():
    line = evaluation_line({"step": 45, "boss_epochs": 1.0, "test_accuracy": 0.9, "test_loss": 0.25})
    assert "\n" not in line
    for fragment in ("1.00 Boss epochs", "accuracy 0.9000", "loss 0.2500"):
        assert fragment in line


def test_of_lines_that_come_without_end_one_a_minute_is_shown_of_each_kind(monkeypatch):
    now, plain = [0.0], view()
    monkeypatch.setattr(live.time, "monotonic", lambda: now[0])
    for second in range(4000):
        now[0] = float(second)
        for split in ("validation", "test"):
            plain.evaluated({"boss_epochs": float(second), f"{split}_accuracy": 0.5})
        plain.gate({"step": second})
    shown = text(plain).splitlines()
    assert shown[:3000:3] == [f"{second:.2f} Boss epochs: validation accuracy 0.5000" for second in range(1000)]
    assert len(shown) == 3 * (1000 + 3000 // 60)
    assert sum("validation" in line for line in shown) == sum("the Batcher" in line for line in shown) == 1050


def test_the_gate_s_changes_and_state_are_told_with_their_numbers(workers):
    values = {"step": 1234, "selecting": 1, "gain": 0.25, "gain_low": 0.2, "gain_high": 0.3, "gain_sample": 2048}
    assert gate_line(values) == (
        "step 1,234: the Batcher selects from now on; gain 0.250 (90 %: 0.200 to 0.300) on 2,048 candidates"
    )
    assert "keeps everything, since selecting gains nothing" in gate_line({**values, "selecting": 0})
    workers["assistant"].values |= values
    assert describe("assistant", workers["assistant"], 3.0).endswith("AUC 0.625, selecting (gain 0.25)")
