"""What a run is doing, seen from another terminal: from the files in its run directory alone."""

import json
from pathlib import Path
from typing import Any

from rich.console import Console

from autoassist.live import describe
from autoassist.rundir import holder, settings_of
from autoassist.state import WorkerState
from proto.disk import tail
from proto.messages import ROLES

TAIL_BYTES = 1 << 20
"""Of metrics.jsonl: more than enough to hold the last heartbeat of each worker."""


def show(run_dir: Path, console: Console) -> int:
    """Prints a line on the run and one on each worker; returns 0 for a run under way or complete, else 1.

    Raises ConfigError when `run_dir` is no run directory.
    """
    budget = settings_of(run_dir, "RUN").run.budget
    pid = holder(run_dir)
    summary = _json(run_dir / "summary.json")
    lines = _lines(run_dir / "metrics.jsonl")
    if pid is not None:
        known = f" (supervisor pid {pid})" if pid else ""
        console.print(f"{run_dir.name} is under way{known}", markup=False, highlight=False)
    elif summary:
        console.print(
            f"{run_dir.name} ended: {summary['exit_reason']} (exit code {summary['exit_code']})", markup=False
        )
    else:
        console.print(f"{run_dir.name} ended without a summary: it was killed", markup=False, highlight=False)
    for role in ROLES:
        beat = next((line for line in reversed(lines) if line["event"] == "beat" and line["role"] == role), None)
        if beat is None:
            console.print(f"  {role}: no heartbeat yet")
            continue
        values = {key: value for key, value in beat.items() if value is not None}
        state = WorkerState(phase="running", values=values)
        console.print(f"  {role} (pid {beat.get('pid')}): {describe(role, state, budget)}", highlight=False)
    for line in [line for line in lines if line["event"] in ("event", "warning")][-5:]:
        console.print(f"  {line['t']:.0f} s: {line.get('text')}", style="yellow", markup=False, highlight=False)
    return 0 if pid is not None or (summary and summary["exit_code"] == 0) else 1


def _json(path: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(path.read_text())
        return found
    except (OSError, ValueError):
        return {}


def _lines(path: Path) -> list[dict[str, Any]]:
    """The last whole lines of metrics.jsonl."""
    try:
        text = tail(path, TAIL_BYTES)
    except OSError:
        return []
    found = []
    for line in text.splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:  # cut off: the first of what was read, or the one being written
            continue
    return found
