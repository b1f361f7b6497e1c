"""Starts the three workers, watches them, ends them: the input and output around `autoassist.machine`."""

import contextlib
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from time import process_time
from typing import Any, BinaryIO, Self

import zmq

from autoassist.awake import AwakeClock
from autoassist.checkpoints import Collector
from autoassist.config import Settings
from autoassist.environment import environment
from autoassist.live import View
from autoassist.machine import Machine
from autoassist.metrics import MetricsFile
from autoassist.restarts import Restart
from autoassist.rundir import Watch
from autoassist.state import Action, Kill, Say, Spawn, Tell
from batcher import handed
from proto import slots
from proto.codec import Codec
from proto.config import RunInfo, read_toml
from proto.control import Part, Record
from proto.disk import reason
from proto.errors import ConfigError
from proto.messages import ROLES, Message, Role
from proto.parent import kept_from_children
from proto.sockets import Port, hold, make_socket_dir, refusals, sweep

TICK_MS = 100
LAST_WORDS_S = 0.3
"""How long after a process has ended its last words may still arrive."""


@dataclass(frozen=True)
class Resume:
    """The checkpoint a run goes on from."""

    name: str
    manifest: dict[str, Any]

    @classmethod
    def beginning(cls) -> Self:
        """Where a run goes back to that has no checkpoint yet."""
        return cls("", {"t": 0.0, "trained": 0, "evaluated": 0, "cpu_s": {}})


