"""A real Batcher process for benchmarks: this process plays supervisor, Boss and Assistant to it."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import zmq

from autoassist.config import load, to_toml
from autoassist.environment import environment
from proto.batches import Batch, Open
from proto.codec import Codec
from proto.config import RunInfo, read_toml
from proto.control import DataSpec, Failed, Hello, Ready, Start, Stop, Welcome
from proto.learning import Weights
from proto.messages import Message
from proto.slot_receiver import SlotReceiver
from proto.slots import slot_bytes
from proto.sockets import ALIVE, Port, make_socket_dir

M = TypeVar("M", bound=Message)


class Service:
    """`python -m batcher` with the configuration `words`, and slots to it. What it says to the Assistant is dropped."""

    def __init__(self, words: Sequence[str], slots: int = 4, passes: int = 0) -> None:
        """The stream begins in pass `passes`."""
        self.run_dir, self.sockets, self.context = Path(tempfile.mkdtemp()), make_socket_dir(), zmq.Context()
        (self.run_dir / "config.toml").write_text(to_toml(load(None, words)))
        os.mkfifo(self.sockets / ALIVE, 0o600)
        self._alive = os.open(self.sockets / ALIVE, os.O_RDWR)
        RunInfo(run_id="benchmark", socket_dir=self.sockets, supervisor_pid=os.getpid()).save(self.run_dir)
        self.control, self.status = self._port("control", "supervisor"), self._port("status", "supervisor")
        self.weights = self._port("weights", "assistant")
        self.log = (self.run_dir / "log").open("w")
        command = [sys.executable, "-m", "batcher", "--run-dir", str(self.run_dir)]
        self.process = subprocess.Popen(command, env=environment("batcher"), stderr=self.log)
        self._expect(Hello)
        self._tell(Welcome(incarnation=0, digest=read_toml(self.run_dir / "config.toml")[1]))
        self.spec = self._expect(DataSpec)
        self._expect(Ready)
        self._tell(Start(peers={"batcher": 0, "boss": 0, "assistant": 0}))
        self.port = self._port("batches", "boss")
        self.carrier = SlotReceiver(self.port, slots, slot_bytes(self.spec))
        self.carrier.open(Open(incarnation=0, rank=0, slots=slots, eval_every=0.0, passes=passes))
        self._arrived: list[Batch] = []

    def _port(self, channel: str, party: Any) -> Port:
        return Port(self.context, channel, party, self.sockets, Codec("benchmark"))

    def _tell(self, message: Message) -> None:
        self.control.send(message, "batcher")

    def _expect(self, kind: type[M]) -> M:
        while self.process.poll() is None:
            for port in (self.control, self.status):
                for _, message in port.receive():
                    if isinstance(message, kind):
                        return message
                    if isinstance(message, Failed):
                        raise RuntimeError(message.text)
            self.control.socket.poll(50)
        raise RuntimeError(f"the Batcher ended: {(self.run_dir / 'log').read_text()}")

    def publish(self, weights: Weights) -> None:
        """Gives the Batcher a snapshot of the Assistant; waits until it can be sent."""
        while not self.weights.send(weights, "batcher"):
            self.weights.socket.poll(10)

    def next(self, read: Callable[[Any], object]) -> Batch:
        """The next batch, after `read(its inputs)`, already released."""
        while not self._arrived:
            self._arrived = [message for message in self.carrier.receive() if isinstance(message, Batch)][::-1]
            for _ in self.status.receive():
                pass  # heartbeats
            if not self._arrived and not self.port.socket.poll(1000) and self.process.poll() is not None:
                raise RuntimeError(f"the Batcher ended: {(self.run_dir / 'log').read_text()}")
        batch = self._arrived.pop()
        read(batch.arrays["inputs"])
        self.carrier.release(batch)
        return batch

    def close(self) -> None:
        self._tell(Stop(reason="measured"))
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.carrier.close()
        for port in (self.control, self.status, self.weights, self.port):
            port.close()
        self.context.term()
        os.close(self._alive)
        self.log.close()
        shutil.rmtree(self.sockets, ignore_errors=True)
        shutil.rmtree(self.run_dir, ignore_errors=True)
