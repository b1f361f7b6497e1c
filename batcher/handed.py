"""A data set that another process hands over, in memory without a name that this one inherits.

It begins with the length of a JSON header (int64), then come the header, a pickle and the buffers that the pickle
leaves out, each at a multiple of `ALIGN`. Whoever wrote it is the process that started us, so that unpickling it is as
safe as that process is. The memory is mapped, not read: arrays in it are shared until somebody writes to them.
"""

import json
import mmap
import pickle
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from batcher.config import DataConfig
from batcher.plugin import Data
from batcher.structured import structured
from proto.errors import RAISED, ConfigError, raised
from proto.resolver import resolve

NAME = "batcher.handed:read"
"""What `data.name` is then; `data.args` has the descriptor."""
ALIGN = 64


def descriptors(config: DataConfig) -> tuple[int, ...]:
    """What a process must inherit to load the data set `config`."""
    return (config.args["descriptor"],) if config.name == NAME else ()


def sizes(header: Sequence[int]) -> list[int]:
    """Where parts of these lengths begin, and last where they end."""
    found, end = [], 0
    for length in header:
        found.append(end)
        end += -(-length // ALIGN) * ALIGN
    return [*found, end]


def read(descriptor: int) -> Any:
    """The data set, or what the factory that was handed over returns.

    Raises ConfigError when it cannot be made here.
    """
    memory = mmap.mmap(descriptor, 0, access=mmap.ACCESS_COPY)
    view = memoryview(memory)
    length = int.from_bytes(view[:8], "little")
    header = json.loads(bytes(view[8 : 8 + length]))
    start = sizes([8 + length])[1]
    begins = sizes(header["lengths"])
    parts = [view[start + at : start + at + n] for at, n in zip(begins, header["lengths"], strict=False)]
    # The user's own modules are looked for where the user's process finds them, after ours.
    sys.path.extend(path for path in header["path"] if path not in sys.path)
    try:
        made = pickle.loads(parts[0], buffers=parts[1:])
    except RAISED as error:  # whatever the user's classes raise
        what = "factory" if header["factory"] else "train_set"
        reason = f"arrives in the Batcher, but cannot be unpickled: {raised(error)}"
        raise ConfigError(what, header["shown"], reason) from error
    if header["factory"]:
        made = _made(made, header["shown"])
    return structured(_train_only(made, header["classes"]), NAME)


def _made(factory: str | Callable[[], Any], shown: str) -> Any:
    call = resolve("factory", factory, {}) if isinstance(factory, str) else factory
    try:
        return call()
    except ConfigError:
        raise
    except RAISED as error:  # whatever the user's factory raises
        raise ConfigError("factory", shown, f"raised {raised(error)}") from error


def _train_only(made: Any, classes: int) -> Data:
    """The training split: what else there is, the user's own loop evaluates on."""
    if isinstance(made, tuple) and made:
        made = made[0]
    data = replace(made, test=None, validation=None) if isinstance(made, Data) else Data(made)
    return replace(data, class_names=[str(k) for k in range(classes)]) if classes else data
