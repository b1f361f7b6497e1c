"""What is known of a run that a failure ended, in one file to send to somebody: `crash.txt` in its run directory."""

import os
import platform
import shutil
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from proto.disk import tail
from proto.messages import ROLES

LINES = 50
TAIL_BYTES = 1 << 16
"""Of a log, in which what the user's code prints may be gigabytes, and one line."""
PACKAGES = ("autoassist", "torch", "torchvision", "numpy", "pyzmq", "msgpack", "pydantic", "safetensors")


def write(run_dir: Path, reason: str) -> Path | None:
    """Writes the report; returns its path, or None where the disk does not take it."""
    path = run_dir / "crash.txt"
    parts = [
        ("what happened", reason),
        ("versions", "\n".join(versions())),
        ("machine", "\n".join(resources(run_dir))),
        *((f"last {LINES} lines of {role}", _tail(run_dir / "logs" / f"{role}.log")) for role in ROLES),
        ("what the supervisor did", _tail(run_dir / "logs" / "supervisor.log")),
        ("configuration", _text(run_dir / "config.toml")),
    ]
    try:
        path.write_text("".join(f"== {title}\n{text.rstrip()}\n\n" for title, text in parts))
    except OSError:
        return None
    return path


def versions() -> list[str]:
    """Python, the system, and each package that matters, with its version."""
    found = [f"python {platform.python_version()}", platform.platform()]
    for package in PACKAGES:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            found.append(f"{package} is not installed")
    return found


def resources(folder: Path) -> list[str]:
    """Free memory, free space where `folder` is and in /dev/shm, and the load."""
    lines = [line for line in _text(Path("/proc/meminfo")).splitlines() if line.startswith(("MemTotal", "MemAvail"))]
    for place in (folder, Path("/dev/shm")):
        try:
            usage = shutil.disk_usage(place)
            lines.append(f"{place}: {usage.free / 1e9:.2f} of {usage.total / 1e9:.2f} GB free")
        except OSError as error:
            lines.append(f"{place}: {error.strerror}")
    return [*lines, f"load {os.getloadavg()[0]:.2f} on {os.cpu_count()} cores"]


def _tail(path: Path) -> str:
    try:
        return "\n".join(tail(path, TAIL_BYTES).splitlines()[-LINES:]) or "(nothing)"
    except OSError:
        return "(no log)"


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError as error:
        return f"({error.strerror})"
