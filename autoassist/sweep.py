"""Several runs in one folder, as `ablate` and `compare` make them. What is finished is not run again."""

import fcntl
import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TextIO

from rich.console import Console

from autoassist import launch as launching
from autoassist.config import Settings, to_toml
from proto.errors import RAISED, ConfigError, raised

RESULTS, METRICS = "results.jsonl", "metrics.jsonl"
FAILED = 1
"""Exit code of a run in which a worker failed."""

Summary = dict[str, Any]
Launch = Callable[[Settings, Console], int]


class Stopped(Exception):
    """A run did not end well, or the user stopped it; `code` is its exit code."""

    def __init__(self, code: int) -> None:
        super().__init__(f"exit code {code}")
        self.code = code


@dataclass(frozen=True)
class Run:
    """One run to make: the name of its directory, and what it does."""

    name: str
    settings: Settings
    launch: Launch = launching.launch
    kind: str = "service"
    """Names `launch`: a run of another kind is another run."""


class Sweep:
    """Makes runs in `folder`. Each finished one is a line of results.jsonl, and is not made again."""

    def __init__(self, folder: Path, file: TextIO, console: Console) -> None:
        self.folder, self._file, self._console = folder, file, console
        self.left = 0
        """Runs still to be made, as far as is known; for the user's eyes alone."""
        lines = (folder / RESULTS).read_text(errors="replace").splitlines()
        self._rows: dict[str, dict[str, Any]] = {row["run"]: row for row in map(_row, lines) if row is not None}

    @classmethod
    @contextmanager
    def open(cls, folder: Path, console: Console) -> Iterator[Self]:
        """Keeps others out of `folder` meanwhile. Raises ConfigError when it cannot be made or another one is in it."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
            file = (folder / RESULTS).open("a", buffering=1)
        except OSError as error:
            raise ConfigError("run.dir", str(folder), f"cannot be written: {error.strerror}") from None
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ConfigError("run.name", folder.name, "these runs are being made by another process") from None
            if (folder / RESULTS).read_bytes()[-1:] not in (b"", b"\n"):
                file.write("\n")
            yield cls(folder, file, console)

    def has(self, name: str) -> bool:
        """Whether a run called `name` is finished; one whose directory is gone is not."""
        return name in self._rows and (self.folder / name / METRICS).exists()

    def done(self, run: Run) -> bool:
        """Whether `run` is finished. Raises ConfigError when another one of its name is."""
        row = self._rows.get(run.name) if self.has(run.name) else None
        if row is not None and row["digest"] != digest(run):
            problem = (
                f"holds {run.name} of another configuration, or of files of yours that were changed since; set "
                "run.name to another one, or remove the folder"
            )
            raise ConfigError("run.name", str(self.folder), problem)
        return row is not None

    def make(self, run: Run) -> Summary:
        """The summary of `run`, which is made unless it is finished. Raises Stopped when it does not end well."""
        if not self.done(run):
            left = f" ({self.left} left)" if self.left else ""
            self._console.print(f"{run.name} ...{left}", highlight=False, markup=False, soft_wrap=True)
            self.left = max(self.left - 1, 0)
            self._rows[run.name] = self._make(run)
            self._file.write(json.dumps(self._rows[run.name]) + "\n")
        summary: Summary = self._rows[run.name]["summary"]
        return summary

    def metrics(self, run: Run, event: str) -> list[dict[str, Any]]:
        """The lines of metrics.jsonl that `run` has of `event`."""
        lines = map(json.loads, (self.folder / run.name / METRICS).read_text().splitlines())
        return [line for line in lines if line["event"] == event]

    def _make(self, run: Run) -> dict[str, Any]:
        path = self.folder / run.name
        if path.exists():
            shutil.rmtree(path)  # of a run that was interrupted
        place = {"dir": str(self.folder), "name": run.name}
        settings = run.settings.model_copy(update={"run": run.settings.run.model_copy(update=place)})
        found = digest(run)  # of the files as they were when it began
        try:
            code = run.launch(settings, Console(quiet=True))
        except (ConfigError, OSError):
            raise
        except RAISED as error:  # a run in this process does not keep to itself what user code raises
            raise self._stopped(run, FAILED, raised(error)) from error
        if not (path / "summary.json").exists():
            problem = f"{run.name} could not write its summary.json; the same command goes on once there is room"
            raise ConfigError("run.dir", str(self.folder), problem)
        summary: Summary = json.loads((path / "summary.json").read_text())
        if code:
            raise self._stopped(run, code, summary["exit_reason"])
        return {"run": run.name, "digest": found, "summary": summary}

    def _stopped(self, run: Run, code: int, reason: str) -> Stopped:
        text = f"{run.name}: {reason}"
        self._console.print(text, style="red", highlight=False, markup=False, soft_wrap=True)
        return Stopped(code)


def _row(line: str) -> dict[str, Any] | None:
    """The finished run of a line of results.jsonl; None for one that was cut off, whose run is made again."""
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) and row.keys() >= {"run", "digest", "summary"} else None


def digest(run: Run) -> str:
    """What must be equal for a finished run to count: its settings, wherever it was made, how it is launched, and the
    files of the user's that the settings name as ./FILE.py:..."""
    settings = run.settings
    nameless = settings.model_copy(update={"run": settings.run.model_copy(update={"dir": "", "name": ""})})
    named = (settings.data.name, settings.boss.model, settings.boss.loss, settings.policy.name)
    files = [Path(place) for place, _, _ in (name.rpartition(":") for name in named) if place.endswith(".py")]
    found = hashlib.sha256((to_toml(nameless) + run.kind).encode())
    for file in files:
        found.update(file.read_bytes())
    return found.hexdigest()
