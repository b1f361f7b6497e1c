"""Processes of the Batcher that decode instances: `batcher.workers` of them, each a fresh interpreter.

All write into the same two batches of shared memory, so their number costs no memory. Which process decodes an instance
makes no difference to its bytes. One that dies is replaced; an instance that two died on is given up.
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
from batcher.handed import descriptors
from batcher.source import Finish, Read, Room, Source
from proto.messages import Kind
from proto.slots import Layout, Memory, largest, starts
from proto.types import Array, Int64s

log = logging.getLogger(__name__)

AREAS = 2
"""Batches that are decoded at one time: while the last instances of one are, the next is begun."""
PORTION = 24
"""Instances that are worth a message, at least."""
END_S = 1.0
"""How long a process may take to end by itself."""

Rows = list[int]


@dataclass
class _Job:
    """A batch that is being decoded into area `area` of the shared memory."""

    kind: Kind
    ids: Int64s
    passes: Int64s
    length: int
    """Positions that instances of different length are padded to."""
    area: int
    left: int = 0
    """Rows that are still to be read."""
    errors: dict[int, str] = field(default_factory=dict)


@dataclass
class _Process:
    """One of them, and the portions it was given."""

    process: subprocess.Popen[bytes]
    connection: Any  # Connection[send, receive], whose parameters differ between versions of its stubs
    ready: bool = False
    cpu_s: float = 0.0
    portions: deque[tuple[_Job, Rows]] = field(default_factory=deque)


class Pool:
    """`count` processes that read the items of the sources."""

    def __init__(
        self,
        config: DataConfig,
        seed: int,
        sources: Mapping[Kind, Source],
        rows: int,
        count: int,
        tokens: int = 0,
    ) -> None:
        """Starts them; each loads the data set `config` itself. `rows` is the size of the largest batch, `tokens` its
        padded positions (0: any).

        Raises RuntimeError when one of them cannot.
        """
        self._config, self._seed, self._sources, self._rows = config, seed, sources, rows
        train = sources["train"]
        layout = largest(train.one, rows, tokens)
        first = np.dtype(np.int64).itemsize * count
        self._memory = Memory.anonymous(AREAS, starts(layout, first)[1])
        self._at = self._memory.view(0, 0, "int64", (count,))
        """The id each process is reading; -1: none."""
        self._free = list(range(AREAS))
        self._todo: deque[tuple[_Job, Rows]] = deque()
        self._cpu_of_dead = 0.0
        self._deaths: Counter[tuple[Kind, int]] = Counter()
        self._given_up: dict[tuple[Kind, int], str] = {}
        self.replaced = 0
        self._processes: list[_Process] = []
        try:
            for kind, source in sources.items():
                source.elsewhere = partial(self.begin, kind)
                source.rows_elsewhere = min(rows, tokens // train.one["inputs"][0][0]) if tokens else rows
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
        numbers = (
            theirs.fileno(),
            self._memory.descriptor,
            AREAS,
            self._memory.size,
            len(self._at),
            index,
            os.getpid(),
        )
        # A fresh interpreter: forking a process that has a ZeroMQ context or threads is not safe.
        process = subprocess.Popen(
            [sys.executable, "-m", "batcher.worker", *map(str, numbers)],
            pass_fds=(theirs.fileno(), self._memory.descriptor, *descriptors(self._config)),
            stdin=subprocess.DEVNULL,
        )
        theirs.close()
        ours.send((self._config, self._seed))
        return _Process(process, ours)

    def begin(self, kind: Kind, ids: Int64s, passes: Int64s, length: int) -> Finish:
        """As `Source.elsewhere`, of the split `kind`."""
        source = self._sources[kind]
        assert len(ids) <= self._rows, "more instances than a batch has"
        job = _Job(kind, ids, passes, length, self._free.pop())
        rows = list(range(len(ids)))
        if self._given_up:
            job.errors = {i: self._given_up[kind, i] for i in ids.tolist() if (kind, i) in self._given_up}
            rows = [row for row in rows if int(ids[row]) not in job.errors]
        job.left = len(rows)
        self._todo.extend((job, portion) for portion in _portions(rows, source.together, len(self._processes)))
        self._feed()
        return partial(self._finish, job)

    def _finish(self, job: _Job, room: Room | None) -> Read:
        while job.left:
            self._hear()
            self._feed()
        out: dict[str, Array] = {}
        if room is not None:
            layout = self._layout(job)
            out = room(layout)
            for name, view in shared_views(self._memory, job.area, len(self._at), layout).items():
                np.copyto(out[name], view)
        self._free.append(job.area)
        return out, job.errors

    def _layout(self, job: _Job) -> Layout:
        return self._sources[job.kind].layout(len(job.ids), job.length)

    def _feed(self) -> None:
        """Gives portions to the processes: one to do and one at hand."""
        for process in self._processes:
            while process.ready and self._todo and len(process.portions) < 2:
                job, rows = self._todo.popleft()
                process.portions.append((job, rows))
                task = Task(job.kind, job.area, self._layout(job), rows, job.ids[rows], job.passes[rows])
                try:
                    process.connection.send(task)
                except OSError:
                    return  # it is dead, which shows when it is heard

    def _hear(self) -> None:
        """Waits until something comes from the processes, and takes it in."""
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
                self._replace(index)
                continue
            if not process.ready:
                if answer:
                    raise RuntimeError(f"decoding process {index} cannot load the data set: {answer}")
                process.ready = True
            else:
                job, rows = process.portions.popleft()
                errors, process.cpu_s = answer
                job.errors |= errors
                job.left -= len(rows)

    def _replace(self, index: int) -> None:
        """Starts another process for `index`, which died; what it had is read again, one by one."""
        process, at = self._processes[index], int(self._at[index])
        how = self._end_of(process)
        where = f"reading instance {at}" if at >= 0 else "idle"
        log.warning("decoding process %d (pid %d) %s while %s; replaced", index, process.process.pid, how, where)
        self._cpu_of_dead += process.cpu_s
        process.connection.close()
        self.replaced += 1
        self._processes[index] = self._start(index)
        lost = [(job, row) for job, rows in process.portions for row in rows]
        kind = lost[0][0].kind if lost else "train"
        self._deaths[kind, at] += 1
        if self._deaths[kind, at] > 1 and at >= 0:
            self._given_up[kind, at] = f"the process that decoded it {how}, twice"
        for job, row in reversed(lost):
            if error := self._given_up.get((job.kind, int(job.ids[row]))):
                job.errors[int(job.ids[row])] = error
                job.left -= 1
            else:
                self._todo.appendleft((job, [row]))

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
    """`rows` in portions that get smaller, so that all end at one time; of whole multiples of `together`."""
    found, start = [], 0
    while start < len(rows):
        length = max(PORTION, (len(rows) - start) // processes)
        length += -length % together
        found.append(rows[start : start + length])
        start += length
    return found
