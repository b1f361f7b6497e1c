"""`python -m autoassist.attendant --run-dir DIR --owner PID`: supervises the workers of a training loop in process PID.

That process is the Boss, and it may be killed, restarted or stopped in a debugger at any time: what ends the workers
then must not live in it. `autoassist.attended` starts this, with SIGINT and SIGTERM blocked, which they stay: both may
reach every process of a job, and what follows is for the one that trains to decide.
"""

import argparse
import json
import logging
import os
import select
import shutil
import signal
import sys
import threading
import time
from pathlib import Path

from rich.console import Console

from autoassist.config import load
from autoassist.live import View, Workers
from autoassist.supervisor import Resume, Supervisor
from proto import checkpoint
from proto.disk import reason, write_whole
from proto.sockets import hold

OUTCOME = "outcome.json"
"""How the run ended, and the last metrics of each worker."""
LOOK_S = 0.2


class Quiet(View):
    """Says what the user should know and nothing else: the terminal belongs to the user's loop."""

    def say(self, line: str, style: str = "") -> None:
        if style:
            super().say(f"autoassist: {line}", style)

    def update(self, workers: Workers) -> None:
        """Nothing: the loop has its own display."""


def attend(run_dir: Path, resume: Resume | None, asked: list[int]) -> int:
    """Runs to the end, or until it is `asked` for; the exit code as of `autoassist launch`."""
    settings = load(run_dir / "config.toml", [])
    view = Quiet(Console(stderr=True, force_terminal=False), settings.run.budget)
    machine = Supervisor(settings, run_dir, view, resume, asked).run()
    outcome = {
        "exit_code": machine.exit_code,
        "reason": machine.reason,
        "failed": machine.failed,
        "workers": {role: state.values for role, state in machine.workers.items()},
    }
    try:
        write_whole(run_dir / OUTCOME, json.dumps(outcome))
    except OSError as error:
        view.say(f"{OUTCOME} not written: {reason(error)}", "red")
    return machine.exit_code


def _end_with(owner: int, asked: list[int]) -> None:
    """Adds to `asked` once `owner`, our parent, wants the end or is dead; nothing is waited for then."""
    line = select.poll()
    line.register(sys.stdin.fileno(), select.POLLIN)
    while os.getppid() == owner and not line.poll(LOOK_S * 1000):
        pass
    asked.append(signal.SIGTERM)
    while os.getppid() == owner:
        time.sleep(LOOK_S)
    time.sleep(LOOK_S)
    asked.append(signal.SIGINT)


def main() -> int:
    parser = argparse.ArgumentParser(description="Supervises the workers of a training loop in another process.")
    parser.add_argument("--run-dir", type=Path, required=True)
    parser.add_argument("--owner", type=int, required=True, help="the process that trains")
    parser.add_argument("--temporary", action="store_true", help="remove the run directory when the owner is dead")
    args = parser.parse_args()
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="autoassist: %(message)s")
    asked: list[int] = []
    threading.Thread(target=_end_with, args=(args.owner, asked), name="owner-watch", daemon=True).start()
    if args.temporary:
        hold(args.run_dir)  # to our end: whoever finds it later may remove it
    found = checkpoint.newest(args.run_dir)
    try:
        return attend(args.run_dir, Resume(*found) if found else None, asked)
    finally:
        if args.temporary and os.getppid() != args.owner:
            shutil.rmtree(args.run_dir, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
