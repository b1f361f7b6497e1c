"""Processes of the Batcher that read the shards of a stream: process j of N reads shards j, j + N, ...

Each reads ahead by a portion of instances and then waits until that is taken. One that dies is replaced and goes on
from the last instance that was taken, so which process reads a shard makes no difference to what is read.
"""

import logging
import pickle
import time
from collections import deque
from collections.abc import Iterable
from typing import Any

from batcher.children import Child, end_all
from batcher.config import DataConfig
from batcher.plugin import Data
from batcher.shards import END, Alive, Place, Shards, Stand
from batcher.shards import log as log_of_shards
from proto.errors import RAISED, ConfigError, raised

log = logging.getLogger(__name__)

PORTION = 64
"""Instances in a portion at most."""
PORTION_BYTES = 2**20
"""Bytes after which a portion is full."""
LARGE = 2**14
"""Bytes of an instance that is worth a message of its own."""
PORTION_S = 0.2
"""Seconds after which a portion is handed over as it is."""
ALIVE_S = 1.0
"""Seconds between signs of life while instances are passed over."""
SHOWN = 4
"""Shards that a message names."""
SENDABLE = "let it be arrays and numbers, or set batcher.workers = 0"

Entry = tuple[int, bytes | str | None, Place]
"""Number of a shard; what it gave: an instance, pickled, or None when it ended, or what went wrong; its place then."""


class Readers:
    """`count` processes that read the shards of a stream, as a `batcher.shards.Reading`."""

    def __init__(self, config: DataConfig, seed: int, shards: int, count: int) -> None:
        """Starts them, not more than there are `shards`; each loads the data set `config` itself. `seed` is the run's.

        Raises RuntimeError when one of them cannot.
        """
        self._config, self._seed = config, seed
        self._own = [range(number, shards, count) for number in range(min(count, shards))]
        self._entries: list[deque[Entry]] = [deque() for _ in self._own]
        self._begun = False
        self._alive: Alive = lambda: None
        self._deaths = [0] * len(self._own)
        """Of each process since something came from it."""
        self._cpu_of_dead = 0.0
        self.replaced = 0
        self._children: list[Child] = []
        try:
            self._start()
        except BaseException:
            self.close()
            raise

    @property
    def cpu_s(self) -> float:
        """CPU seconds that the processes have used."""
        return self._cpu_of_dead + sum(child.cpu_s for child in self._children)

    def _start(self) -> None:
        for own in self._own:
            self._children.append(self._child(own))
        for number, child in enumerate(self._children):
            child.hear_ready(self._called(number))

    def _child(self, own: Iterable[int]) -> Child:
        return Child(self._config, read_shards, self._config.name, self._seed, own)

    def _called(self, number: int) -> str:
        own = self._own[number]
        more = ", ..." if len(own) > SHOWN else ""
        return (
            f"the process that reads shard{'s' * (len(own) > 1)} {', '.join(map(str, own[:SHOWN]))}{more} of the stream"
        )

    def go_to(self, stand: Stand, alive: Alive = lambda: None) -> None:
        """They begin at `stand`; whenever one of them is heard from now on, `alive` is called."""
        self._alive = alive
        if self._begun:  # what they have read ahead is of elsewhere
            self.close()
            self._start()
        self._begun = True
        for child, own, entries in zip(self._children, self._own, self._entries, strict=True):
            entries.clear()
            _tell(child, stand.part(own))

    def ask(self, stand: Stand) -> tuple[Any, Place]:
        """Raises ConfigError where the shard raises, or where reading it ended two processes."""
        number = stand.shard % len(self._own)
        entries = self._entries[number]
        while not entries:
            self._hear(number, stand)
        shard, given, place = entries[0]
        assert shard == stand.shard, "the order in which shards are read depends on nothing but them"
        if isinstance(given, str):
            raise ConfigError.told(given)
        entries.popleft()
        try:
            return END if given is None else pickle.loads(given), place
        except RAISED as error:  # whatever the user's items raise
            problem = f"an instance of shard {shard} cannot be taken from the process that read it: {raised(error)}"
            raise ConfigError("data.name", self._config.name, f"{problem}; {SENDABLE}") from error

    def _hear(self, number: int, stand: Stand) -> None:
        """Takes a portion from the process `number`: an empty one says that it lives, and passes over instances."""
        child = self._children[number]
        try:
            entries, child.cpu_s = _received(child.connection)
        except (EOFError, OSError):
            self._replace(number, stand.part(self._own[number]))
            return
        self._alive()
        self._entries[number].extend(entries)
        if entries:
            self._deaths[number] = 0

    def _replace(self, number: int, stand: Stand) -> None:
        """Starts another process for `number`, which died, at `stand`."""
        dead = self._children[number]
        how, place = dead.end(), stand.places[stand.shard]
        where = f"after instance {place.given + place.asked} of shard {stand.shard}"
        self._cpu_of_dead += dead.cpu_s
        self._deaths[number] += 1
        if self._deaths[number] > 1:
            problem = f"{self._called(number)} {how}, twice in a row, {where}"
            raise ConfigError("data.name", self._config.name, f"{problem}; batcher.workers = 0 reads it in one process")
        log.warning("%s (pid %d) %s %s; replaced", self._called(number), dead.pid, how, where)
        self.replaced += 1
        self._children[number] = child = self._child(self._own[number])
        child.hear_ready(self._called(number))
        _tell(child, stand)

    def close(self) -> None:
        """Ends the processes."""
        end_all(self._children)
        self._cpu_of_dead += sum(child.cpu_s for child in self._children)
        self._children.clear()


