"""metrics.jsonl: one strict JSON object a line, readable while the run goes on."""

import json

import pytest

from autoassist import metrics
from autoassist.metrics import MetricsFile


def lines(path):
    return [json.loads(line, parse_constant=pytest.fail) for line in path.read_text().splitlines()]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "metrics.jsonl"


def test_a_line_is_there_as_soon_as_it_is_written(path):
    with MetricsFile(path) as file:
        file.write("boss", "eval", {"accuracy": 0.5, "ids": (1, 2)})
        (line,) = lines(path)
    assert {key: line[key] for key in ("role", "event", "accuracy", "ids")} == {
        "role": "boss", "event": "eval", "accuracy": 0.5, "ids": [1, 2],
    }  # fmt: skip
    assert line["t"] >= 0


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_number_that_json_has_not_is_null(path, value):
    with MetricsFile(path) as file:
        file.write("boss", "eval", {"loss": value})
    assert lines(path)[0]["loss"] is None


def test_beats_are_thinned_for_each_worker(path, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(metrics.time, "monotonic", lambda: now[0])
    with MetricsFile(path) as file:
        for now[0] in (100.0, 100.5, 101.0, 102.5):
            file.beat("boss", {"step": int(now[0])})
            file.beat("batcher", {"candidates": 1})
    assert [line["step"] for line in lines(path) if line["role"] == "boss"] == [100, 102]
    assert len(lines(path)) == 4


def test_a_beat_without_metrics_is_not_written(path):
    with MetricsFile(path) as file:
        file.beat("boss", {})
    assert path.read_text() == ""
