"""The life of a worker: HELLO, configuration, READY, start, heartbeats, stop, last words.

`run_worker` is the whole of a worker's `__main__`; its body gets a `Worker` and returns when its work is done or
`worker.stopping` is set.
"""

import argparse
import logging
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Literal, Protocol, TypeVar

import zmq

from proto.codec import Codec
from proto.config import RunConfig, RunInfo, Section, read_toml
from proto.control import Beat, Done, Failed, Hello, Record, Release, Start, Stop, Welcome
from proto.errors import ConfigError, raised
from proto.messages import Message, Role, Value
from proto.parent import outlive_sigterm
from proto.sockets import ALIVE, Port, check_socket_dir, has_writer, refusals

log = logging.getLogger(__name__)

WAIT_MS = 100
"""No wait is longer, so a signal's flag is seen soon."""
BEAT_S = 0.5
ORPHAN_GRACE_S = 1.0
"""How long a worker may take to end once its supervisor is dead."""

M = TypeVar("M", bound=Message)
S = TypeVar("S", bound=Section)


class Stopped(Exception):
    """The supervisor asked this worker to stop before it had started."""


class Closes(Protocol):
    """Something that holds what must be given back."""

    def close(self) -> None: ...


class Worker:
    """What a worker knows of its run, and its line to the supervisor."""

    def __init__(self, role: Role, run_dir: Path) -> None:
        """Raises ConfigError when `run_dir` is not the directory of a run under way."""
        self.role: Role = role
        self.run_dir = run_dir.absolute()  # the user's code may change the working directory
        self.info = RunInfo.load(run_dir)
        self.sections, self._digest = read_toml(run_dir / "config.toml")
        try:
            check_socket_dir(self.info.socket_dir)
        except OSError:
            raise ConfigError(
                "--run-dir", str(run_dir), "this run is over; start it with `autoassist launch`"
            ) from None
        self.run = self.section("run", RunConfig)
        self.incarnation = 0
        self.peers: dict[Role, int] = {}
        """The incarnations of all workers; another one when a worker was started anew."""
        self.late = False
        """True when another worker of this role was there before this one, and died."""
        self.metrics: Callable[[], dict[str, Value]] = dict
        """What the worker's heartbeats and last words report; its body sets it."""
        self.patience_s = 0.0
        """How long the last messages to this worker may take to arrive, once it is to stop."""
        self.cpu_elsewhere: Callable[[], float] = lambda: 0.0
        """CPU seconds of the processes that this worker has started; its body sets it."""
        self.hold_s = 0.0
        """How long to keep the sockets after the last words, unless the supervisor says `Release` before."""
        self.orphaned = False
        """True once the supervisor is dead: nothing that needs it is worth beginning."""
        self._stop: str | None = None
        self._last_beat = 0.0
        self._beats_dropped = 0
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._codec = Codec(self.info.run_id)
        self._ports: list[Port] = []
        self._owned: list[Closes] = []
        self._control = self.port("control")
        self._status = self.port("status")

    def guard(self) -> None:
        """Ends this process with its supervisor, and only when that says so: for one that has no other purpose."""
        outlive_sigterm()
        threading.Thread(target=self._watch_supervisor, name="supervisor-watch", daemon=True).start()

    # -- handshake

    def hello(self) -> None:
        """Says who we are, and checks that supervisor and worker read the same configuration."""
        self._control.send(Hello(role=self.role, pid=os.getpid(), version=version("autoassist")))
        welcome = self.expect(Welcome)
        if welcome.digest != self._digest:
            raise ConfigError("--run-dir", str(self.run_dir), "config.toml changed after launch; start the run again")
        self.incarnation = welcome.incarnation

    def section(self, name: str, cls: type[S]) -> S:
        """Section `name` of the run's configuration; raises ConfigError."""
        return cls.read(name, self.sections.get(name, {}))

    def port(self, channel: str) -> Port:
        """This worker's end of `channel`; closed with the worker."""
        port = Port(self._context, channel, self.role, self.info.socket_dir, self._codec)
        self._ports.append(port)
        return port

    def owns(self, thing: Closes) -> None:
        """`thing` is closed with the worker, before its ports."""
        self._owned.append(thing)

    def tell(self, message: Message) -> None:
        """Sends `message` to the supervisor's control socket."""
        self._control.send(message)

    def expect(self, kind: type[M]) -> M:
        """Waits for the supervisor's `kind`; raises Stopped when it says stop instead."""
        while True:
            for _, message in self._control.receive():
                self._obey(message)
                if isinstance(message, kind):
                    return message
            if self._stop is not None:
                raise Stopped(self._stop)
            self.wait([])

    # -- while it runs

    @property
    def stopping(self) -> bool:
        """True once the supervisor said stop, or died."""
        for _, message in self._control.receive():
            self._obey(message)
        return self._stop is not None

    def stop(self, reason: str) -> None:
        self._stop = self._stop or reason

    def _obey(self, message: Message) -> None:
        match message:
            case Stop():
                self.patience_s = message.patience_s
                self.stop(message.reason)
            case Start():
                self.peers, self.late = dict(message.peers), self.late or message.late
            case _:
                pass

    def wait(self, ports: Iterable[Port], timeout_ms: int = WAIT_MS) -> None:
        """Sleeps until something arrives on `ports` or on the control channel, at most `timeout_ms`."""
        poller = zmq.Poller()
        for port in (self._control, *ports):
            poller.register(port.socket, zmq.POLLIN)
        poller.poll(timeout_ms)
        if not self.supervised():
            self.orphaned = True
            self.stop("the supervisor is gone")

    def supervised(self) -> bool:
        """Whether the supervisor lives; a guarded process need not ask."""
        return True

    def sender(self, port: Port, to: str = "") -> Callable[[Message], bool]:
        """How this run sends on a queue that may be full: once, or, where it must be deterministic, until it fits."""
        if not self.run.deterministic:
            return lambda message: port.send(message, to)

        def patiently(message: Message) -> bool:
            while not port.send(message, to):
                if self.stopping or not self.supervised():
                    return False
                time.sleep(0.0005)
                self.beat()
            return True

        return patiently

    def beat(self) -> None:
        """Reports `metrics` to the supervisor, at most every half second."""
        now = time.monotonic()
        if now - self._last_beat >= BEAT_S:
            self._last_beat = now
            self._beats_dropped += not self._status.send(Beat(role=self.role, pid=os.getpid(), values=self._values()))

    def record(self, event: str, values: dict[str, Value]) -> None:
        """Has the supervisor write `values` to metrics.jsonl as `event`."""
        self._beats_dropped += not self._status.send(Record(role=self.role, event=event, values=values))

    def warn(self, text: str) -> None:
        """Something the user should see now: logged, and shown by the supervisor."""
        log.warning("%s", text)
        self.record("warning", {"text": text})

    def last_words(self, message: Message) -> None:
        """Sends `message` on the status channel, trying for up to a second: it must arrive."""
        deadline = time.monotonic() + 1.0
        while not self._status.send(message) and time.monotonic() < deadline:
            time.sleep(0.01)

    def done(self) -> Done:
        return Done(role=self.role, pid=os.getpid(), values=self._values())

    def failed(self, kind: Literal["config", "crash"], text: str) -> Failed:
        try:
            values = self._values()
        except Exception:  # what crashed may be what counts; the error itself must be told all the same
            log.exception("no final metrics")
            values = {}
        return Failed(role=self.role, pid=os.getpid(), kind=kind, text=text, values=values)

    def _values(self) -> dict[str, Value]:
        refused = {f"refused_{kind}": n for kind, n in refusals(self._ports).items()}
        cpu_s = time.process_time() + self.cpu_elsewhere()
        return {**self.metrics(), **refused, "cpu_s": cpu_s, "status_dropped": self._beats_dropped}

    def hold(self) -> None:
        """Keeps the sockets open until the supervisor says `Release`, at most `hold_s` seconds."""
        deadline = time.monotonic() + self.hold_s
        while not self.orphaned and time.monotonic() < deadline:
            if any(isinstance(message, Release) for _, message in self._control.receive()):
                return
            self._control.socket.poll(WAIT_MS)

    def close(self) -> None:
        """Closes every socket; ends within the longest linger of the channel table."""
        for thing in (*self._owned, *self._ports):
            thing.close()
        self._context.term()

    def _watch_supervisor(self) -> None:
        """Ends this process when the supervisor dies, whatever the main thread is busy with."""
        try:
            fifo = os.open(self.info.socket_dir / ALIVE, os.O_RDONLY | os.O_NONBLOCK)
            while has_writer(fifo):
                time.sleep(0.25)
        except OSError:
            pass  # the directory is gone, and so is its supervisor
        if self._stop is None or self.info.socket_dir.exists():
            log.warning("the supervisor (pid %d) is gone; ending", self.info.supervisor_pid)
        self.orphaned = True
        self.stop("the supervisor is gone")
        # Nobody else is left to do it; open connections go on without their files.
        shutil.rmtree(self.info.socket_dir, ignore_errors=True)
        time.sleep(ORPHAN_GRACE_S)
        os._exit(1)


