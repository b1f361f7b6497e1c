"""Who is listed as suspect, in which order, with which words."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
from toys import numbered, opened, weights

from batcher.core import BatcherCore
from batcher.plugin import Data
from batcher.suspects import count, suspects
from proto.ledger import Ledger


class Described:
    """Instances that say what they are."""

    def __init__(self) -> None:
        self.split = numbered(10).train
        self.labels = self.split.labels  # type: ignore[attr-defined]

    def __len__(self) -> int:
        return 10

    def __getitem__(self, index: int) -> object:
        return self.split[index]

    def describe(self, index: int) -> str:
        return f"photo, {index}"


def core_with(last: list[float], before: list[float], times: int, mean: float, data: Data) -> BatcherCore:
    core, ledger, ids = opened(data, batch_size=5), Ledger(10), np.arange(10)
    for _ in range(times - 2):
        ledger.fold(ids, np.full(10, 9, np.float32), 1)
    ledger.fold(ids, np.array(before, np.float32), 2)
    ledger.fold(ids, np.array(last, np.float32), 3)
    fields = {"arrays": {}, "mean_loss": mean, "untrained_loss": 2.0, "delta": {"ids": ids, **ledger.take(ids)}}
    core.fold(weights(1, **fields))
    return core


LAST, BEFORE = [0.1, 5, 3, 3, 9, 0, 0, 0, 0, 0], [5, 4, 3, 1, 2.5, 0, 0, 0, 0, 0]


def test_whose_last_two_losses_are_those_of_an_untrained_model_are_listed_worst_first() -> None:
    assert suspects(core_with(LAST, BEFORE, 3, 0.5, numbered(10)).selector).tolist() == [1, 2, 4]


def test_nobody_is_while_others_do_not_fall_or_before_the_third_visit() -> None:
    assert len(suspects(core_with(LAST, BEFORE, 3, 1.2, numbered(10)).selector)) == 0
    assert len(suspects(core_with(LAST, BEFORE, 2, 0.5, numbered(10)).selector)) == 0


def test_the_file_says_who_they_are(tmp_path: Path) -> None:
    core = core_with(LAST, BEFORE, 6, 0.5, Data(Described(), class_names=["a", "b", "c"]))
    core.write_suspects(tmp_path / "s.csv")
    with (tmp_path / "s.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["id"] for row in rows] == ["1", "2", "4"]
    assert rows[0] == {
        "id": "1", "label": "1", "class": "b", "times_trained": "6", "last_loss": "5", "loss_before": "4",
        "description": "photo, 1",
    }  # fmt: skip
    assert core.metrics()["suspects"] == 3


def test_images_of_them_are_not_read_for_a_file_of_text(tmp_path: Path) -> None:
    asked: list[int] = []

    class Pictures(Described):
        def describe(self, index: int) -> Any:
            asked.append(index)
            return np.zeros((8, 8), np.uint8)

    core = core_with(LAST, BEFORE, 6, 0.5, Data(Pictures(), class_names=["a", "b", "c"]))
    core.write_suspects(tmp_path / "s.csv")
    with (tmp_path / "s.csv").open(newline="") as file:
        assert [row["description"] for row in csv.DictReader(file)] == ["", "", ""]
    assert asked == [1]


def test_a_description_that_fails_is_left_out(tmp_path: Path) -> None:
    class Fails(Described):
        def describe(self, index: int) -> str:
            return {1: "one", 4: "four"}[index]

    core = core_with(LAST, BEFORE, 6, 0.5, Data(Fails(), class_names=["a", "b", "c"]))
    core.write_suspects(tmp_path / "s.csv")
    with (tmp_path / "s.csv").open(newline="") as file:
        assert [row["description"] for row in csv.DictReader(file)] == ["one", "", "four"]


def test_as_many_are_counted_as_are_listed() -> None:
    nan = float("nan")
    selector = core_with([nan, *LAST[1:]], [5, nan, *BEFORE[2:]], 3, 0.5, numbered(10)).selector
    assert count(selector) == len(suspects(selector)) == 2


def test_without_any_the_file_has_its_heading_only(tmp_path: Path) -> None:
    opened(numbered(10), batch_size=5).write_suspects(tmp_path / "s.csv")
    assert (tmp_path / "s.csv").read_text().count("\n") == 1
