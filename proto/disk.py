"""Files that are written whole or not at all, and files that grow."""

import os
from collections.abc import Iterable
from pathlib import Path


def write_whole(path: Path, text: str | Iterable[str]) -> None:
    """Writes `text`, or all its parts, to `path`. Raises OSError when the disk refuses; what was there before then
    stays."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with partial.open("w") as file:
            file.writelines([text] if isinstance(text, str) else text)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def tail(path: Path, size: int) -> str:
    """The last `size` bytes of `path` as text, however large it is. Raises OSError."""
    with path.open("rb") as file:
        file.seek(max(file.seek(0, os.SEEK_END) - size, 0))
        return file.read().decode(errors="replace")


def reason(error: OSError) -> str:
    """What the system says is wrong, without number and path."""
    return error.strerror or str(error)
