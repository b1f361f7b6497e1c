"""What the data sets that read files share: finding one, opening one, and numbering the labels in it."""

import bz2
import gzip
import lzma
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any
from zipfile import BadZipFile

import numpy as np

from proto.errors import ConfigError
from proto.types import Array, Int64s

OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}


def found(root: str, key: str, name: str) -> Path:
    """The file `name` in the folder `root`, or the one of that name packed with gzip, bzip2 or xz.

    Raises ConfigError with the files there are.
    """
    path = Path(root) / name
    for end in ("", *OPENERS):
        if (packed := path.with_name(path.name + end)).is_file():
            return packed
    there = sorted(p.name for p in path.parent.iterdir() if p.is_file()) if path.parent.is_dir() else []
    listed = f"files there: {', '.join(there[:20])}" if there else f"there is nothing in {path.parent.resolve()}"
    raise ConfigError(key, name, f"no such file in data.root = {root!r}; {listed}")


def opened(path: Path, mode: str = "rb", **options: Any) -> IO[Any]:
    """`path` opened, unpacked on the way where its ending says that it is packed."""
    file: IO[Any] = OPENERS.get(path.suffix, open)(path, mode, **options)
    return file


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Raises ValueError, naming the file, for whatever is wrong with it."""
    try:
        yield
    except (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError, BadZipFile) as error:
        said = str(error)
        raise ValueError(said if path.name in said else f"{path.name} cannot be read or is cut off: {said}") from error


def lines(path: Path, encoding: str) -> Iterator[tuple[int, str]]:
    """Number (from 1) and text of each line that is not blank. Raises ValueError where one is not `encoding`."""
    with reading(path), opened(path) as file:
        for number, raw in enumerate(file, 1):
            try:
                text = raw.decode(encoding).strip("\r\n")
            except UnicodeDecodeError:
                raise ValueError(f"{path.name}, line {number}: not {encoding}; set data.args.encoding") from None
            if text.strip():
                yield number, text


class Strings(Sequence[str]):
    """Many strings in two arrays.

    A million Python strings are a million objects: slow to make, and each of them is written to when it is looked at
    (its reference count), which copies the pages of a process that was forked.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        encoded = [text.encode("utf-8", "surrogateescape") for text in texts]
        self._bytes = np.frombuffer(b"".join(encoded), np.uint8)
        self._ends = np.cumsum([0, *map(len, encoded)], dtype=np.int64)

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __getitem__(self, index: Any) -> Any:
        start, end = self._ends[index], self._ends[index + 1]
        return self._bytes[start:end].tobytes().decode("utf-8", "surrogateescape")


class Classes:
    """Class numbers of labels, in the sorted order of the labels of the training split."""

    def __init__(self, labels: Sequence[Any] | Array) -> None:
        self.values: list[Any] = sorted(set(labels))
        if self.values and all(isinstance(v, str) and v.lstrip("+-").isdigit() for v in self.values):
            self.values.sort(key=int)
        self._number = {value: number for number, value in enumerate(self.values)}

    @property
    def names(self) -> list[str]:
        return [value if isinstance(value, str) else f"{value:g}" for value in self.values]

    def numbers(self, labels: Sequence[Any] | Array, where: str) -> Int64s:
        """Class numbers int64 [n]. Raises ValueError, naming the file `where`, for a label that training never sees."""
        try:
            return np.fromiter((self._number[label] for label in labels), np.int64, len(labels))
        except KeyError as error:
            names = ", ".join(self.names[:20])
            raise ValueError(f"{where}: label {error.args[0]!r} is none of the training split's: {names}") from None
