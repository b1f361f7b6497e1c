"""Files that grow, and what is read of them."""

import tracemalloc
from pathlib import Path

import pytest

from proto.disk import tail


@pytest.mark.parametrize(
    ("text", "found"),
    [("", ""), ("short", "short"), ("x" * 100 + "the end\n", "xxthe end\n"), ("é" * 10, "é" * 5)],
)
def test_the_end_of_a_file(tmp_path: Path, text: str, found: str) -> None:
    (tmp_path / "log").write_text(text)
    assert tail(tmp_path / "log", 10) == found


def test_only_that_is_read(tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb") as file:
        file.truncate(10**9)  # it takes no room
        file.seek(0, 2)
        file.write(b"the end")
    tracemalloc.start()
    try:
        assert tail(tmp_path / "log", 1000).endswith("the end")
        assert tracemalloc.get_traced_memory()[1] < 10**6
    finally:
        tracemalloc.stop()


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        tail(tmp_path / "log", 10)
