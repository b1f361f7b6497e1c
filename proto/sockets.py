"""Ports: a zmq socket of the channel table that sends and receives messages, never blocks and never raises on a frame.

Sockets live in a private directory (mode 0700) with a short path, because ipc paths over 107 characters fail.
"""

import logging
import os
import shutil
import stat
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import zmq

from proto.channels import CHANNELS, Party
from proto.codec import MAX_FRAMES, Codec
from proto.disk import reason
from proto.errors import ConfigError, Refused
from proto.messages import Message

log = logging.getLogger(__name__)

IPC_PATH_LIMIT = 107
AT_ONCE = 256
"""Messages taken from a socket in one go: whoever sends without end must not keep a loop from its other work."""
ALIVE = "alive"
"""Name of the FIFO in the socket directory that reads EOF once the supervisor is dead."""


def make_socket_dir() -> Path:
    """A new private directory for the sockets of one run, named so that `sweep` knows it. Raises ConfigError."""
    try:
        path = Path(tempfile.mkdtemp(prefix=f"aa-{os.getuid()}-"))
    except OSError as error:
        problem = f"no directory for the sockets can be made: {reason(error)}; name a folder that can be written to"
        raise ConfigError("TMPDIR", os.environ.get("TMPDIR", ""), problem) from None
    if len(str(path / "control")) + 8 > IPC_PATH_LIMIT:
        path.rmdir()
        raise ConfigError("TMPDIR", tempfile.gettempdir(), "too long for ipc sockets; set a shorter one")
    return path


def sweep() -> None:
    """Removes what runs left behind that were killed with all their workers: directories whose FIFO has no writer."""
    try:
        folder = Path(tempfile.gettempdir())
    except OSError:
        return  # there is none that could be written to
    for path in folder.glob(f"aa-{os.getuid()}-*"):
        try:
            check_socket_dir(path)
            fifo = os.open(path / ALIVE, os.O_RDONLY | os.O_NONBLOCK)
        except (OSError, ValueError):
            continue  # not ours, or just being made
        try:
            if not has_writer(fifo):
                shutil.rmtree(path, ignore_errors=True)
        finally:
            os.close(fifo)


def hold(folder: Path) -> int:
    """Makes `folder` one that `sweep` leaves alone, and whose FIFO reads EOF, while the descriptor returned is open."""
    begun = folder / f"{ALIVE}-begun"
    os.mkfifo(begun, 0o600)
    # Open for both, so that this does not wait for a reader. Under its name only once it has a writer, or another run
    # would take us for dead and sweep.
    descriptor = os.open(begun, os.O_RDWR)
    begun.rename(folder / ALIVE)
    return descriptor


def has_writer(fifo: int) -> bool:
    """Whether the FIFO open for reading at descriptor `fifo` has a writer: whether its supervisor lives."""
    try:
        return os.read(fifo, 1) != b""
    except BlockingIOError:
        return True


def check_socket_dir(path: Path) -> None:
    """Raises ValueError unless `path` is a directory of ours that nobody else can enter."""
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise ValueError(f"{path} is not a private directory of this user (mode 0700); refusing to use it")


class Port:
    """One end of a channel."""

    def __init__(
        self, context: zmq.Context[zmq.Socket[bytes]], channel: str, party: Party, socket_dir: Path, codec: Codec
    ) -> None:
        """Binds when `party` is the one that binds `channel`, else connects. `party` is its routing id."""
        row = CHANNELS[channel]
        binds = row.binds == party
        assert binds or party in row.connects, f"{party} has no end of channel {channel}"
        self.channel, self.codec = channel, codec
        self.socket = context.socket(row.binder if binds else row.connector)
        self.routed = self.socket.type == zmq.ROUTER
        self.socket.linger = row.linger_ms
        self.socket.sndhwm = self.socket.rcvhwm = row.hwm
        self.socket.maxmsgsize = row.max_bytes
        if self.routed:
            self.socket.router_mandatory = True
            self.socket.router_handover = True
        elif self.socket.type == zmq.DEALER:
            self.socket.routing_id = party.encode()
        endpoint = f"ipc://{socket_dir / channel}"
        if binds:
            self.socket.bind(endpoint)
        else:
            self.socket.connect(endpoint)
        self.refused: Counter[str] = Counter()

    def send(self, message: Message, to: str = "", *, copy: bool = True) -> bool:
        """Queues `message`, for the peer named `to` on a routed channel; False when that is full or away.

        With `copy=False` the arrays must not change until the peer has answered.
        """
        frames = self.codec.encode(message)
        if self.routed:
            frames.insert(0, to.encode())
        try:
            self.socket.send_multipart(frames, zmq.NOBLOCK, copy=copy)
        except zmq.Again:
            return False
        except zmq.ZMQError as error:
            if error.errno != zmq.EHOSTUNREACH:
                raise
            return False
        return True

    def receive(self) -> Iterator[tuple[str, Message]]:
        """What has arrived, as (sender, message); the sender is "" where the channel does not name it.

        A frame that does not validate is counted in `refused`, logged once per kind, and dropped.
        """
        for _ in range(AT_ONCE):
            if not self.socket.poll(0):  # asked before, not tried: an exception costs more than reading a message
                return
            frames = self._frames()
            sender = frames.pop(0).bytes.decode("utf-8", "replace") if self.routed else ""
            try:
                message = self.codec.decode([frame.buffer for frame in frames])
            except Refused as refusal:
                self.refuse(refusal)
                continue
            yield sender, message

    def _frames(self) -> list[zmq.Frame]:
        """The frames of the next message, of those over what a message can have one only."""
        frames = [self.socket.recv(zmq.NOBLOCK, copy=False)]
        while frames[-1].more:
            frame = self.socket.recv(zmq.NOBLOCK, copy=False)
            if len(frames) > MAX_FRAMES + 1:
                frames.pop()  # a message of a million frames must not take the memory of a million
            frames.append(frame)
        return frames

    def refuse(self, refusal: Refused) -> None:
        """Counts what was refused; the first of its kind is logged."""
        if not self.refused[refusal.kind]:
            text = "%s: refused a frame (%s): %s; more of this kind are only counted"
            log.warning(text, self.channel, refusal.kind, str(refusal))
        self.refused[refusal.kind] += 1

    def close(self) -> None:
        self.socket.close()


def refusals(ports: Iterable[Port]) -> dict[str, int]:
    """How many frames `ports` have refused, by "channel_kind"."""
    return {f"{port.channel}_{kind}": n for port in ports for kind, n in port.refused.items()}
