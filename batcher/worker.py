"""`python -m batcher.worker`: a process of the Batcher, which starts it; see `batcher.children`.

It loads the data set and then does what it is told: it decodes instances, or reads shards of a stream.
"""

import sys
from multiprocessing.connection import Connection
from typing import Any

from batcher.plugin import load
from proto.parent import end_with_parent, outlive_sigterm


def main() -> None:
    descriptor, parent = map(int, sys.argv[1:])
    if not end_with_parent(parent):  # even in the middle of a decode
        return
    outlive_sigterm()
    connection: Any = Connection(descriptor)
    try:
        config, serve, args = connection.recv()
        try:
            data = load(config)
        except Exception as error:  # the Batcher says it
            connection.send(str(error))
            return
        connection.send("")
        serve(connection, data, *args)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return  # the Batcher has ended


if __name__ == "__main__":
    main()
