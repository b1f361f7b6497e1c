"""Processes of the Batcher that decode instances: `batcher.workers` of them, each a fresh interpreter.

All write into the same two batches of shared memory, so their number costs no memory. Which process decodes an instance
makes no difference to its bytes. One that dies is replaced; an instance that two died on is given up.
"""

import logging
import time
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import wait
from typing import Any

import numpy as np

from batcher.children import Child, end_all
from batcher.config import DataConfig
from batcher.decode import Decoder, Task, shared_views
from batcher.plugin import Data
from batcher.source import Finish, Read, Room, Source
from proto.messages import Kind
from proto.slots import Layout, Memory, largest, starts
from proto.types import Array, Int64s

log = logging.getLogger(__name__)

AREAS = 2
"""Batches that are decoded at one time: while the last instances of one are, the next is begun."""
PORTION = 24
"""Instances that are worth a message, at least."""

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

    child: Child
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
        """Starts them; each loads the data set `config` itself. They read those of the `sources` that are read item by
        item, of which there must be one. `rows` is the size of the largest batch, `tokens` its padded positions
        (0: any).

        Raises RuntimeError when one of them cannot.
        """
        self._config, self._seed, self._rows = config, seed, rows
        self._sources = {kind: source for kind, source in sources.items() if source.by_item}
        first = np.dtype(np.int64).itemsize * count
        sizes = [starts(largest(source.one, rows, tokens), first)[1] for source in self._sources.values()]
        self._memory = Memory.anonymous(AREAS, max(sizes))
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
            for kind, source in self._sources.items():
                source.elsewhere = partial(self.begin, kind)
                source.rows_elsewhere = min(rows, tokens // source.shape[0]) if tokens else rows
            for index in range(count):
                self._processes.append(self._start(index))
            while not all(process.child.ready for process in self._processes):
                self._hear()
        except BaseException:
            self.close()
            raise

    @property
    def cpu_s(self) -> float:
        """CPU seconds that the processes have used."""
        return self._cpu_of_dead + sum(process.child.cpu_s for process in self._processes)

    def _start(self, index: int) -> _Process:
        self._at[index] = -1
        shared = self._memory.descriptor, self._memory.size, len(self._at), index
        return _Process(Child(self._config, decode, self._seed, *shared, inherited=(self._memory.descriptor,)))

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
            while process.child.ready and self._todo and len(process.portions) < 2:
                job, rows = self._todo.popleft()
                process.portions.append((job, rows))
                task = Task(job.kind, job.area, self._layout(job), rows, job.ids[rows], job.passes[rows])
                try:
                    process.child.connection.send(task)
                except OSError:
                    return  # it is dead, which shows when it is heard

    def _hear(self) -> None:
        """Waits until something comes from the processes, and takes it in."""
        by_connection = {process.child.connection: index for index, process in enumerate(self._processes)}
        for connection in wait(list(by_connection)):
            assert not isinstance(connection, int)
            index = by_connection[connection]
            process = self._processes[index]
            if not process.child.ready:
                process.child.hear_ready(f"decoding process {index}")
                continue
            try:
                errors, process.child.cpu_s = process.child.connection.recv()
            except (EOFError, OSError):
                self._replace(index)
                continue
            job, rows = process.portions.popleft()
            job.errors |= errors
            job.left -= len(rows)

    def _replace(self, index: int) -> None:
        """Starts another process for `index`, which died; what it had is read again, one by one."""
        process, at = self._processes[index], int(self._at[index])
        how = process.child.end()
        where = f"reading instance {at}" if at >= 0 else "idle"
        log.warning("decoding process %d (pid %d) %s while %s; replaced", index, process.child.pid, how, where)
        self._cpu_of_dead += process.child.cpu_s
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

    def close(self) -> None:
        """Ends the processes."""
        end_all(process.child for process in self._processes)
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


def decode(connection: Any, data: Data, seed: int, descriptor: int, size: int, processes: int, index: int) -> None:
    """What process `index` of a `Pool` does: it answers every `Task` with what went wrong and its CPU seconds."""
    memory = Memory(descriptor, "", "memfd", AREAS, size, owner=False)
    at = memory.view(0, 8 * index, "int64", (1,))
    splits = {"train": data.train, "validation": data.validation, "test": data.test}
    decoders = {kind: Decoder(split, seed) for kind, split in splits.items() if split is not None}

    def reading(instance: int) -> None:
        at[0] = instance

    while True:
        task: Task = connection.recv()
        out = shared_views(memory, task.area, processes, task.layout)
        errors = decoders[task.kind].decode(task.ids, task.passes, out, task.rows, reading)
        reading(-1)
        connection.send((errors, time.process_time()))
