"""metrics.jsonl: one strict JSON object a line, readable while the run goes on."""

import itertools
import json
import resource
import tracemalloc
from pathlib import Path

import pytest

from autoassist import metrics
from autoassist.metrics import MetricsFile, newest_beats


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


def test_a_long_run_has_fewer_beats_but_the_first_of_a_new_process_at_once(path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(metrics.time, "monotonic", lambda: now[0])
    with MetricsFile(path) as file:
        for second in range(20 * 3600):
            now[0] = float(second)
            file.beat("boss", {"pid": 7, "step": second})
        file.beat("boss", {"pid": 8, "step": 0})
    written = lines(path)
    assert len(written) < 6_000
    gaps = [after["t"] - before["t"] for before, after in itertools.pairwise(written[:-1])]
    assert min(gaps) == 2
    assert max(gaps) <= 31
    assert written[-1]["pid"] == 8


def test_a_beat_is_as_long_with_a_thousand_classes_as_with_two(path):
    with MetricsFile(path) as file:
        file.beat("boss", {"step": 1, "trained_per_class": (9,) * 1000, "dropped_per_class": (9,) * 1001})
        file.write("boss", "progress", {"step": 1, "trained_per_class": (9,) * 1000})
    beat, progress = lines(path)
    assert not {"trained_per_class", "dropped_per_class"} & beat.keys()
    assert len(progress["trained_per_class"]) == 1000


def test_the_newest_beats_are_found_whatever_the_number_of_classes(path):
    with MetricsFile(path) as file:
        file.beat("assistant", {"version": 3})
        file.beat("boss", {"step": 4, "trained_per_class": (1_000_000,) * 10_000})
    assert {role: set(values) for role, values in newest_beats(path).items()} == {
        "assistant": {"t", "version"}, "boss": {"t", "step"},
    }  # fmt: skip


def test_a_run_that_goes_on_holds_no_more_than_a_line_of_the_file_in_memory(path):
    path.write_text('{"t": 1, "role": "boss", "event": "gate"}\n' * 20_000 + '{"t": 3, "event": "gate"}')
    tracemalloc.start()
    try:
        with MetricsFile(path, {"t": 5.0}):
            most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < path.stat().st_size / 10
    assert path.read_text().endswith('"gate"}\n')


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
