import bz2
import gzip
import lzma
from pathlib import Path

import pytest

from batcher.datasets.files import Classes, Strings, found, lines, reading
from proto.errors import ConfigError


@pytest.mark.parametrize(
    ("end", "pack"), [("", bytes), (".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress)]
)
def test_a_file_is_found_and_read_packed_or_not(end: str, pack: object, tmp_path: Path) -> None:
    assert callable(pack)
    (tmp_path / f"texts{end}").write_bytes(pack(b"one\n\n  \ntwo\r\n"))
    path = found(str(tmp_path), "data.args.train", "texts")
    assert path.name == f"texts{end}"
    assert list(lines(path, "utf-8")) == [(1, "one"), (4, "two")]


def test_a_missing_file_is_named_with_those_there_are(tmp_path: Path) -> None:
    (tmp_path / "a.csv").touch()
    (tmp_path / "b.csv").touch()
    with pytest.raises(ConfigError, match=r"data\.args\.test = 'c\.csv'.*data\.root = .*files there: a\.csv, b\.csv"):
        found(str(tmp_path), "data.args.test", "c.csv")
    with pytest.raises(ConfigError, match="there is nothing in"):
        found(str(tmp_path / "none"), "data.args.test", "c.csv")


@pytest.mark.parametrize(("end", "pack"), [(".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress)])
def test_a_file_that_is_cut_off_is_named(end: str, pack: object, tmp_path: Path) -> None:
    assert callable(pack)
    whole = pack("".join(f"line {k}\n" for k in range(2000)).encode())
    (tmp_path / f"texts{end}").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=rf"texts\{end} cannot be read or is cut off"):
        list(lines(tmp_path / f"texts{end}", "utf-8"))


def test_a_line_in_another_encoding_is_named(tmp_path: Path) -> None:
    (tmp_path / "texts").write_bytes(b"one\nr\xf0\n")
    with pytest.raises(ValueError, match=r"texts, line 2: not utf-8; set data\.args\.encoding"):
        list(lines(tmp_path / "texts", "utf-8"))
    assert list(lines(tmp_path / "texts", "latin-1")) == [(1, "one"), (2, "rð")]


def test_what_already_names_the_file_is_left_as_it_is(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^a\.csv is odd$"), reading(tmp_path / "a.csv"):
        raise ValueError("a.csv is odd")


def test_strings_are_what_they_were() -> None:
    texts = ["", "one", "zwölf", "\udcff", ""]
    strings = Strings(texts)
    assert len(strings) == 5
    assert [strings[index] for index in range(5)] == texts
    with pytest.raises(IndexError):
        strings[5]


def test_classes_are_numbered_in_the_order_of_their_values() -> None:
    assert Classes(["10", "9", "-1", "9"]).names == ["-1", "9", "10"]
    assert Classes(["b", "a", "10"]).names == ["10", "a", "b"]
    classes = Classes([1.0, -1.0, 1.0])
    assert classes.names == ["-1", "1"]
    assert classes.numbers([1.0, 1.0, -1.0], "train").tolist() == [1, 1, 0]
    with pytest.raises(ValueError, match=r"test\.csv: label 3\.0 is none of the training split's: -1, 1"):
        classes.numbers([3.0], "test.csv")
