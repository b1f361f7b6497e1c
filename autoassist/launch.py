"""One run from configuration to summary: the run directory, the wiring (processes or serial), the exit code."""

import contextlib
import shutil
import signal
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console

from autoassist import crash, rundir
from autoassist import summary as summaries
from autoassist.config import Settings
from autoassist.live import View
from autoassist.machine import USED_UP
from autoassist.signals import caught
from autoassist.supervisor import Resume, Supervisor, cpu_seconds
from proto import checkpoint
from proto.disk import reason
from proto.errors import ConfigError
from proto.messages import ROLES

RESUMABLE = 75
"""Exit code (EX_TEMPFAIL of sysexits.h) of a run that a failure ended, and that `--resume` goes on with."""


def launch(settings: Settings, console: Console) -> int:
    """Runs `settings`; the exit code: 0, 1 (a worker failed), 75 (the same, and there is a checkpoint to go on from),
    2 (a user error), 130 or 143 (stopped by a signal).

    Raises ConfigError when the run directory cannot be made or, before anything was trained, for what a worker found.
    """
    settings, run_dir = rundir.make(settings)
    try:
        with rundir.locked(run_dir):
            return _run(settings, run_dir, None, console)
    except ConfigError:
        # Nothing was trained, and the name is free again for the corrected run.
        shutil.rmtree(run_dir, ignore_errors=True)
        raise


def resume(run_dir: Path, console: Console) -> int:
    """Goes on with the run in `run_dir` from its newest good checkpoint; the exit code as of `launch`.

    Raises ConfigError when there is none, the run is complete, or `run_dir` is no run directory.
    """
    settings = rundir.settings_of(run_dir, "--resume")
    with rundir.locked(run_dir):
        if (run_dir / "model.safetensors").exists():
            raise ConfigError("--resume", str(run_dir), "this run is complete; nothing is left to do")
        found = checkpoint.newest(run_dir)
        if found is None:
            raise ConfigError("--resume", str(run_dir), "has no checkpoint to go on from; launch the run anew")
        return _run(settings, run_dir, Resume(*found), console)


def _run(settings: Settings, run_dir: Path, resume: Resume | None, console: Console) -> int:
    checkpoint.discard_partial(run_dir)
    view = View(console, settings.run.budget)
    with caught() as signals:
        summary = (_serial if settings.run.serial else _processes)(settings, run_dir, resume, view, signals)
        _conclude(summary, run_dir, view)
    return int(summary["exit_code"])


def _conclude(summary: dict[str, Any], run_dir: Path, view: View) -> None:
    """Writes and shows the summary, and says what else there is."""
    try:
        summaries.write(summary, run_dir / "summary.json")
    except OSError as error:
        view.say(f"summary.json not written: {reason(error)}", style="red")
    summaries.show(summary, view.console)
    if not run_dir.is_dir():
        return
    complete = (run_dir / "model.safetensors").exists()
    resumable = not complete and checkpoint.newest(run_dir) is not None  # which reads all of it
    weights = "weights" if complete else "checkpoints" if resumable else ""
    view.say(f"summary, metrics{', logs and ' + weights if weights else ' and logs'}: {run_dir}")
    if resumable:
        view.say(f"to go on: autoassist launch --resume {run_dir}")


def _facts(settings: Settings, resume: Resume | None) -> dict[str, Any]:
    return {
        "name": settings.run.name,
        "version": version("autoassist"),
        "data": settings.data.name,
        "model": settings.boss.model,
        "policy": settings.policy.name,
        "seed": settings.run.seed,
        "serial": settings.run.serial,
        "deterministic": settings.run.deterministic,
        "resumed_from": (resume.name or None) if resume else None,
    }


def _processes(
    settings: Settings, run_dir: Path, resume: Resume | None, view: View, signals: list[int]
) -> dict[str, Any]:
    began, cpu_before = time.monotonic(), time.process_time()
    supervisor = Supervisor(settings, run_dir, view, resume, signals, cpu_before=cpu_before)
    machine = supervisor.run()
    while machine.again:
        checkpoint.discard_partial(run_dir)
        found = checkpoint.newest(run_dir)
        resume = Resume(*found) if found else Resume.beginning()
        view.say(f"all three go on from {resume.name or 'the beginning'}", "yellow")
        supervisor = Supervisor(
            settings, run_dir, view, resume, signals, machine.restarts.all, cpu_before, supervisor.clock
        )
        try:
            machine = supervisor.run()
        except ConfigError as error:
            machine.give_up(str(error))
    if machine.exit_code == 2:
        raise ConfigError.told(machine.reason)
    exit_code, reason = machine.exit_code, machine.reason
    if exit_code > 128 and (run_dir / "model.safetensors").exists():  # the signal came when all was done
        exit_code, reason = 0, USED_UP
    if exit_code == 1 and checkpoint.newest(run_dir) is not None:
        exit_code = RESUMABLE
    if exit_code:
        log = f"; its log: {run_dir / 'logs' / machine.failed}.log" if machine.failed else ""
        view.say(f"{reason}{log}", style="red")
    if machine.failed and (report := crash.write(run_dir, machine.reason)):
        view.say(f"all that is known of it: {report}", style="red")
    return summaries.summarise(
        {
            **{role: state.metrics for role, state in machine.workers.items()},
            "supervisor": {f"refused_{kind}": n for kind, n in supervisor.refused.items()},
        },
        cpu_seconds(machine, resume, cpu_before),
        **_facts(settings, resume),
        exit_code=exit_code,
        exit_reason=reason,
        killed=[role for role, state in machine.workers.items() if state.killed],
        without_last_words=[role for role, state in machine.workers.items() if not state.last_words],
        startup_s=None if machine.started_at is None else machine.started_at - began,
        restarts=[restart.plain() for restart in machine.restarts.all],
    )


def _serial(settings: Settings, run_dir: Path, resume: Resume | None, view: View, signals: list[int]) -> dict[str, Any]:
    from autoassist.serial import run_serial  # imports torch, which a run with processes does not need here

    cpu_before = time.process_time()
    with contextlib.chdir("."):  # comes back to where it was: the user's code may go elsewhere
        workers, problem = run_serial(settings, run_dir.absolute(), resume, view, stop=lambda: bool(signals))
    complete = (run_dir / "model.safetensors").exists()
    signalled = 0 if complete or problem else signals[0]
    reason = USED_UP if complete else problem or f"stopped by {signal.Signals(signalled).name}"
    if not complete:
        view.say(reason, style="red")
    failed = RESUMABLE if checkpoint.newest(run_dir) is not None else 1
    return summaries.summarise(
        workers,
        {**dict.fromkeys(ROLES), "supervisor": time.process_time() - cpu_before},
        **_facts(settings, resume),
        exit_code=0 if complete else 128 + signalled if signalled else failed,
        exit_reason=reason,
        killed=[],
        without_last_words=[],
        startup_s=None,
        restarts=[],
    )
