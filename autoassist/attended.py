"""The supervising process of a training loop, as the loop's process sees it: its start, the line to it, its end."""

import contextlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from autoassist.attendant import OUTCOME
from autoassist.config import Settings
from batcher.handed import descriptors
from proto.config import RunInfo
from proto.errors import ConfigError
from proto.lifecycle import Worker
from proto.parent import kept_from_children

START_S = 60.0
"""How long the supervising process may take to open its sockets."""
END_S = 20.0
"""How long the supervising process may take to end; it gives its workers less."""


class Attended:
    """A process that runs `autoassist.attendant`."""

    def __init__(self, settings: Settings, run_dir: Path, *, temporary: bool) -> None:
        """Starts it. `temporary`: it removes the run directory when this process is killed."""
        self._run_dir = run_dir
        command = [sys.executable, "-m", "autoassist.attendant", "--run-dir", str(run_dir)]
        command += ["--owner", str(os.getpid()), *(["--temporary"] if temporary else [])]
        with kept_from_children():
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                bufsize=0,
                stdout=subprocess.DEVNULL,
                pass_fds=descriptors(settings.data),
                env={**os.environ, "PYTHONSAFEPATH": "1"},
            )

    @property
    def lives(self) -> bool:
        return self.process.poll() is None

    def connect(self) -> "Guest | None":
        """The line to it, once its sockets are open; None when it ends before, or takes too long."""
        deadline = time.monotonic() + START_S
        while self.lives and time.monotonic() < deadline:
            with contextlib.suppress(ConfigError):  # not there yet, or not whole
                RunInfo.load(self._run_dir)
                return Guest(self._run_dir, self)
            time.sleep(0.005)
        return None

    def end(self, *, asked: bool) -> None:
        """Waits for its end; unless it was `asked` to end, it is now."""
        assert self.process.stdin is not None, "it was started with a pipe"
        with self.process.stdin as line:
            if not asked:
                with contextlib.suppress(BrokenPipeError):  # it has ended
                    line.write(b".")  # that it is closed shows only once no forked child has it any more
            try:
                self.process.wait(END_S)
            except subprocess.TimeoutExpired:
                self.process.kill()  # the workers notice
                self.process.wait()

    def outcome(self) -> dict[str, Any]:
        """How the run ended, and the last metrics of each worker; nothing when it was killed."""
        with contextlib.suppress(OSError, ValueError):
            found: dict[str, Any] = json.loads((self._run_dir / OUTCOME).read_text())
            return found
        return {}


class Guest(Worker):
    """The Boss's line to its supervisor in a process that is the user's: takes no signal, starts no thread."""

    def __init__(self, run_dir: Path, attended: Attended) -> None:
        super().__init__("boss", run_dir)
        self._attended = attended

    def supervised(self) -> bool:
        return self._attended.lives

    def close(self) -> None:
        for port in self._ports:
            port.socket.linger = 0  # nobody is left to read
        super().close()
