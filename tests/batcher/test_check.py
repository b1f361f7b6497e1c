"""`check-data` finds every kind of mistake, says how to mend it, and finds none where there is none."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mistaken
import numpy as np
import pytest
from rich.console import Console

from autoassist.check_data import show
from batcher import check as checking
from batcher.check import Findings, check
from batcher.config import DataConfig
from batcher.datasets.arrays import ArraySplit
from batcher.plugin import Data

FOUND = {
    "len": ("len() says 20, but item 12 raises IndexError", "__len__"),
    "torn": ("instance 7 cannot be read: OSError: image file is truncated", "batcher.max_bad"),
    "no pair": ("no pair (input, label)", "tuple of two"),
    "text input": ("wrong dtype: the input of instance 0 is a str", "token ids"),
    "text label": ("wrong dtype: the label of instance 0 is 'cat'", "number of the class"),
    "object": ("wrong dtype: the input of instance 0 is a object array", "array or tensor of numbers"),
    "mixed dtypes": ("wrong dtype: inputs are float32 and int64", "the same"),
    "not finite": ("the input of instance 0 is not finite", "what is missing"),
    "too large": ("the input of instance 0 is not finite as float32", "scale what is too large"),
    "shapes": ("different shapes: [2, 3] and [2, 4]", "crop, resize or pad"),
    "ragged": ("ragged without lengths: inputs have 1 to 3 positions", "offer lengths(ids)"),
    "short lengths": ("lengths(ids) says 1 of instance 1, which is [2]", "or more"),
    "lengths of no shape": ("lengths(ids) is int64 of shape []", "int64 [n]"),
    "negative": ("label out of range: that of instance 0 is -1", "0, 1, ..."),
    "negative targets": ("label out of range: that of instance 0 is -1", "0, 1, ..."),
    "nan": ("the label of instance 3 is nan", "leave the instance out"),
    "over names": ("that of instance 3 is 3, there are 3 class_names", "name all of them"),
    "lengths that raise": ("it raises IndexError", "docs/plugins.md"),
    "few token features": ("features gives 1 arrays of token ids for 12 instances", "leave features out"),
    "labels of shapes": ("labels have different shapes", "the same"),
    "few targets": ("targets has 5 labels, but len() says 12", "one label for each"),
    "other labels": ("the label of instance 0 is 0, but labels(ids) or targets says 1", "label of the item"),
    "clock": ("non-deterministic: instance 0, read twice with one seed, differs", "seeded for each instance"),
    "own generator": ("non-deterministic: instance 0", "generator of your own"),
    "process": ("a worker process reads other values", "nothing but the instance"),
    "fill": ("fill writes other inputs than the item has for instance 0", "docs/plugins.md"),
    "features": ("features is float32 of shape [12] for 12 instances", "leave features out"),
    "features that differ": ("features of instance 0 depends on which others", "leave features out"),
    "features that raise": ("features raises IndexError", "leave features out"),
    "collate": ("collate returns a list", "leave collate out"),
    "describe": ("describe returns a ndarray", "leave describe out"),
}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Little time for the speed of batches; worker processes find the toys."""
    monkeypatch.setattr(checking, "DRAW_S", 0.01)
    support = str(Path(mistaken.__file__).parent)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([support, os.environ.get("PYTHONPATH", "")]))


def found_in(kind: str) -> Findings:
    return check(DataConfig(name="mistaken:data", args={"kind": kind}), 4, 0)


def test_every_toy_is_either_sound_or_a_mistake() -> None:
    assert set(mistaken.MADE) == {
        *FOUND,
        "sound",
        "random",
        "ragged, with lengths",
        "to be predicted",
        "token features",
    }


@pytest.mark.parametrize("kind", FOUND)
def test_a_mistake_is_found_and_said_how_to_mend(kind: str) -> None:
    problem, mend = FOUND[kind]
    (mistake,) = found_in(kind).mistakes
    assert mistake.split == "train"
    assert problem in mistake.problem
    assert mend in mistake.mend
    assert "\n" not in mistake.problem + mistake.mend


