"""`python -m batcher.worker`: one decoding process of the Batcher, which starts it; see `batcher.workers`."""

import sys
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from batcher.decode import Decoder, Task, shared_views
from batcher.plugin import load
from proto.parent import end_with_parent
from proto.slots import Memory


def main() -> None:
    descriptor, shared, areas, size, processes, index, parent = map(int, sys.argv[1:])
    if not end_with_parent(parent):  # even in the middle of a decode
        return
    connection: Any = Connection(descriptor)
    memory = Memory(shared, "", "memfd", areas, size, owner=False)
    at = memory.view(0, 8 * index, "int64", (1,))

    def reading(instance: int) -> None:
        at[0] = instance

    try:
        _serve(connection, memory, processes, reading)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return  # the Batcher has ended


def _serve(connection: Any, memory: Memory, processes: int, reading: Callable[[int], None]) -> None:
    config, seed = connection.recv()
    try:
        data = load(config)
    except Exception as error:  # the Batcher says it
        connection.send(str(error))
        return
    splits = {"train": data.train, "validation": data.validation, "test": data.test}
    decoders = {kind: Decoder(split, seed) for kind, split in splits.items() if split is not None}
    connection.send("")
    while True:
        task: Task = connection.recv()
        out = shared_views(memory, task.area, processes, task.layout)
        errors = decoders[task.kind].decode(task.ids, task.passes, out, task.rows, reading)
        reading(-1)
        connection.send((errors, time.process_time()))


if __name__ == "__main__":
    main()
