"""Batcher, Boss and Assistant in one process, with the real sockets between them, and a supervisor that listens."""

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import zmq
from toys import numbered

from assistant.config import AssistantConfig
from assistant.history import History
from assistant.inlet import Inlet as AssistantInlet
from assistant.learner import Learner
from assistant.outlet import Outlet as AssistantOutlet
from autoassist.machine import Machine
from batcher.config import BatcherConfig, PolicyConfig
from batcher.core import BatcherCore
from batcher.inlet import Inlet
from batcher.outlet import Outlet
from boss.account import Account
from boss.clock import Clocked
from boss.inlet import Stream
from boss.outlet import LossOutlet
from proto.batches import End
from proto.codec import Codec
from proto.config import RunConfig
from proto.lifecycle import Worker
from proto.messages import ROLES
from proto.slot_receiver import SlotReceiver
from proto.slot_sender import SlotSender
from proto.slots import slot_bytes
from proto.sockets import Port

RUN = "run-1"


class Side:
    """Stands for the `Worker` of one role."""

    sender = Worker.sender

    def __init__(self, circle: "Circle", role: str, deterministic: bool) -> None:
        self.circle, self.role, self.incarnation, self.late = circle, role, 0, False
        self.run = RunConfig(deterministic=deterministic)
        self.peers = dict.fromkeys(ROLES, 0)
        self.stopping = False

    def port(self, channel: str) -> Port:
        return self.circle.port(channel, self.role)

    def wait(self, ports: Any, timeout_ms: int = 0) -> None:
        """The Boss has nothing to do: the others have their turn."""
        self.circle.turn()

    def beat(self) -> None:
        """Whoever waits for room in a queue does this meanwhile: those who read from it have their turn."""
        (self.circle.inlet if self.role == "assistant" else self.circle.assistant_in).pump()


class Circle:
    """All three; `train` goes once round the data set. With a lag a full queue is waited for, as in a deterministic
    run, and what comes of it does not depend on timing."""

    def __init__(self, lag: int | None, budget: float = 1.0) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="aac-")
        self.context: zmq.Context[Any] = zmq.Context()
        self.ports: dict[tuple[str, str], Port] = {}
        config = RunConfig(budget=budget, lag=lag or 8)
        batcher, boss, assistant = (Side(self, role, lag is not None) for role in ROLES)
        core = BatcherCore(config, BatcherConfig(batch_size=8), PolicyConfig(), numbered(200), "toy", lag)
        self.core, self.spec = core, core.spec
        self.learner = Learner(core.spec, AssistantConfig(), ordered=lag is not None)
        history = History(core.spec.train_size, lag) if lag else None
        self.assistant_in = AssistantInlet(assistant, self.learner, lambda mark: None)  # type: ignore[arg-type]
        self.assistant_out = AssistantOutlet(assistant, self.learner, history)  # type: ignore[arg-type]
        if history is not None:
            self.learner.on_version = self.assistant_out.publish
        batches = batcher.port("batches")
        self.sender = SlotSender(batches, 0, core.can_open)
        self.inlet = Inlet(batcher, self.sender, core)  # type: ignore[arg-type]
        self.outlet = Outlet(batcher, batches, self.sender)  # type: ignore[arg-type]
        self.receiver = SlotReceiver(boss.port("batches"), 3, slot_bytes(core.spec))
        self.account = Account()
        self.stream = Stream(boss, boss.port("batches"), self.receiver, 3, 0.0)  # type: ignore[arg-type]
        self.reports = LossOutlet(boss.sender(boss.port("losses")), 64)
        self.machine = Machine("digest", RunConfig(), 0.0)
        self.control, self.status = self.port("control", "supervisor"), self.port("status", "supervisor")
        self.worker: Any = object.__new__(Worker)  # what of a worker hears the supervisor
        self.worker._control, self.worker._stop = self.port("control", "boss"), None
        self.worker.peers, self.worker.late = {}, False
        self.port("status", "boss")
        self._ended = False
        self.ids: list[int] = []

    def port(self, channel: str, party: str) -> Port:
        key = (channel, party)
        if key not in self.ports:
            folder = Path(self._folder.name)
            self.ports[key] = Port(self.context, channel, party, folder, Codec(RUN))  # type: ignore[arg-type]
        return self.ports[key]

    def turn(self) -> None:
        """Everybody but the Boss takes in what has come, and does what it can."""
        self.inlet.pump()
        while self.inlet.credits and not self._ended and self.core.ready:
            message, features = self.core.next(self.inlet.credits.popleft(), 0, self.sender.lend)
            self.outlet.send(message, features)
            self._ended = isinstance(message, End)
        self.assistant_out.hear()
        self.assistant_out.answer()
        if self.assistant_in.pump() and not self.learner.ordered:
            self.assistant_out.publish()
        for sender, message in self.control.receive():
            if sender in ROLES:
                self.machine.told(sender, message, 1.0)  # type: ignore[arg-type]
        for _, message in self.status.receive():
            if (role := getattr(message, "role", None)) is not None:
                self.machine.told(role, message, 1.0)
        _ = self.worker.stopping

    def train(self, between: Any = lambda: None) -> None:
        """The Boss takes every batch and reports a loss that depends on id and time."""
        import torch

        self.stream.open(self.account)
        for step, batch in enumerate(Clocked(self.stream, self.account)):
            if batch.kind == "train":
                self.ids += batch.ids.tolist()
                self.reports.report(batch, step + 1, torch.from_numpy((batch.ids % 7 / (1 + step)).astype(np.float32)))
            self.stream.release(batch)
            between()
        deadline = time.monotonic() + 10
        while not self.reports.flush() or self.learner.version < self.account.batches:
            assert time.monotonic() < deadline, "the last reports have not arrived"
            self.turn()

    def close(self) -> None:
        self.sender.close()
        self.receiver.close()
        # Nothing may be half sent: libzmq aborts when both ends of such a message are closed at the same moment.
        readers = [port for port in self.ports.values() if port.socket.type != zmq.PUSH]
        while ready := [port for port in readers if port.socket.poll(10)]:
            for port in ready:
                list(port.receive())
        for port in self.ports.values():
            port.socket.linger = 0
            port.close()
        self.context.term()
        self._folder.cleanup()
