from pathlib import Path
from typing import Any

import numpy as np
import pytest

from batcher.config import DataConfig
from batcher.datasets.text import PADDING, UNKNOWN, TokenSplit
from batcher.plugin import Data, load
from proto.errors import ConfigError

TREC = Path(__file__).parents[3].parent / "shared/data/text-trec"


def of(folder: Path, train: str, test: str = "", name: str = "text", **args: Any) -> Data:
    (folder / "train").write_text(train)
    if test:
        (folder / "test").write_text(test)
    args |= {"train": "train", "test": "test" if test else ""}
    return load(DataConfig(name=name, root=str(folder), args=args))


def tokens(split: Any) -> list[list[int]]:
    return [split[index][0].tolist() for index in range(len(split))]


def test_words_are_numbered_by_how_often_they_are_in_the_training_file(tmp_path: Path) -> None:
    data = of(tmp_path, "good\tB a, b!\nbad\tc B\n", "bad\td C\ngood\t   !\n")
    # b 3 times; then !, "," a and c once each, in the order of their letters
    assert tokens(data.train) == [[2, 5, 4, 2, 3], [6, 2]]
    assert tokens(data.test) == [[UNKNOWN, 6], [3]]
    assert [data.train[index][1] for index in range(2)] == [1, 0]
    assert list(data.class_names) == ["bad", "good"]
    assert data.vocabulary == 7
    assert data.train[0][0].dtype == np.int64


def test_the_vocabulary_and_texts_are_cut_where_asked(tmp_path: Path) -> None:
    data = of(tmp_path, "x\ta a b c\ny\ta b\n", vocabulary=4, max_length=3)
    assert tokens(data.train) == [[2, 2, 3], [2, 3]]
    assert data.vocabulary == 4
    assert isinstance(data.train, TokenSplit)
    assert data.train.lengths(np.array([1, 0])).tolist() == [2, 3]


def test_a_batch_is_filled_with_padding_behind_each_text(tmp_path: Path) -> None:
    split = of(tmp_path, "x\ta b c\ny\ta\nx\tb a\n").train
    assert isinstance(split, TokenSplit)
    out = {"inputs": np.full((3, 4), 9), "targets": np.full(3, 9)}
    split.fill(np.array([2, 0, 1]), out)
    assert out["inputs"].tolist() == [[3, 2, 0, 0], [2, 3, 4, 0], [2, 0, 0, 0]]
    assert PADDING == 0
    assert out["targets"].tolist() == [0, 0, 1]
    assert split.describe(0) == "a b c"


def test_lines_of_trec_have_a_coarse_and_a_fine_class(tmp_path: Path) -> None:
    lines = "NUM:count How many ?\nHUM:ind Who : you ?\nNUM:date When ?\n"
    coarse, fine = (of(tmp_path, lines, name="trec", fine=fine) for fine in (False, True))
    assert list(coarse.class_names) == ["HUM", "NUM"]
    assert [coarse.train[index][1] for index in range(3)] == [1, 0, 1]
    assert list(fine.class_names) == ["HUM:ind", "NUM:count", "NUM:date"]
    assert isinstance(coarse.train, TokenSplit)
    assert coarse.train.describe(1) == "Who : you ?"


@pytest.mark.parametrize(
    ("train", "args", "problem"),
    [
        ("x\ta\nno tab\n", {}, r"train, line 2: needed: a label, '\\t', and a text"),
        ("x\ta\n\ta\n", {}, r"train, line 2: needed: a label"),
        ("x\ta\nx\t \n", {}, r"train, line 2: needed: a label"),
        ("\n", {}, r"train has no line in it"),
        ("x\ta\n", {"vocabulary": 2}, r"data\.args\.vocabulary = 2: allowed: 3 and more"),
        ("x\ta\n", {"max_length": 0}, r"data\.args\.max_length = 0: allowed: 1 and more"),
    ],
)
def test_what_cannot_be_is_one_line_that_says_where(
    train: str, args: dict[str, Any], problem: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=problem):
        of(tmp_path, train, **args)


def test_a_label_that_training_never_sees_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"test: label 'z' is none of the training split's: x"):
        of(tmp_path, "x\ta\n", "z\ta\n")


@pytest.mark.skipif(not TREC.is_dir(), reason="the TREC questions are not in ../shared/data/text-trec")
def test_trec_has_the_questions_its_authors_count() -> None:
    data = load(DataConfig(name="trec", root=str(TREC)))
    assert data.test is not None
    assert (len(data.train), len(data.test)) == (5_452, 500)
    assert list(data.class_names) == ["ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM"]
    fine = load(DataConfig(name="trec", root=str(TREC), args={"fine": True}))
    assert len(fine.class_names) == 50
