"""metrics.jsonl: one strict JSON object a line, readable while the run goes on."""

import json
import resource
from pathlib import Path

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


def test_a_disk_that_is_full_is_told_of_once_and_no_error():
    said = []
    with MetricsFile(Path("/dev/full"), say=lambda line, style: said.append(line)) as file:
        for _ in range(3):
            file.write("boss", "eval", {"step": 1})
    assert said == ["metrics.jsonl: No space left on device; lines are left out while that is so, training goes on"]


def test_after_a_line_that_was_cut_off_the_next_is_whole(path):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with MetricsFile(path) as file:
        file.write("boss", "eval", {"step": 1})
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 10, before[1]))
            file.write("boss", "eval", {"step": 2})
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        file.write("boss", "eval", {"step": 3})
    first, cut, last = path.read_text().splitlines()
    assert [json.loads(line)["step"] for line in (first, last)] == [1, 3]
    assert len(cut) == 10
    with MetricsFile(path, {"t": 1e9}):
        assert [line["step"] for line in lines(path)] == [1, 3], "a run that goes on drops what cannot be read"


def test_what_a_run_goes_on_from_stays_when_the_disk_is_full(path):
    whole = '{"t": 1, "event": "event"}\n' * 20
    path.write_text(whole)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (10, before[1]))
        with pytest.raises(OSError, match="File too large"):
            MetricsFile(path, {"t": 2.0})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert path.read_text() == whole
    assert [file.name for file in path.parent.iterdir()] == [path.name]
