"""One run from configuration to summary: the run directory, the wiring (processes or serial), the exit code."""

import fcntl
import os
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console

from autoassist import summary as summaries
from autoassist.config import Settings, load, to_toml
from autoassist.live import View
from autoassist.signals import caught
from autoassist.supervisor import Resume, Supervisor, cpu_seconds
from proto import checkpoint
from proto.config import RunInfo
from proto.errors import ConfigError
from proto.messages import ROLES


def launch(settings: Settings, console: Console) -> int:
    """Runs `settings`; the exit code: 0, 1 (a worker failed), 2 (a user error), 130 or 143 (stopped by a signal).

    Raises ConfigError when the run directory cannot be made or, before anything was trained, for what a worker found.
    """
    settings, run_dir = make_run_dir(settings)
    try:
        with _locked(run_dir):
            return _run(settings, run_dir, None, console)
    except ConfigError:
        shutil.rmtree(run_dir)  # nothing was trained, and the name is free again for the corrected run
        raise


def resume(run_dir: Path, console: Console) -> int:
    """Goes on with the run in `run_dir` from its newest good checkpoint; the exit code as of `launch`.

    Raises ConfigError when there is none, or the run is complete.
    """
    settings = load(run_dir / "config.toml", [])
    with _locked(run_dir):
        if (run_dir / "model.safetensors").exists():
            raise ConfigError("--resume", str(run_dir), "this run is complete; nothing is left to do")
        found = checkpoint.newest(run_dir)
        if found is None:
            raise ConfigError("--resume", str(run_dir), "has no checkpoint to go on from; launch the run anew")
        return _run(settings, run_dir, Resume(*found), console)


def _run(settings: Settings, run_dir: Path, resume: Resume | None, console: Console) -> int:
    checkpoint.discard_partial(run_dir)
    view = View(console, settings.run.budget)
    summary = (_serial if settings.run.serial else _processes)(settings, run_dir, resume, view)
    summaries.write(summary, run_dir / "summary.json")
    summaries.show(summary, console)
    console.print(f"summary, metrics, logs and weights: {run_dir}", highlight=False, soft_wrap=True)
    if summary["exit_code"] and checkpoint.newest(run_dir) is not None:
        console.print(f"to go on: autoassist launch --resume {run_dir}", highlight=False, soft_wrap=True)
    return int(summary["exit_code"])


def make_run_dir(settings: Settings) -> tuple[Settings, Path]:
    """A new run directory with the resolved configuration in it, and the settings with their name filled in."""
    plain = settings.data.name.rpartition(":")[2] or settings.data.name
    name = settings.run.name or f"{plain}-{datetime.now():%Y%m%d-%H%M%S-%f}"[:-3]
    run_dir = Path(settings.run.dir) / name
    try:
        run_dir.mkdir(parents=True)
    except FileExistsError:
        raise ConfigError("run.name", name, f"{run_dir} exists already; choose another name or remove it") from None
    except OSError as error:
        raise ConfigError("run.dir", settings.run.dir, f"cannot make {run_dir}: {error.strerror}") from None
    settings = settings.model_copy(update={"run": settings.run.model_copy(update={"name": name})})
    (run_dir / "config.toml").write_text(to_toml(settings))
    return settings, run_dir


@contextmanager
def _locked(run_dir: Path) -> Iterator[None]:
    """Keeps a second run out of `run_dir`; raises ConfigError when there is a first."""
    descriptor = os.open(run_dir, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid = RunInfo.load(run_dir).supervisor_pid
            raise ConfigError("--resume", str(run_dir), f"this run is under way (pid {pid}); stop it first") from None
        yield
    finally:
        os.close(descriptor)


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
        "resumed_from": resume.name if resume else None,
    }


def _processes(settings: Settings, run_dir: Path, resume: Resume | None, view: View) -> dict[str, Any]:
    began, cpu_before = time.monotonic(), time.process_time()
    machine = Supervisor(settings, run_dir, view, resume, cpu_before).run()
    if machine.exit_code == 2:
        raise ConfigError.told(machine.reason)
    if machine.exit_code:
        log = f"; its log: {run_dir / 'logs' / machine.failed}.log" if machine.failed else ""
        view.say(f"{machine.reason}{log}", style="red")
    return summaries.summarise(
        {role: state.values for role, state in machine.workers.items()},
        cpu_seconds(machine, resume, cpu_before),
        **_facts(settings, resume),
        exit_code=machine.exit_code,
        exit_reason=machine.reason,
        killed=[role for role, state in machine.workers.items() if state.killed],
        without_last_words=[role for role, state in machine.workers.items() if not state.last_words],
        startup_s=None if machine.started_at is None else machine.started_at - began,
    )


def _serial(settings: Settings, run_dir: Path, resume: Resume | None, view: View) -> dict[str, Any]:
    from autoassist.serial import run_serial  # imports torch, which a run with processes does not need here

    cpu_before = time.process_time()
    with caught() as signals:
        workers = run_serial(settings, run_dir, resume, view, stop=lambda: bool(signals))
    signalled = 0 if (run_dir / "model.safetensors").exists() else signals[0]
    reason = f"stopped by {signal.Signals(signalled).name}" if signalled else "the budget is used up"
    if signalled:
        view.say(reason, style="red")
    return summaries.summarise(
        workers,
        {**dict.fromkeys(ROLES), "supervisor": time.process_time() - cpu_before},
        **_facts(settings, resume),
        exit_code=128 + signalled if signalled else 0,
        exit_reason=reason,
        killed=[],
        without_last_words=[],
        startup_s=None,
    )