class Supervisor:
    """One run: three processes and the sockets to them."""

    def __init__(
        self,
        settings: Settings,
        run_dir: Path,
        view: View,
        resume: Resume | None,
        signals: list[int],
        before: Sequence[Restart] = (),
        cpu_before: float = 0.0,
        clock: AwakeClock | None = None,
    ) -> None:
        """In `signals` appear the numbers of those that ask for an end. `before` are the restarts before the run went
        back to the checkpoint of `resume`, by the `clock` of then; `cpu_before`: CPU seconds of this process that are
        not the run's."""
        self.settings, self.run_dir, self.view, self.resume, self.before = settings, run_dir, view, resume, before
        self.signals, self.cpu_before = signals, cpu_before
        self.run_id = f"{settings.run.name}-{os.urandom(4).hex()}"
        self.refused: dict[str, int] = {}
        """Frames that the supervisor itself refused, by channel and kind."""
        self._processes: dict[Role, subprocess.Popen[bytes]] = {}
        self._exits: dict[Role, int] = {}
        """A descriptor for each process that can be read once it has ended."""
        self._ended_at: dict[Role, float] = {}
        self._poller = zmq.Poller()
        self.clock = clock or AwakeClock()

    def run(self) -> Machine:
        """Runs to the end, whatever it is; nothing of it is left when this returns.

        Raises ConfigError when the run directory cannot be written to at the start.
        """
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
            ports.extend(Port(context, channel, "supervisor", socket_dir, codec) for channel in ("control", "status"))
            control, status = ports
            with self.view, self._begin_files(info) as metrics:
                return self._loop(control, status, metrics)
        finally:
            self._kill_all()
            self.refused = refusals(ports)
            for port in ports:
                port.close()
            context.term()
            if alive >= 0:
                os.close(alive)
            shutil.rmtree(socket_dir, ignore_errors=True)

    def _begin_files(self, info: RunInfo) -> MetricsFile:
        try:
            info.save(self.run_dir)
            (self.run_dir / "logs").mkdir(exist_ok=True)
            manifest = self.resume.manifest if self.resume else None
            return MetricsFile(self.run_dir / "metrics.jsonl", manifest, self.view.say)
        except OSError as error:
            raise ConfigError("run.dir", str(self.run_dir), f"cannot be written to: {reason(error)}") from None

    def _loop(self, control: Port, status: Port, metrics: MetricsFile) -> Machine:
        run = self.settings.run
        digest = read_toml(self.run_dir / "config.toml")[1]
        machine = Machine(digest, run, self.clock.now(), self.before)
        for role in ROLES:
            self._start(role, machine)

        def facts() -> dict[str, Any]:
            return {"t": metrics.t, "cpu_s": cpu_seconds(machine, self.resume, self.cpu_before)}

        collector = Collector(self.run_dir, facts, self.view.say)
        watch = Watch(self.run_dir)
        for port in (control, status):
            self._poller.register(port.socket, zmq.POLLIN)
        while not machine.finished:
            self._poller.poll(TICK_MS)
            now = self.clock.now()
            actions: list[Action] = []
            for sender, message in control.receive():
                if isinstance(message, Part) and sender in ROLES:
                    collector.add(sender, message)
                elif sender in ROLES:
                    actions += machine.told(sender, message, now)
            for _, message in status.receive():
                actions += self._heard(machine, metrics, message, now)
            for role in self._ended(machine, now):
                actions += machine.exited(role, self._forget(role), now)
            if problem := watch.problem():
                actions += machine.lost(problem, now)
            while self.signals:
                actions += machine.signalled(self.signals.pop(0), now)
            actions += machine.ticked(now)
            for action in actions:
                self._do(action, machine, control, metrics)
            self.view.update(machine.workers)
        if not run.deterministic:
            collector.settle()
        return machine

    def _heard(self, machine: Machine, metrics: MetricsFile, message: Message, now: float) -> list[Action]:
        role: Role | None = getattr(message, "role", None)
        if role is None:
            return []
        if isinstance(message, Record):
            metrics.write(role, message.event, message.values)
            if message.event == "warning":
                self.view.say_of(f"warning of {role}", f"{role}: {message.values.get('text')}", "yellow")
            if message.event == "eval":
                self.view.evaluated(message.values)
            if message.event == "gate":
                self.view.gate(message.values)
            return []
        actions = machine.told(role, message, now)
        state = machine.workers[role]
        if state.values:
            metrics.beat(role, {"pid": state.pid, **state.values})
        return actions

    def _start(self, role: Role, machine: Machine) -> None:
        """Starts worker `role` as `python -m ROLE --run-dir DIR`, unless the user does."""
        command = [sys.executable, "-m", role, "--run-dir", str(self.run_dir)]
        if role in self.settings.run.by_hand:
            self.view.say(f"waiting for you to start the {role}: {shlex.join(command)}")
            return
        with kept_from_children(), self._log_of(role) as file:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                env=environment(role),
                pass_fds=handed.descriptors(self.settings.data) if role == "batcher" else (),
            )
        self._processes[role] = process
        self._exits[role] = os.pidfd_open(process.pid)
        self._poller.register(self._exits[role], zmq.POLLIN)
        machine.spawned(role, process.pid, self.clock.now())

    def _log_of(self, role: Role) -> BinaryIO:
        """Where what `role` says goes to: nowhere, where the disk refuses, since a worker without a log beats none."""
        try:
            return (self.run_dir / "logs" / f"{role}.log").open("ab")
        except OSError as error:
            self.view.say(f"no log of the {role}: {reason(error)}", "yellow")
            return open(os.devnull, "ab")

    def _ended(self, machine: Machine, now: float) -> Iterator[Role]:
        """Workers whose process has ended, once their last words have been read."""
        for role, state in machine.workers.items():
            if state.phase in ("waiting", "gone"):
                continue
            process = self._processes.get(role)
            ended = (
                process.poll() is not None
                if process
                else state.phase == "done" or (state.pid and not _exists(state.pid))
            )
            if ended:
                self._unwatch(role)
            # One that was killed had none.
            silent = state.phase in ("done", "failing") or (process is not None and (process.returncode or 0) < 0)
            if ended and (silent or now - self._ended_at.setdefault(role, now) >= LAST_WORDS_S):
                yield role

    def _forget(self, role: Role) -> int:
        """Gives up what is held of the process of worker `role`, which has ended; its exit code."""
        self._ended_at.pop(role, None)
        self._unwatch(role)
        return self._processes[role].returncode if role in self._processes else 0

    def _unwatch(self, role: Role) -> None:
        if role in self._exits:
            descriptor = self._exits.pop(role)
            self._poller.unregister(descriptor)
            os.close(descriptor)

    def _do(self, action: Action, machine: Machine, control: Port, metrics: MetricsFile) -> None:
        match action:
            case Tell():
                control.send(action.message, action.role)
            case Spawn():
                self._start(action.role, machine)
            case Kill() if action.role in self._processes:
                self._processes[action.role].kill()
            case Say():
                self.view.say(action.text, "yellow")
                what = {"worker": action.role, "pid": action.pid, "step": machine.step, "text": action.text}
                metrics.write("supervisor", "event", what)
                begin = f"{datetime.now():%F %T} supervisor {os.getpid()} step {machine.step}"
                self._note(f"{begin} {action.role} {action.pid}: {action.text}\n")
            case _:
                pass

    def _note(self, line: str) -> None:
        """Adds `line` to the supervisor's log, which a disk that refuses it does not get."""
        with contextlib.suppress(OSError), (self.run_dir / "logs" / "supervisor.log").open("a") as file:
            file.write(line)

    def _kill_all(self) -> None:
        for role, process in self._processes.items():
            if process.poll() is None:
                process.kill()
            process.wait()
            self._forget(role)


def cpu_seconds(machine: Machine, resume: Resume | None, cpu_before: float) -> dict[str, float]:
    """CPU seconds of each process, with those it had spent before the checkpoint the run went on from; of this one, the
    supervisor, without `cpu_before`."""
    spent: dict[str, float] = {}
    for role, state in machine.workers.items():
        seconds = state.metrics.get("cpu_s", 0.0)
        spent[role] = seconds if isinstance(seconds, float) else 0.0
    spent["supervisor"] = process_time() - cpu_before
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