@pytest.mark.parametrize("kind", ["sound", "random", "token features"])
def test_nothing_is_found_where_nothing_is_wrong(kind: str) -> None:
    found = found_in(kind)
    assert found.mistakes == []
    (train,) = found.splits
    assert (train.size, train.inputs, train.labels) == (12, "float32 [3]", "class number")
    assert train.counts is not None
    assert train.counts.tolist() == [6, 6]
    assert train.instances_per_s is not None
    assert train.instances_per_s > 0
    assert "there is no test split: nothing is evaluated" in found.notes


def test_instances_that_differ_in_length_are_sound_with_lengths_and_numbers_may_be_labels() -> None:
    found = found_in("ragged, with lengths")
    assert found.mistakes == []
    assert found.splits[0].inputs == "float64 [1 to 3]"
    found = found_in("to be predicted")
    assert found.mistakes == []
    assert found.splits[0].labels == "a number to be predicted"
    assert found.splits[0].counts is None


def test_all_mistakes_are_found_at_once_each_with_its_split(monkeypatch: pytest.MonkeyPatch) -> None:
    def three() -> object:
        return mistaken.data("negative"), mistaken.data("clock"), mistaken.data("text input")

    monkeypatch.setattr(mistaken, "three", three, raising=False)
    found = check(DataConfig(name="mistaken:three"), 4, 0)
    assert [mistake.split for mistake in found.mistakes] == ["train", "validation", "test"]


def images(mean: tuple[float, ...] = ()) -> Data:
    """Twelve images whose first channel is 0 and 255 by turns of a row, whose second is 51."""
    inputs = np.full((12, 2, 4, 4), 51, np.uint8)
    inputs[:, 0] = [[0], [255], [0], [255]]
    return Data(ArraySplit(inputs, np.arange(12) % 2), mean=mean, std=mean)


def test_images_without_mean_and_deviation_are_noted_with_what_they_would_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mistaken, "images", images, raising=False)
    found = check(DataConfig(name="mistaken:images"), 4, 0)
    assert found.mistakes == []
    assert any("mean=[0.5, 0.2], std=[0.5, 0.0] by the 12 instances" in note for note in found.notes)
    found = check(DataConfig(name="mistaken:images", args={"mean": (0.5, 0.2)}), 4, 0)
    assert not any("mean=" in note for note in found.notes)


class Numbered:
    """Instance i of class `of(i)`, which is known of all of them, or only of those that are read."""

    def __init__(self, size: int, of: Callable[[int], int], known: bool) -> None:
        self.size, self.of = size, of
        if known:
            self.targets = [of(i) for i in range(size)]

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> tuple[object, int]:
        return np.zeros(3, np.float32), self.of(index)