def run_worker(role: Role, body: Callable[[Worker], None]) -> int:
    """Runs `body` as worker `role` of the run named on the command line.

    Returns the exit code: 0, 1 for a crash, 2 for what the user can mend.
    """
    parser = argparse.ArgumentParser(
        prog=f"python -m {role}", description=f"The {role} of a run; `autoassist launch` starts it."
    )
    parser.add_argument("--run-dir", type=Path, required=True, help="run directory that `autoassist launch` made")
    logging.basicConfig(
        level=logging.INFO, stream=sys.stderr, format=f"%(asctime)s {role} %(process)d %(levelname)s %(message)s"
    )
    try:
        worker = Worker(role, parser.parse_args().run_dir)
    except ValueError as error:
        print(f"{role}: {error}", file=sys.stderr)
        return 2
    try:
        worker.guard()
        worker.hello()
        body(worker)
        worker.last_words(worker.done())
        log.info("done")
        worker.hold()
    except Stopped as stopped:
        worker.last_words(worker.done())
        log.info("stopped before the start: %s", stopped)
    except ConfigError as error:
        log.error("%s", error)
        worker.last_words(worker.failed("config", str(error)))
        return 2
    except BaseException as error:  # the outermost loop of the process: everything ends in the log and in one line
        log.exception("crashed")  # KeyboardInterrupt, too: no Ctrl-C gets here, but what user code raises does
        worker.last_words(worker.failed("crash", raised(error)))
        return 1
    finally:
        worker.close()
    return 0
