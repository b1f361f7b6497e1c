"""Processes of the Batcher that decode instances: `batcher.workers` of them, each a fresh interpreter.

All write into one batch of shared memory, so their number costs no memory. Which process decodes an instance makes no
difference to its bytes. One that dies is replaced; an instance that two died on is given up.
"""

import logging
import os
import signal
import subprocess
import sys
import time
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import Pipe
from multiprocessing.connection import wait
from typing import Any

import numpy as np

from batcher.config import DataConfig
from batcher.decode import Task, shared_views
from batcher.plugin import Source
from proto.messages import Kind
from proto.slots import Memory, starts
from proto.types import Array, Int64s

log = logging.getLogger(__name__)

END_S = 1.0
"""How long a process may take to end by itself."""

Rows = list[int]


@dataclass
class _Process:
    """One of them, and the rows it was given."""

    process: subprocess.Popen[bytes]
    connection: Any  # Connection[send, receive], whose parameters differ between versions of its stubs
    ready: bool = False
    cpu_s: float = 0.0
    rows: deque[Rows] = field(default_factory=deque)


class Pool:
    """`count` processes that read the items of the sources."""

    def __init__(self, config: DataConfig, seed: int, sources: Mapping[Kind, Source], rows: int, count: int) -> None:
        """Starts them; each loads the data set `config` itself. `rows` is the size of the largest batch.

        Raises RuntimeError when one of them cannot.
        """
        self._config, self._seed, self._sources, self._rows = config, seed, sources, rows
        layout = sources["train"].layout(rows)
        first = np.dtype(np.int64).itemsize * count
        self._memory = Memory.anonymous(1, starts(layout, first)[1])
        self._at = self._memory.view(0, 0, "int64", (count,))
        """The id each process is reading; -1: none."""
        self._cpu_of_dead = 0.0
        self._deaths: Counter[tuple[Kind, int]] = Counter()
        self._given_up: dict[tuple[Kind, int], str] = {}
        self.replaced = 0
        self._processes: list[_Process] = []
        try:
            for kind, source in sources.items():
                source.elsewhere = partial(self.read, kind)
            for index in range(count):
                self._processes.append(self._start(index))
            while not all(process.ready for process in self._processes):
                self._hear()
        except BaseException:
            self.close()
            raise

    @property
    def cpu_s(self) -> float:
        """CPU seconds that the processes have used."""
        return self._cpu_of_dead + sum(process.cpu_s for process in self._processes)

    def _start(self, index: int) -> _Process:
        ours, theirs = Pipe()
        self._at[index] = -1
        numbers = (theirs.fileno(), self._memory.descriptor, self._memory.size, len(self._at), index, os.getpid())
        # A fresh interpreter: forking a process that has a ZeroMQ context or threads is not safe.
        process = subprocess.Popen(
            [sys.executable, "-m", "batcher.worker", *map(str, numbers)],
            pass_fds=(theirs.fileno(), self._memory.descriptor),
            stdin=subprocess.DEVNULL,
        )
        theirs.close()
        layout = self._sources["train"].layout(1)
        ours.send((self._config, self._seed, {name: (shape[1:], dtype) for name, (shape, dtype) in layout.items()}))
        return _Process(process, ours)

    def read(self, kind: Kind, ids: Int64s, passes: Int64s, out: Mapping[str, Array]) -> dict[int, str]:
        """As `Source.read`, of the split `kind`."""
        errors: dict[int, str] = {}
        for start in range(0, len(ids), self._rows):
            part = slice(start, start + self._rows)
            errors |= self._read(kind, ids[part], passes[part], {name: array[part] for name, array in out.items()})
        return errors

    def _read(self, kind: Kind, ids: Int64s, passes: Int64s, out: Mapping[str, Array]) -> dict[int, str]:
        source = self._sources[kind]
        errors: dict[int, str] = {}
        lost = [row for row, index in enumerate(ids.tolist()) if (kind, index) in self._given_up]
        errors |= {int(ids[row]): self._given_up[kind, int(ids[row])] for row in lost}
        rows = [row for row in range(len(ids)) if row not in lost] if lost else list(range(len(ids)))
        todo: deque[Rows] = deque(_portions(rows, source.together, len(self._processes)))
        while todo or any(process.rows for process in self._processes):
            for process in self._processes:
                while process.ready and todo and len(process.rows) < 2:  # one to do, one at hand
                    portion = todo.popleft()
                    process.rows.append(portion)
                    self._tell(process, Task(kind, len(ids), portion, ids[portion], passes[portion]))
            for index, found in self._hear():
                if isinstance(found, dict):
                    errors |= found
                else:
                    todo.extendleft(self._after_death(index, kind, ids, found, errors))
        views = shared_views(self._memory, len(self._at), source.layout(len(ids)))
        for name, view in views.items():
            np.copyto(out[name], view)
        return errors

    def _tell(self, process: _Process, task: Task) -> None:
        try:
            process.connection.send(task)
        except OSError:
            pass  # it is dead, which shows when it is heard

    def _hear(self) -> list[tuple[int, dict[int, str] | list[Rows]]]:
        """Waits until something comes: from process (index) the errors of a portion, or the rows that it died with."""
        heard: list[tuple[int, dict[int, str] | list[Rows]]] = []
        by_connection = {process.connection: index for index, process in enumerate(self._processes)}
        for connection in wait(list(by_connection)):
            assert not isinstance(connection, int)
            index = by_connection[connection]
            process = self._processes[index]
            try:
                answer = process.connection.recv()
            except (EOFError, OSError):
                if not process.ready:
                    raise RuntimeError(f"decoding process {index} cannot start: {self._end_of(process)}") from None
                heard.append((index, list(process.rows)))
                continue
            if not process.ready:
                if answer:
                    raise RuntimeError(f"decoding process {index} cannot load the data set: {answer}")
                process.ready = True
            else:
                process.rows.popleft()
                errors, process.cpu_s = answer
                heard.append((index, errors))
        return heard

    def _after_death(self, index: int, kind: Kind, ids: Int64s, lost: list[Rows], errors: dict[int, str]) -> list[Rows]:
        """Replaces process `index`; what is to be read again of the rows it died with, one by one."""
        process, at = self._processes[index], int(self._at[index])
        how = self._end_of(process)
        where = f"reading instance {at}" if at >= 0 else "idle"
        log.warning("decoding process %d (pid %d) %s while %s; replaced", index, process.process.pid, how, where)
        self._cpu_of_dead += process.cpu_s
        process.connection.close()
        self.replaced += 1
        self._processes[index] = self._start(index)
        self._deaths[kind, at] += 1
        rows = [row for portion in lost for row in portion]
        if self._deaths[kind, at] > 1 and at >= 0:
            errors[at] = self._given_up[kind, at] = f"the process that decoded it {how}, twice"
            rows = [row for row in rows if ids[row] != at]
        return [[row] for row in rows]

    def _end_of(self, process: _Process) -> str:
        code = process.process.wait()
        return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"

    def close(self) -> None:
        """Ends the processes."""
        for process in self._processes:
            process.connection.close()
        deadline = time.monotonic() + END_S
        for process in self._processes:
            try:
                process.process.wait(max(deadline - time.monotonic(), 0.01))
            except subprocess.TimeoutExpired:
                process.process.kill()
                process.process.wait()
        self._processes.clear()
        self._at = np.empty(0, np.int64)  # the memory goes with the last view of it
        self._memory.close()


def _portions(rows: Rows, together: int, processes: int) -> list[Rows]:
    """`rows` in portions that get smaller, so that all end at one time; of `together` where that matters."""
    found, start = [], 0
    while start < len(rows):
        length = together if together > 1 else max(1, (len(rows) - start) // (3 * processes))
        found.append(rows[start : start + length])
        start += length
    return found
