"""summary.json and the table."""

import io
import json

import pytest
from rich.console import Console

from autoassist.summary import show, summarise, write

RUN = {"name": "n", "policy": "autoassist", "exit_code": 0, "startup_s": 3.0, "without_last_words": [], "restarts": []}
CPU = {"boss": 1.5}
WORKERS = {
    "batcher": {"features_dropped": 3},
    "boss": {
        "step": 10, "trained": 100, "boss_epochs": 1.0, "test_accuracy": 0.91234, "reports_made": 10,
        "reports_dropped": 2, "refused_run": 2, "candidates": 200, "kept_fraction": 0.5,
        "dropped_per_class": (60, 40, 0), "trained_per_class": (20, 80),
    },
    "assistant": {"reports_folded": 7, "losses_quarantined": 2, "quarantined_ids": (5, 6), "refused_fields": 1},
}  # fmt: skip


@pytest.fixture
def summary():
    return summarise(WORKERS, CPU, **RUN)


def shown(summary):
    console = Console(file=io.StringIO(), width=120)
    show(summary, console)
    return console.file.getvalue()


def test_keys_are_flat_and_values_come_from_their_worker(summary):
    assert (summary["name"], summary["test_accuracy"], summary["candidates"]) == ("n", 0.91234, 200)
    assert (summary["boss_instances"], summary["optimizer_steps"], summary["cpu_s_boss"]) == (100, 10, 1.5)
    assert summary["dropped_per_class"] == [60, 40, 0]


def test_every_report_is_sent_folded_dropped_or_unread(summary):
    assert summary["reports_sent"] == 10
    assert (summary["reports_folded"], summary["reports_dropped"], summary["reports_unread"]) == (7, 2, 1)


def test_refused_frames_of_all_workers_are_added_up(summary):
    assert summary["frames_refused"] == 3


def test_without_the_boss_s_last_words_nobody_knows_how_many_reports_were_not_read():
    workers = {**WORKERS, "boss": {"reports_made": 3}, "assistant": {"reports_folded": 7}}
    found = summarise(workers, CPU, **{**RUN, "without_last_words": ["boss"]})
    assert found["reports_unread"] is None
    assert "no last words of: boss" in shown(found)


def test_what_was_not_measured_is_none_and_is_said():
    nothing = summarise({"batcher": {}, "boss": {}, "assistant": {}}, {}, **RUN)
    assert nothing["test_accuracy"] is None
    assert nothing["kept_fraction"] is None
    assert nothing["boss_instances"] == 0
    assert "not measured" in shown(nothing)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "word"])
def test_a_number_that_is_none_is_none(value):
    workers = {**WORKERS, "boss": {"test_accuracy": value}}
    assert summarise(workers, CPU, **RUN)["test_accuracy"] is None


def test_written_as_strict_json(summary, tmp_path):
    write(summary, tmp_path / "summary.json")
    assert json.loads((tmp_path / "summary.json").read_text()) == summary
    with pytest.raises(ValueError, match="JSON"):
        write({"x": float("nan")}, tmp_path / "summary.json")


def test_the_table_shows_what_counts(summary):
    text = shown(summary)
    for fragment in ("0.9123", "1.00 Boss epochs, 10 steps", "7 folded in, 2 dropped, 1 unread", "policy autoassist"):
        assert fragment in text


def test_the_table_warns_of_losses_left_out_and_frames_refused(summary):
    text = shown(summary)
    assert "2 losses were not finite and were left out; last ids: 5, 6" in text
    assert "3 frames were refused" in text
    assert "refused" not in shown({**summary, "frames_refused": 0})


def test_an_evaluation_that_is_not_of_the_final_weights_is_said_to_be_that():
    evaluated = {**WORKERS["boss"], "test_boss_epochs": 0.5}
    stopped = summarise({**WORKERS, "boss": evaluated}, CPU, **RUN)
    assert stopped["test_boss_epochs"] == 0.5
    assert "at 0.50 Boss epochs, not of the final weights" in shown(stopped)
    assert "not of the final weights" not in shown({**stopped, "test_boss_epochs": 1.0})


def test_a_name_in_brackets_is_shown_as_it_is(summary):
    assert "Run a[b] [/c]" in shown({**summary, "name": "a[b] [/c]"})
