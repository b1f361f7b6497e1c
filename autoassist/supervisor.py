"""Starts the three workers, watches them, ends them: the input and output around `autoassist.machine`."""

import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import zmq

from autoassist.checkpoints import Collector
from autoassist.config import Settings
from autoassist.live import View, evaluation_line
from autoassist.machine import Action, Machine, Tell
from autoassist.metrics import MetricsFile
from autoassist.signals import caught, kept_from_children
from batcher import handed
from proto import slots
from proto.codec import Codec
from proto.config import RunInfo, read_toml
from proto.messages import ROLES, Message, Part, Record, Role
from proto.sockets import Port, hold, make_socket_dir, sweep

TICK_MS = 100
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
LAST_WORDS_S = 0.3
"""How long after a process has ended its last words may still arrive."""


@dataclass(frozen=True)
class Resume:
    """The checkpoint a run goes on from."""

    name: str
    manifest: dict[str, Any]


class Supervisor:
    """One run: three processes and the sockets to them."""

    def __init__(
        self, settings: Settings, run_dir: Path, view: View, resume: Resume | None, cpu_before: float = 0.0
    ) -> None:
        """`cpu_before`: CPU seconds of this process that are not the run's."""
        self.settings, self.run_dir, self.view, self.resume = settings, run_dir, view, resume
        self.cpu_before = cpu_before
        self.run_id = f"{settings.run.name}-{os.urandom(4).hex()}"
        self._processes: dict[Role, subprocess.Popen[bytes]] = {}
        self._ended_at: dict[Role, float] = {}

    def run(self) -> Machine:
        """Runs to the end, whatever it is; nothing of it is left when this returns."""
        sweep()
        slots.sweep()
        socket_dir = make_socket_dir()
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        codec = Codec(self.run_id)
        ports: list[Port] = []
        alive = -1
        try:
            alive = hold(socket_dir)
            name = self.resume.name if self.resume else ""
            info = RunInfo(run_id=self.run_id, socket_dir=socket_dir, supervisor_pid=os.getpid(), resume=name)
            info.save(self.run_dir)
            ports.extend(Port(context, channel, "supervisor", socket_dir, codec) for channel in ("control", "status"))
            control, status = ports
            manifest = self.resume.manifest if self.resume else None
            with caught() as signals, self.view, MetricsFile(self.run_dir / "metrics.jsonl", manifest) as metrics:
                return self._loop(control, status, metrics, signals)
        finally:
            self._kill_all()
            for port in ports:
                port.close()
            context.term()
            if alive >= 0:
                os.close(alive)
            shutil.rmtree(socket_dir, ignore_errors=True)

    def _loop(self, control: Port, status: Port, metrics: MetricsFile, signals: list[int]) -> Machine:
        by_hand = self.settings.run.by_hand
        machine = Machine(read_toml(self.run_dir / "config.toml")[1], by_hand, time.monotonic())
        self._start(by_hand)

        def facts() -> dict[str, Any]:
            return {"t": metrics.t, "cpu_s": cpu_seconds(machine, self.resume, self.cpu_before)}

        collector = Collector(self.run_dir, facts, self.view.say)
        poller = zmq.Poller()
        for port in (control, status):
            poller.register(port.socket, zmq.POLLIN)
        while not machine.finished:
            poller.poll(TICK_MS)
            now = time.monotonic()
            actions: list[Action] = []
            for sender, message in control.receive():
                if isinstance(message, Part) and sender in ROLES:
                    collector.add(sender, message)
                elif sender in ROLES:
                    actions += machine.told(sender, message, now)
            for _, message in status.receive():
                actions += self._heard(machine, metrics, message, now)
            for role in self._ended(machine, now):
                actions += machine.exited(role, self._processes[role].returncode if role in self._processes else 0, now)
            while signals:
                actions += machine.signalled(signals.pop(0), now)
            actions += machine.ticked(now)
            for action in actions:
                self._do(action, control)
            self.view.update(machine.workers)
        return machine

    def _heard(self, machine: Machine, metrics: MetricsFile, message: Message, now: float) -> list[Action]:
        role: Role | None = getattr(message, "role", None)
        if role is None:
            return []
        if isinstance(message, Record):
            metrics.write(role, message.event, message.values)
            if message.event == "warning":
                self.view.say(f"{role}: {message.values.get('text')}", "yellow")
            if message.event == "eval":
                self.view.say(evaluation_line(message.values))
            return []
        actions = machine.told(role, message, now)
        metrics.beat(role, machine.workers[role].values)
        return actions

    def _start(self, by_hand: list[Role]) -> None:
        """Starts each worker as `python -m ROLE --run-dir DIR`, except those the user starts."""
        logs = self.run_dir / "logs"
        logs.mkdir(exist_ok=True)
        # A folder of the user's must not hide a package of ours, and numpy must not take the Boss's cores.
        quiet = {"PYTHONSAFEPATH": "1", "PYTHONUNBUFFERED": "1"}
        with kept_from_children():
            for role in ROLES:
                command = [sys.executable, "-m", role, "--run-dir", str(self.run_dir)]
                if role in by_hand:
                    self.view.say(f"waiting for you to start the {role}: {shlex.join(command)}")
                    continue
                threads = {} if role == "boss" else dict.fromkeys(THREADS, "1")
                with (logs / f"{role}.log").open("ab") as log:
                    self._processes[role] = subprocess.Popen(
                        command,
                        stdin=subprocess.DEVNULL,
                        stdout=log,
                        stderr=log,
                        env={**os.environ, **quiet, **threads},
                        pass_fds=handed.descriptors(self.settings.data) if role == "batcher" else (),
                    )

    def _ended(self, machine: Machine, now: float) -> Iterator[Role]:
        """Workers whose process has ended, once their last words have been read."""
        for role, state in machine.workers.items():
            if state.phase == "gone":
                continue
            process = self._processes.get(role)
            ended = (
                process.poll() is not None
                if process
                else state.phase == "done" or (state.pid and not _exists(state.pid))
            )
            if ended and (state.phase == "done" or now - self._ended_at.setdefault(role, now) >= LAST_WORDS_S):
                yield role

    def _do(self, action: Action, control: Port) -> None:
        if isinstance(action, Tell):
            control.send(action.message, action.role)
        elif action.role in self._processes:
            self._processes[action.role].kill()

    def _kill_all(self) -> None:
        for process in self._processes.values():
            if process.poll() is None:
                process.kill()
            process.wait()


def cpu_seconds(machine: Machine, resume: Resume | None, cpu_before: float) -> dict[str, float]:
    """CPU seconds of each process, with those it had spent before the checkpoint the run went on from; of this one, the
    supervisor, without `cpu_before`."""
    spent: dict[str, float] = {}
    for role, state in machine.workers.items():
        seconds = state.values.get("cpu_s", 0.0)
        spent[role] = seconds if isinstance(seconds, float) else 0.0
    spent["supervisor"] = time.process_time() - cpu_before
    before = resume.manifest["cpu_s"] if resume else {}
    return {who: seconds + before.get(who, 0.0) for who, seconds in spent.items()}


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