def _tell(child: Child, stand: Stand) -> None:
    try:
        child.connection.send(stand)
    except OSError:
        return  # it is dead, which shows when it is heard


# -- in such a process


def read_shards(connection: Any, data: Data, name: str, seed: int, own: Iterable[int]) -> None:
    """What a process of `Readers` does: it reads its shards from the stand that it is told, portion by portion."""
    log_of_shards.setLevel(logging.ERROR)  # the Batcher has said the rest when it looked at the first instances
    stand: Stand = connection.recv()
    failed, said_at = "", time.monotonic()

    def alive() -> None:
        nonlocal said_at
        if time.monotonic() - said_at >= ALIVE_S:
            said_at = time.monotonic()
            _send(connection, [])

    try:
        shards = Shards(data.train, name, seed, own)
        shards.go_to(stand, alive)
    except ConfigError as error:
        failed = str(error)
    while not failed:
        entries, failed = _portion(shards, stand, name)
        _send(connection, entries)
    _send(connection, [(stand.shard, failed, Place())])
    connection.recv()  # the Batcher comes to where it failed, and ends


def _send(connection: Any, entries: list[Entry]) -> None:
    """Sends a portion. Large instances, which are pickled already, follow it as they are: to pickle them again copies
    them."""
    large = [isinstance(given, bytes) and len(given) >= LARGE for _, given, _ in entries]
    within = [
        (shard, None if apart else given, place) for apart, (shard, given, place) in zip(large, entries, strict=True)
    ]
    connection.send((within, large, time.process_time()))
    for apart, (_, given, _) in zip(large, entries, strict=True):
        if apart:
            connection.send_bytes(given)


def _received(connection: Any) -> tuple[list[Entry], float]:
    """What `_send` sent: the portion, and the CPU seconds of the process. Raises EOFError or OSError when that died."""
    within, large, cpu_s = connection.recv()
    entries = zip(large, within, strict=True)
    return [
        (shard, connection.recv_bytes() if apart else given, place) for apart, (shard, given, place) in entries
    ], cpu_s


def _portion(shards: Shards, stand: Stand, name: str) -> tuple[list[Entry], str]:
    """The next instances, and what was wrong with the one after them if it could not be had."""
    entries: list[Entry] = []
    size, began = 0, time.monotonic()
    while len(entries) < PORTION and size < PORTION_BYTES and time.monotonic() - began < PORTION_S:
        try:
            item, place = shards.ask(stand)
        except ConfigError as error:
            log.exception("reading ends here")
            return entries, str(error)
        try:
            given = None if item is END else pickle.dumps(item, pickle.HIGHEST_PROTOCOL)
        except RAISED as error:  # whatever the user's items raise
            problem = f"an instance of shard {stand.shard} cannot be sent from the process that reads it: {error}"
            return entries, str(ConfigError("data.name", name, f"{problem}; {SENDABLE}"))
        entries.append((stand.shard, given, place))
        stand.move(item, place)
        size += len(given or b"")
    return entries, ""
