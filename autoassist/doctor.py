"""`autoassist doctor`: whether this machine has what a run needs, one line for each thing, with what to do about it."""

import mmap
import os
import resource
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import zmq
from rich.console import Console

import proto
from autoassist import crash
from proto import slots
from proto.codec import Codec
from proto.control import Ready
from proto.errors import ConfigError
from proto.sockets import Port, make_socket_dir

FILES_NEEDED = 256
ROOM_BYTES = 64 << 20


class Problem(Exception):
    """What is wrong, and what to do about it."""


def python() -> str:
    return sys.version.split()[0]


def packages() -> str:
    found = crash.versions()[2:]
    if missing := [line for line in found if line.endswith("installed")]:
        raise Problem(f"{'; '.join(missing)}; pip install -e . in the clone of AutoAssist")
    return ", ".join(found)


def torch() -> str:
    try:
        import torch
    except ImportError as error:
        raise Problem(f"cannot be imported ({error}); install torch 2.4 or newer") from None
    return torch.__version__


def cuda() -> str:
    import torch

    if not torch.cuda.is_available():
        return "none; the Boss trains on the CPU"
    names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    torch.zeros(1, device="cuda").item()
    return ", ".join(names)


def memfd() -> str:
    memory = slots.Memory.anonymous(1, mmap.PAGESIZE)
    try:
        slots.Memory.attached(memory.path, memory.inode, 1, memory.size).close()
    finally:
        memory.close()
    return "batches travel in anonymous shared memory"


def shm() -> str:
    free = shutil.disk_usage(slots.SHM).free
    if free < ROOM_BYTES:
        raise Problem(f"{free / 1e6:.0f} MB free; used only where memfd fails (docker run --shm-size=1g)")
    return f"{free / 1e6:.0f} MB free"


def open_files() -> str:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < FILES_NEEDED:
        raise Problem(f"{soft} allowed, {FILES_NEEDED} needed; ulimit -n {min(hard, 1024)}")
    return f"{soft} allowed"


def ipc() -> str:
    """A message through a socket in a directory like those of runs."""
    folder = make_socket_dir()
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    ports = []
    try:
        ports = [Port(context, "control", party, folder, Codec("doctor")) for party in ("supervisor", "boss")]
        ports[1].send(Ready())
        if not ports[0].socket.poll(2000):
            raise Problem(f"no message arrives through {folder}; set TMPDIR to a local folder")
    finally:
        for port in ports:
            port.close()
        context.term()
        shutil.rmtree(folder, ignore_errors=True)
    return f"works in {tempfile.gettempdir()}"


def shadowed() -> str:
    """Whether `proto` is ours: Google's proto-plus has the same import name."""
    ours = Path(__file__).resolve().parents[1]
    found = Path(proto.__file__ or "").resolve()
    if ours not in found.parents:
        raise Problem(f"another package of that name is imported from {found}; use an environment without proto-plus")
    return str(found.parent)


def disk() -> str:
    free = shutil.disk_usage(Path.cwd()).free
    if free < ROOM_BYTES:
        raise Problem(f"{free / 1e6:.0f} MB free in {Path.cwd()}: checkpoints will not fit")
    if not os.access(Path.cwd(), os.W_OK):
        raise Problem(f"{Path.cwd()} cannot be written to; set run.dir")
    return f"{free / 1e9:.1f} GB free in {Path.cwd()}"


CHECKS: dict[str, Callable[[], str]] = {
    "python": python, "packages": packages, "proto": shadowed, "torch": torch, "CUDA": cuda, "memfd": memfd,
    "/dev/shm": shm, "open files": open_files, "ipc": ipc, "disk": disk,
}  # fmt: skip


def examine(console: Console) -> int:
    """Prints the result of every check; returns 1 when something that a run needs is not there, else 0."""
    failed = 0
    for name, check in CHECKS.items():
        try:
            line, style = f"ok    {name}: {check()}", ""
        except (Problem, ConfigError, OSError, RuntimeError, ValueError) as error:
            failed += name != "/dev/shm"  # a run has other ways
            line, style = f"{'WRONG' if name != '/dev/shm' else 'note '} {name}: {error}", "yellow"
        console.print(line, style=style, markup=False, highlight=False, soft_wrap=True)
    return int(failed > 0)
