"""metrics.jsonl: one JSON object a line, as the run goes on."""

import contextlib
import json
import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from proto.disk import reason, tail, write_whole
from proto.messages import Role, Value

BEAT_EVERY_S, BEAT_LATER_S, BEAT_SHARE = 2.0, 30.0, 1e-3
"""Between the lines of a worker's heartbeats: a thousandth of the time the run has taken, within these."""
OF_EACH_CLASS = "_per_class"
"""Metrics so named have a number for each class, 15 kB for a thousand of them: `progress` and the summary tell them."""
LAST = 65536
"""Bytes at the end of the file that are looked through for the newest heartbeats."""


class MetricsFile:
    """Appends to metrics.jsonl. Each line has `t` (seconds since the run began), `role`, `event` and the values.

    A run that goes on from a checkpoint first cuts what was written after it: what is trained again counts once.
    A line that the disk does not take is left out; the first time that is said.
    """

    def __init__(
        self,
        path: Path,
        manifest: Mapping[str, Any] | None = None,
        say: Callable[[str, str], None] = lambda line, style: None,
    ) -> None:
        """`manifest` is the checkpoint's that the run goes on from; `say(line, style)` shows a line to the user.

        Raises OSError when there can be no such file.
        """
        before = 0.0
        if manifest is not None:
            before = float(manifest["t"])
            # Line by line: the file of a long run need not fit into memory.
            with path.open(errors="replace") as lines:
                write_whole(path, (line.rstrip("\n") + "\n" for line in lines if _before(line, manifest)))
        self._file = path.open("ab", buffering=0)
        self._say = say
        self._cut = self._said = False
        """Whether the last line is cut off, and whether a line that was left out has been told of."""
        self._began = time.monotonic() - before
        self._beats: dict[Role, tuple[Value | None, float]] = {}
        """Role -> process of its last heartbeat here, and when that was."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    @property
    def t(self) -> float:
        """Seconds since the run began; time between a checkpoint's end and its resumption does not count."""
        return time.monotonic() - self._began

    def write(self, role: Role | Literal["supervisor"], event: str, values: Mapping[str, Value]) -> None:
        finite = {
            key: None if isinstance(value, float) and not math.isfinite(value) else value
            for key, value in values.items()
        }
        line = {"t": round(self.t, 3), "role": role, "event": event, **finite}
        self._append(json.dumps(line) + "\n")

    def _append(self, line: str) -> None:
        whole = ("\n" if self._cut else "") + line
        try:
            self._cut = self._file.write(whole.encode()) < len(whole)
            problem = "no room" if self._cut else ""
        except OSError as error:
            problem = reason(error)
        if problem and not self._said:
            self._said = True
            self._say(f"metrics.jsonl: {problem}; lines are left out while that is so, training goes on", "yellow")

    def beat(self, role: Role, values: Mapping[str, Value]) -> None:
        """Writes the metrics of a heartbeat, but for those of each class: at most every two seconds for each worker, in
        a long run up to half a minute apart. The first one of a new process is written at once."""
        now = time.monotonic()
        pid, last = self._beats.get(role, (None, float("-inf")))
        every = min(max(self.t * BEAT_SHARE, BEAT_EVERY_S), BEAT_LATER_S)
        if values and (now - last >= every or values.get("pid") != pid):
            self._beats[role] = values.get("pid"), now
            self.write(role, "beat", {key: value for key, value in values.items() if not key.endswith(OF_EACH_CLASS)})


def _before(text: str, manifest: Mapping[str, Any]) -> bool:
    """Whether a line tells of something the checkpoint has seen; one that was cut off tells of nothing."""
    try:
        line = json.loads(text)
    except ValueError:
        return False
    if "trained" in line:
        return bool(line["trained"] <= manifest["evaluated" if line["event"] == "eval" else "trained"])
    return bool(line["t"] <= manifest["t"])


def newest_beats(path: Path) -> dict[str, dict[str, Any]]:
    """What each worker last said of itself, from the end of metrics.jsonl."""
    found: dict[str, dict[str, Any]] = {}
    if path.is_file():
        for line in tail(path, LAST).splitlines():
            with contextlib.suppress(ValueError):  # the first may be cut
                values = json.loads(line)
                if values.pop("event") == "beat":
                    found[values.pop("role")] = values
    return found
