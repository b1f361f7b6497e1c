"""The two errors a user can meet, both a `ValueError` with one line that says what, where and what to do."""

import difflib
import sysconfig
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import Self

RAISED = (Exception, SystemExit)
"""What a user's code may raise: one that ends its script must not end a worker without a word."""
OURS = [f"{Path(__file__).parents[1]}/{name}/" for name in ("proto", "batcher", "boss", "assistant", "autoassist")]
NOT_THEIRS = ("<", *(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")), *OURS)
"""How the names of files begin in which no user looks for a mistake."""
LONGEST = 1000
"""Characters of an error's own text that are told: some libraries' have a stack of C++ in it."""


class ConfigError(ValueError):
    """A configuration value that cannot work. `str(error)` is `key = value: what is wrong; what is allowed`."""

    def __init__(self, key: str, value: object, problem: str) -> None:
        super().__init__(" ".join(f"{key} = {value!r:.200}: {problem}".split()))

    @classmethod
    def told(cls, text: str) -> Self:
        """The error another process found and described."""
        error = cls.__new__(cls)
        ValueError.__init__(error, text)
        return error


class Refused(ValueError):
    """A frame that does not validate. `kind` groups refusals for counting, the text gives the reason."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind


def raised(error: BaseException) -> str:
    """What a user's code raised, in one line: type, text, and the last line of the user's that led there."""
    said = " ".join(str(error).split())[:LONGEST]
    text = f"{type(error).__name__}: {said}" if said else type(error).__name__
    places = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    theirs = [(file, line) for file, line in places if not file.startswith(NOT_THEIRS)]
    return f"{text} ({Path(theirs[-1][0]).name}, line {theirs[-1][1]})" if theirs else text


def nearest(word: str, known: Iterable[str], before: str = "") -> str:
    """A hint for a misspelt `word`: the nearest of the `known` ones, with `before` in front, else all of them."""
    known = sorted(known)
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return f"did you mean {before + close[0]!r}?" if close else f"allowed: {', '.join(known)}"
