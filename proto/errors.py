"""The two errors a user can meet, both a `ValueError` with one line that says what, where and what to do."""

import difflib
from collections.abc import Iterable
from typing import Self

RAISED = (Exception, SystemExit)
"""What a user's code may raise: one that ends its script must not end a worker without a word."""


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


def nearest(word: str, known: Iterable[str], before: str = "") -> str:
    """A hint for a misspelt `word`: the nearest of the `known` ones, with `before` in front, else all of them."""
    known = sorted(known)
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return f"did you mean {before + close[0]!r}?" if close else f"allowed: {', '.join(known)}"
