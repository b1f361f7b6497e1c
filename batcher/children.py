"""Processes of the Batcher, each a fresh interpreter that loads the data set itself; see `batcher.worker`."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from multiprocessing import Pipe
from typing import Any

from batcher.config import DataConfig
from batcher.handed import descriptors
from proto.parent import kept_from_children

END_S = 1.0
"""How long a process may take to end by itself."""


class Child:
    """One of them. It ends when its connection is closed, and with the process that started it."""

    def __init__(self, config: DataConfig, serve: Callable[..., None], *args: Any, inherited: tuple[int, ...] = ()):
        """Starts it: it loads the data set `config` and calls `serve(connection, data, *args)`.

        `inherited` are descriptors that it needs beside those of the data set.
        """
        ours, theirs = Pipe()
        # A fresh interpreter: forking a process that has a ZeroMQ context or threads is not safe.
        with kept_from_children():
            self.process = subprocess.Popen(
                [sys.executable, "-m", "batcher.worker", str(theirs.fileno()), str(os.getpid())],
                pass_fds=(theirs.fileno(), *inherited, *descriptors(config)),
                stdin=subprocess.DEVNULL,
            )
        theirs.close()
        self.connection: Any = ours  # Connection[send, receive], whose parameters differ between versions of its stubs
        self.ready = False
        self.cpu_s = 0.0
        """CPU seconds it has used, as it last said."""
        self.connection.send((config, serve, args))

    @property
    def pid(self) -> int:
        return self.process.pid

    def hear_ready(self, what: str) -> None:
        """Waits until the data set is loaded. Raises RuntimeError, naming the child `what`, when it cannot be."""
        try:
            problem = self.connection.recv()
        except (EOFError, OSError):
            raise RuntimeError(f"{what} cannot start: it {self.end()}") from None
        if problem:
            raise RuntimeError(f"{what} cannot load the data set: {problem}")
        self.ready = True

    def end(self) -> str:
        """Waits for the end of one that has died, and says how it ended."""
        self.connection.close()
        try:
            code = self.process.wait(END_S)
        except subprocess.TimeoutExpired:  # a thread of the data set's keeps it
            self.process.kill()
            code = self.process.wait()
        return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"


def end_all(children: Iterable[Child]) -> None:
    """Ends the `children`; those that do not within a second are killed."""
    children = list(children)
    for child in children:
        child.connection.close()
    deadline = time.monotonic() + END_S
    for child in children:
        try:
            child.process.wait(max(deadline - time.monotonic(), 0.01))
        except subprocess.TimeoutExpired:
            child.process.kill()
            child.process.wait()
