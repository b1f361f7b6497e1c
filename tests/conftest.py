"""What all tests share: nothing may be left behind, and how to start a run of real processes."""

import contextlib
import gc
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

ROLES = ("batcher", "boss", "assistant")
GRACE_S = 2.0
"""How long after a test something may take to go away."""

T = TypeVar("T")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--frames", type=int, default=2000, help="hostile frames to send (default: %(default)s)")


# -- nothing is left behind


@pytest.fixture(scope="session", autouse=True)
def private_tmpdir(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A TMPDIR of this session's own with a short path (sockets need one): other runs on the machine do not count."""
    tmp_path_factory.getbasetemp()  # stays where pytest keeps it
    before = os.environ.get("TMPDIR")
    with tempfile.TemporaryDirectory(prefix="aat-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        os.environ["TMPDIR"] = tempfile.tempdir = folder
        yield Path(folder)
    tempfile.tempdir = None
    os.environ.pop("TMPDIR")
    if before is not None:
        os.environ["TMPDIR"] = before


@pytest.fixture(autouse=True)
def nothing_leaks(private_tmpdir: Path, request: pytest.FixtureRequest) -> Iterator[None]:
    """Fails a test that leaves a process, thread, file descriptor, socket directory or shared memory behind."""
    before = _resources(private_tmpdir)
    yield
    deadline = time.monotonic() + GRACE_S
    while left := _resources(private_tmpdir) - before:
        if request.node.get_closest_marker("gpu"):  # CUDA keeps threads and descriptors of its own
            left = {(kind, what) for kind, what in left if kind not in ("thread", "descriptor")}
        if not left or time.monotonic() > deadline:
            break
        gc.collect()
        time.sleep(0.05)
    if left:
        pytest.fail("left behind: " + ", ".join(sorted(f"{kind} {what}" for kind, what in left)))


def _resources(tmpdir: Path) -> set[tuple[str, str]]:
    """Everything that a test could leave behind and that is there now, as (kind, what)."""
    found = {("thread", f"{thread.name} ({thread.ident})") for thread in threading.enumerate()}
    found |= {("socket directory", str(path)) for path in tmpdir.rglob(f"aa-{os.getuid()}-*") if path.is_dir()}
    found |= {("process", f"{pid}: {command}") for pid, command in _processes(tmpdir, children=True).items()}
    for fd in os.listdir("/proc/self/fd"):
        try:
            found.add(("descriptor", f"{fd} -> {os.readlink(f'/proc/self/fd/{fd}')}"))
        except OSError:
            pass  # that of the listing itself
    for path in Path("/dev/shm").iterdir():
        try:
            if path.stat().st_uid == os.getuid():
                found.add(("shared memory", str(path)))
        except OSError:
            pass  # gone meanwhile
    return found


def _processes(tmpdir: Path, *, children: bool = False) -> dict[int, str]:
    """Pid and command line of each process that has a TMPDIR in `tmpdir`, with `children` also of every child of ours.

    The TMPDIR finds those that outlived their parent, too.
    """
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            command = (entry / "cmdline").read_text().replace("\0", " ").strip()
            ours = f"TMPDIR={tmpdir}".encode() in (entry / "environ").read_bytes()
        except OSError:
            continue  # gone meanwhile, or another user's
        if (ours or (children and parent == os.getpid())) and "multiprocessing.resource_tracker" not in command:
            found[int(entry.name)] = command or "(a zombie)"
    return found


# -- runs of real processes


class Run:
    """One `autoassist launch` in `folder`, with a TMPDIR of its own. Its output goes to files beside it."""

    def __init__(self, folder: Path, words: tuple[str, ...], tmpdir: Path, command: tuple[str, ...], env: Any) -> None:
        named = next((word.partition("=")[2] for word in words if word.startswith("run.name=")), "r")
        parent = next((word.partition("=")[2] for word in words if word.startswith("run.dir=")), "runs")
        words = (*(word for word in words if not word.startswith("run.name=")), f"run.name={named}")
        self.folder, self.tmpdir, self.run_dir = folder, tmpdir, folder / parent / named
        self._out, self._err = folder / f".{named}.out", folder / f".{named}.err"
        self.seen: dict[str, int] = {}
        """Role -> pid, as they were the last time that `workers` was asked."""
        with self._out.open("w") as out, self._err.open("w") as err:
            self.process = subprocess.Popen(
                [*command, *words],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env={**os.environ, "TMPDIR": str(tmpdir), **env},
                start_new_session=True,
            )

    @property
    def stdout(self) -> str:
        return self._out.read_text()

    @property
    def stderr(self) -> str:
        return self._err.read_text()

    def until(self, condition: Callable[[], T], what: str, timeout: float = 120.0) -> T:
        """Waits for `condition` to be true; returns its value."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            if value := condition():
                return value
            time.sleep(0.02)
        pytest.fail(f"not within {timeout:g} s: {what}\n{self.stdout}\n{self.stderr}")

    def workers(self) -> dict[str, int]:
        """Role -> pid of the workers that are there now."""
        found = {}
        for pid, command in _processes(self.tmpdir).items():
            found |= {role: pid for role in ROLES if f" -m {role} --run-dir" in command}
        self.seen |= found
        return found

    def all_started(self) -> dict[str, int]:
        """Waits until there are three worker processes; role -> pid."""
        return self.until(lambda: found if len(found := self.workers()) == 3 else {}, "three worker processes")

    def training(self, seconds: float = 0.7) -> dict[str, int]:
        """Waits until training and evaluations have gone on for `seconds`, by default for longer than a heartbeat's
        pause; role -> pid."""

        def well_under_way() -> bool:
            times = [record["t"] for record in self.records("eval")]
            return bool(times) and times[-1] - times[0] >= seconds

        self.until(well_under_way, "evaluations")
        return self.all_started()

    def records(self, event: str) -> list[dict[str, Any]]:
        """The lines of metrics.jsonl that have `event`."""
        path = self.run_dir / "metrics.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        return [record for line in lines if line.endswith("}") and (record := json.loads(line))["event"] == event]

    def kill(self, pid: int, number: signal.Signals = signal.SIGKILL) -> None:
        os.kill(pid, number)

    def wait(self, timeout: float = 120.0) -> int:
        """Waits for the end; the exit code."""
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            pytest.fail(f"still there after {timeout:g} s\n{self.stdout}\n{self.stderr}")

    def summary(self) -> dict[str, Any]:
        """summary.json, which must be strict JSON."""

        def refuse(constant: str) -> None:
            raise ValueError(f"{constant} is no JSON")

        found: dict[str, Any] = json.loads((self.run_dir / "summary.json").read_text(), parse_constant=refuse)
        return found

    def left(self) -> list[str]:
        """Processes and socket directories of this run that are there now."""
        return [*_processes(self.tmpdir).values(), *map(str, self.tmpdir.glob("aa-*"))]

    def gone(self, timeout: float) -> None:
        """Waits until nothing of the run is there any more; fails after `timeout` seconds."""
        self.until(lambda: not self.left(), f"the end of {self.left()}", timeout)

    def end(self) -> None:
        """Kills whatever is left."""
        for pid in _processes(self.tmpdir):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.kill()
        self.process.wait()


Start = Callable[..., Run]


def _starter(folder: Path) -> Iterator[Start]:
    runs: list[Run] = []

    def start(
        *words: str, folder: Path = folder, tmpdir: Path | None = None, command: tuple[str, ...] = (), **env: str
    ) -> Run:
        """Starts `autoassist launch WORDS` in `folder`; `env` are further environment variables."""
        tmpdir = tmpdir or Path(tempfile.mkdtemp(prefix="r", dir=tempfile.gettempdir()))
        run = Run(folder, words, tmpdir, command or (sys.executable, "-m", "autoassist", "launch"), env)
        runs.append(run)
        return run

    yield start
    left = [thing for run in runs for thing in run.left()]
    for run in runs:
        run.end()
    if left:
        pytest.fail(f"the run left behind: {', '.join(left)}")


@pytest.fixture
def start_run(tmp_path: Path) -> Iterator[Start]:
    """Starts runs in `tmp_path`; the test must see them end."""
    yield from _starter(tmp_path)


@pytest.fixture(scope="session")
def start_shared_run(private_tmpdir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """Starts runs that several tests look at, from a fixture of a wider scope that sees them end."""
    yield from _starter(tmp_path_factory.mktemp("shared"))
