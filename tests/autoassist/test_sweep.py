"""Several runs in one folder: what is finished is not made again, and nothing is mixed up."""

import io
import json
import shutil

import pytest
from rich.console import Console

from autoassist.config import change, load
from autoassist.sweep import Run, Stopped, Sweep
from proto.errors import ConfigError


@pytest.fixture
def console():
    return Console(file=io.StringIO(), width=200)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "sweep"


@pytest.fixture
def launches():
    """Names of the runs that were launched; a stand-in for `launch` that notes them."""
    made = []

    def launch(settings, console):
        run_dir = folder_of(settings)
        run_dir.mkdir()
        made.append(settings.run.name)
        (run_dir / "metrics.jsonl").write_text('{"event": "eval", "x": 1}\n{"event": "beat"}\n')
        (run_dir / "summary.json").write_text(json.dumps({"exit_code": 0, "seed": settings.run.seed}))
        return 0

    launch.made = made
    return launch


def folder_of(settings):
    from pathlib import Path

    return Path(settings.run.dir) / settings.run.name


def run(name, launch, *words, **more):
    return Run(name, change(load(None, []), list(words)), launch, **more)


def test_a_finished_run_is_not_made_again(folder, launches, console):
    for _ in range(2):
        with Sweep.open(folder, console) as sweep:
            assert sweep.make(run("a", launches, "run.seed=3"))["seed"] == 3
            assert sweep.metrics(run("a", launches), "eval") == [{"event": "eval", "x": 1}]
    assert launches.made == ["a"]


def test_a_run_that_was_interrupted_is_made_anew(folder, launches, console):
    def dies(settings, console):
        folder_of(settings).mkdir()
        (folder_of(settings) / "half").write_text("a file")
        raise KeyboardInterrupt

    with Sweep.open(folder, console) as sweep:
        sweep.make(run("a", launches))
        with pytest.raises(KeyboardInterrupt):
            sweep.make(run("b", dies))
    with Sweep.open(folder, console) as sweep:
        for name in "ab":
            sweep.make(run(name, launches))
    assert launches.made == ["a", "b"]
    assert not (folder / "b" / "half").exists()


def test_a_line_that_was_cut_off_counts_as_not_finished(folder, launches, console):
    with Sweep.open(folder, console) as sweep:
        for name in "ab":
            sweep.make(run(name, launches))
    text = (folder / "results.jsonl").read_text()
    (folder / "results.jsonl").write_text(text[:-20])
    for _ in range(2):
        with Sweep.open(folder, console) as sweep:
            for name in "ab":
                sweep.make(run(name, launches))
    assert launches.made == ["a", "b", "b"]


@pytest.mark.parametrize("other", [{"words": ["boss.lr=0.2"]}, {"kind": "tensors"}])
def test_runs_of_another_configuration_are_not_mixed_in(other, folder, launches, console):
    words, more = other.get("words", []), {key: other[key] for key in other if key != "words"}
    with Sweep.open(folder, console) as sweep:
        sweep.make(run("a", launches))
        with pytest.raises(ConfigError, match="holds a of another configuration"):
            sweep.make(run("a", launches, *words, **more))


@pytest.mark.parametrize("key", ["data.name", "boss.model", "boss.loss", "policy.name"])
def test_a_file_of_the_user_s_that_was_changed_is_another_configuration(key, folder, launches, console, tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("one")
    one = run("a", launches, f"{key}={file}:made")
    with Sweep.open(folder, console) as sweep:
        sweep.make(one)
        assert sweep.done(one)
        file.write_text("two")
        with pytest.raises(ConfigError, match="or of files of yours that were changed since"):
            sweep.done(one)


def test_a_run_whose_directory_is_gone_is_made_again(folder, launches, console):
    with Sweep.open(folder, console) as sweep:
        sweep.make(run("a", launches))
        shutil.rmtree(folder / "a")
        sweep.make(run("a", launches))
    assert launches.made == ["a", "a"]


def test_lines_that_are_no_finished_run_are_passed_over(folder, launches, console):
    folder.mkdir()
    (folder / "results.jsonl").write_bytes(b'17\n[]\n{"run": "a"}\n\xff\n')
    with Sweep.open(folder, console) as sweep:
        sweep.make(run("a", launches))
    assert launches.made == ["a"]


def test_what_user_code_raises_in_this_process_is_a_failed_run(folder, console):
    def raises(settings, console):
        raise RuntimeError("no finite loss")

    with Sweep.open(folder, console) as sweep, pytest.raises(Stopped) as stopped:
        sweep.make(run("a", raises))
    assert stopped.value.code == 1
    assert "a: RuntimeError: no finite loss" in console.file.getvalue()


def test_a_run_without_a_summary_found_no_room(folder, console):
    def without_room(settings, console):
        folder_of(settings).mkdir()
        return 0

    with Sweep.open(folder, console) as sweep, pytest.raises(ConfigError, match="a could not write its summary"):
        sweep.make(run("a", without_room))


def test_where_a_run_is_kept_does_not_matter(folder, launches, console):
    with Sweep.open(folder, console) as sweep:
        sweep.make(run("a", launches))
        assert sweep.done(run("a", launches, "run.dir=elsewhere", "run.name=b"))


def test_a_run_that_fails_stops_the_others_and_is_told(folder, console):
    def fails(settings, console):
        folder_of(settings).mkdir()
        (folder_of(settings) / "summary.json").write_text('{"exit_reason": "boss crashed: [red]"}')
        return 1

    with Sweep.open(folder, console) as sweep, pytest.raises(Stopped) as stopped:
        sweep.make(run("a", fails))
    assert stopped.value.code == 1
    assert "a: boss crashed: [red]" in console.file.getvalue()
    with Sweep.open(folder, console) as sweep:
        assert not sweep.done(run("a", fails))


def test_one_process_at_a_time(folder, console):
    with Sweep.open(folder, console):
        with pytest.raises(ConfigError, match="being made by another process"):
            with Sweep.open(folder, console):
                pass
    with Sweep.open(folder, console):
        pass


def test_a_folder_that_cannot_be_made_is_a_configuration_error(tmp_path, console):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be written"), Sweep.open(tmp_path / "file" / "x", console):
        pass
