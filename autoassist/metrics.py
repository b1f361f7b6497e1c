"""metrics.jsonl: one JSON object a line, as the run goes on."""

import json
import math
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from proto.messages import Role, Value

BEAT_EVERY_S = 2.0


class MetricsFile:
    """Appends to metrics.jsonl. Each line has `t` (seconds since it was opened), `role`, `event` and the values."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w", buffering=1)
        self._began = time.monotonic()
        self._beats: dict[Role, float] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def write(self, role: Role, event: str, values: Mapping[str, Value]) -> None:
        finite = {
            key: None if isinstance(value, float) and not math.isfinite(value) else value
            for key, value in values.items()
        }
        line = {"t": round(time.monotonic() - self._began, 3), "role": role, "event": event, **finite}
        self._file.write(json.dumps(line) + "\n")

    def beat(self, role: Role, values: Mapping[str, Value]) -> None:
        """Writes the metrics of a heartbeat, at most every two seconds for each worker."""
        now = time.monotonic()
        if values and now - self._beats.get(role, float("-inf")) >= BEAT_EVERY_S:
            self._beats[role] = now
            self.write(role, "beat", values)
