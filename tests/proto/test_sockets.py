import contextlib
import logging
import os
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import zmq
from toys import batch, losses

from proto.batches import Batch, Credit
from proto.channels import CHANNELS
from proto.codec import Codec
from proto.control import Hello, Ready
from proto.errors import ConfigError
from proto.learning import Losses
from proto.messages import Message
from proto.sockets import ALIVE, Port, check_socket_dir, has_writer, make_socket_dir, sweep
from proto.transport import FrameCarrier

Connect = Callable[..., Port]


@pytest.fixture
def tmp(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    # pytest's own folders are too long for ipc.
    with tempfile.TemporaryDirectory(prefix="aat-") as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield Path(folder)


@pytest.fixture
def port(tmp: Path) -> Iterator[Connect]:
    """Makes ports that are closed when the test ends."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    ports = []

    def make(channel: str, party: str, run_id: str = "r") -> Port:
        ports.append(Port(context, channel, party, tmp, Codec(run_id)))  # type: ignore[arg-type]
        return ports[-1]

    yield make
    for made in ports:
        made.close()
    context.term()


def await_messages(port: Port, n: int = 1) -> list[tuple[str, Message]]:
    found: list[tuple[str, Message]] = []
    deadline = time.monotonic() + 5
    while len(found) < n and time.monotonic() < deadline:
        port.socket.poll(50)
        found += port.receive()
    return found


def await_refusals(port: Port, n: int) -> None:
    deadline = time.monotonic() + 5
    while port.refused.total() < n and time.monotonic() < deadline:
        port.socket.poll(50)
        assert list(port.receive()) == []


def test_every_end_of_every_channel_can_be_made(port: Connect) -> None:
    for name, row in CHANNELS.items():
        assert port(name, row.binds).socket.type == row.binder
        for party in row.connects:
            assert port(name, party).socket.type == row.connector


def test_messages_travel_both_ways_of_a_routed_channel(port: Connect) -> None:
    supervisor, boss = port("control", "supervisor"), port("control", "boss")
    hello = Hello(role="boss", pid=1, version="0")
    assert boss.send(hello)
    assert await_messages(supervisor) == [("boss", hello)]
    assert supervisor.send(Ready(), "boss")
    assert await_messages(boss) == [("", Ready())]


def test_sending_to_a_peer_that_is_away_says_so(port: Connect) -> None:
    assert not port("control", "supervisor").send(Ready(), "boss")


def test_a_full_channel_never_blocks(port: Connect) -> None:
    sender = port("losses", "boss")
    hwm = CHANNELS["losses"].hwm
    assert [sender.send(losses(i, [1], [0.5])) for i in range(hwm + 1)] == [True] * hwm + [False]


def test_receiving_from_a_silent_channel_returns_at_once(port: Connect) -> None:
    assert list(port("losses", "assistant").receive()) == []


def test_bad_frames_are_counted_by_kind_logged_once_and_do_not_hide_good_ones(
    port: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    sender, receiver = port("losses", "boss"), port("losses", "assistant")
    stranger = port("losses", "boss", "another run")
    for _ in range(3):
        sender.socket.send_multipart([b"garbage"])
        stranger.send(losses(1, [1], [0.5]))
    with caplog.at_level(logging.WARNING):
        await_refusals(receiver, 6)
    assert receiver.refused == {"header": 3, "run": 3}
    assert len(caplog.records) == 2
    assert sender.send(losses(7, [1], [0.5]))
    [(_, message)] = await_messages(receiver)
    assert isinstance(message, Losses)
    assert message.batch_id == 7


def test_a_claim_of_a_gigabyte_costs_no_memory_and_only_the_one_who_made_it_its_connection(
    port: Connect, tmp: Path
) -> None:
    supervisor, boss = port("control", "supervisor"), port("control", "boss")
    before = int(Path("/proc/self/statm").read_text().split()[1])
    greeting = b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32)
    ready = b"\x05READY\x0bSocket-Type" + (6).to_bytes(4, "big") + b"DEALER"
    for claim in (1 << 30, (1 << 63) - 1):
        with socket.socket(socket.AF_UNIX) as raw:
            raw.connect(str(tmp / "control"))
            raw.sendall(greeting + bytes([4, len(ready)]) + ready)
            raw.sendall(b"\x02" + claim.to_bytes(8, "big") + b"x" * 1000)
            raw.settimeout(5)
            with contextlib.suppress(ConnectionError):
                while raw.recv(4096):  # until the other side hangs up
                    pass
    assert int(Path("/proc/self/statm").read_text().split()[1]) - before < 5000, "pages"
    assert boss.send(Ready())
    assert await_messages(supervisor) == [("boss", Ready())]


def test_frames_beyond_what_a_message_can_have_are_not_kept(port: Connect) -> None:
    supervisor, boss = port("control", "supervisor"), port("control", "boss")
    boss.socket.send_multipart([b"x"] * 20_000)
    await_refusals(supervisor, 1)
    assert boss.send(Ready())
    assert await_messages(supervisor) == [("boss", Ready())]


def test_a_routed_channel_survives_an_empty_message(port: Connect) -> None:
    supervisor, boss = port("control", "supervisor"), port("control", "boss")
    boss.socket.send_multipart([b""])
    await_refusals(supervisor, 1)
    assert supervisor.refused == {"header": 1}


def test_frames_carry_a_batch_and_its_credit(port: Connect) -> None:
    batcher, boss = FrameCarrier(port("batches", "batcher")), FrameCarrier(port("batches", "boss"))
    boss.port.send(Credit(slot=1, seq=0, incarnation=0))
    assert await_messages(batcher.port)[0][0] == "boss"
    layout = {"inputs": ((4, 6), np.dtype(np.uint8)), "targets": ((4,), np.dtype(np.int64))}
    arrays = batcher.lend(1, layout)
    arrays["inputs"][:], arrays["targets"][:] = np.arange(24).reshape(4, 6), [3, 2, 1, 0]
    assert batcher.send(batch(range(4), arrays=arrays), "boss")
    boss.port.socket.poll(5000)
    [got] = boss.receive()
    assert isinstance(got, Batch)
    np.testing.assert_array_equal(got.arrays["inputs"], np.arange(24).reshape(4, 6))
    np.testing.assert_array_equal(got.arrays["targets"], [3, 2, 1, 0])


def test_a_socket_folder_is_private(tmp: Path) -> None:
    path = make_socket_dir()
    check_socket_dir(path)
    assert path.stat().st_mode & 0o777 == 0o700


def test_a_temporary_folder_too_long_for_sockets_is_refused_without_a_trace(
    tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp / ("x" * 90)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    with pytest.raises(ValueError, match="TMPDIR"):
        make_socket_dir()
    assert list(deep.iterdir()) == []


def test_where_no_temporary_folder_can_be_written_to_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> str:
        raise FileNotFoundError(2, "No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", none)
    sweep()
    with pytest.raises(ConfigError, match=r"^TMPDIR = .*: no directory for the sockets can be made: No usable"):
        make_socket_dir()


def test_a_folder_others_can_enter_is_refused(tmp: Path) -> None:
    path = make_socket_dir()
    path.chmod(0o750)
    with pytest.raises(ValueError, match="0700"):
        check_socket_dir(path)
    link = tmp / "link"
    link.symlink_to(tmp)
    with pytest.raises(ValueError, match="0700"):
        check_socket_dir(link)


def test_sweeping_removes_only_folders_whose_supervisor_is_dead(tmp: Path) -> None:
    dead, living, young = make_socket_dir(), make_socket_dir(), make_socket_dir()
    for path in (dead, living):
        os.mkfifo(path / ALIVE)
    alive = os.open(living / ALIVE, os.O_RDWR)
    try:
        sweep()
        assert not dead.exists()
        assert living.exists()
        assert young.exists()  # no FIFO yet: just being made
    finally:
        os.close(alive)


def test_a_fifo_tells_whether_its_writer_lives(tmp: Path) -> None:
    fifo = tmp / ALIVE
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    writer = os.open(fifo, os.O_WRONLY)
    assert has_writer(reader)
    os.close(writer)
    assert not has_writer(reader)
    os.close(reader)