@pytest.mark.parametrize(
    ("train", "test", "names", "notes"),
    [
        ((300, lambda i: i % 100, True), None, "", []),
        ((300, lambda i: i % 100, False), None, "", []),
        ((300, lambda i: i % 3 * 2, True), None, "", ["classes without an instance to train on: 1, 3"]),
        ((90, lambda i: i % 2, True), (9, lambda i: i % 3, True), "", ["classes without an instance to train on: 2"]),
        ((90, lambda i: i % 2, True), None, "abc", ["classes without an instance to train on: 2 (c)"]),
        (
            (300, lambda i: i % 3 + 1, False),
            None,
            "",
            ["no instance looked at is of class 0, where class numbers begin"],
        ),
    ],
)
def test_classes_that_nothing_can_be_trained_of_are_noted_where_they_are_known(
    train: tuple[Any, ...], test: tuple[Any, ...] | None, names: str, notes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = Data(Numbered(*train), test and Numbered(*test), class_names=names)
    monkeypatch.setattr(mistaken, "numbered", lambda: data, raising=False)
    monkeypatch.setattr(checking, "_draw", lambda *_: None)
    found = check(DataConfig(name="mistaken:numbered"), 4, 0).notes
    assert [note[:50] for note in found if "train on" in note or "class 0" in note] == [note[:50] for note in notes]


class Stream:
    """Counts from where it is; `clock`: with noise that no seed gives; `skips`: its state is one ahead."""

    def __init__(self, clock: bool = False, skips: bool = False, plain: bool = True) -> None:
        self.clock, self.skips, self.plain, self.next = clock, skips, plain, 0

    def __iter__(self) -> Iterator[tuple[object, int]]:
        while True:
            self.next += 1
            noise = time.perf_counter() if self.clock else np.random.random()  # noqa: NPY002
            yield np.array([self.next, noise]), self.next % 2

    def state_dict(self) -> object:
        return {"next": self.next + self.skips} if self.plain else {"next": {self.next}}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.next = state["next"]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, ""),
        ({"clock": True}, "non-deterministic: the stream, loaded and begun again, gives other instances"),
        ({"skips": True}, "goes on from state_dict() gives another instance next"),
        ({"plain": False}, "its state_dict() is no JSON"),
    ],
    ids=str,
)
def test_a_stream_is_read_twice_and_gone_on_with(
    options: dict[str, bool], problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        mistaken, "stream", lambda: Data(Stream(**options), epoch_size=50, class_names=("a", "b")), raising=False
    )
    found = check(DataConfig(name="mistaken:stream"), 4, 0)
    assert found.splits[0].size is None
    assert [problem in mistake.problem for mistake in found.mistakes] == ([True] if problem else [])


def test_splits_that_do_not_go_together_are_named() -> None:
    (mistake,) = check(DataConfig(name="mistaken:of_another_shape"), 4, 0).mistakes
    assert mistake.split == "test"
    assert "inputs are float32 [4], those of the train split float32 [3]" in mistake.problem


def test_what_a_worker_process_cannot_load_is_told_in_its_words() -> None:
    (mistake,) = check(DataConfig(name="mistaken:here_alone"), 4, 0).mistakes
    assert "cannot be sent to a worker process" in mistake.problem
    assert "no such notebook here" in mistake.problem
    assert "fresh interpreter" in mistake.mend


def test_the_generators_of_the_process_are_left_alone() -> None:
    np.random.seed(3)  # noqa: NPY002
    expected = np.random.random()  # noqa: NPY002
    np.random.seed(3)  # noqa: NPY002
    found_in("torn")
    assert np.random.random() == expected  # noqa: NPY002


def test_everything_found_is_shown_in_80_columns() -> None:
    with open(os.devnull, "w") as nowhere:
        console = Console(width=80, record=True, file=nowhere)
        show(check(DataConfig(name="digits"), 32, 0), console)
        show(found_in("ragged"), console)
    text = console.export_text()
    assert max(map(len, text.splitlines())) <= 80
    for fragment in ("digits  built-in", "1,437", "uint8 [1, 8, 8]", "instances/s", "64, offered", "no mistakes found"):
        assert fragment in text
    for fragment in ("train split: ragged without lengths", "mend: offer lengths(ids)", "1 to mend"):
        assert fragment in text


def test_the_command_ends_with_exit_code_2_for_a_mistake_and_for_what_cannot_be_loaded(tmp_path: Path) -> None:
    def answer(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "autoassist", "check-data", *words]
        return subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)

    wrong = answer("data.name=mistaken:data", "data.args.kind=negative")
    assert wrong.returncode == 2
    assert "label out of range" in wrong.stdout
    assert wrong.stderr == ""
    nowhere = answer("data.name=mnist", f"data.root={tmp_path}")
    assert nowhere.returncode == 2
    assert nowhere.stdout == ""
    assert nowhere.stderr.count("\n") == 1
    assert "data.download=true fetches them" in nowhere.stderr
