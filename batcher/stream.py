"""Streams: data that can only be walked from its beginning, such as torch's `IterableDataset`.

The id of an instance is its position. A stream that ends is begun again and positions go on, so no id comes twice.
Its shards are read by turns, here or in other processes; one that does not shard itself is one shard.
"""

import json
import logging
from collections import deque
from typing import Any

import numpy as np

from batcher.decode import kept_random_state
from batcher.features import SAMPLE, FeatureStore, derived
from batcher.shards import END, Alive, Reading, Shards, Stand, shards_of
from batcher.source import Source
from proto.errors import ConfigError
from proto.halves import widened
from proto.types import Array, Bools, Float32s, Int64s

log = logging.getLogger(__name__)

LARGEST_STATE = 65_536
"""Characters of JSON that a stream's state may have: it travels with every batch."""
STRIDE = 1024
"""Instances that are read at once where they are only passed over."""


class Tape:
    """The instances of a stream that have been read and may still be needed, as a split.

    What is random in one depends on the run's seed, its shard and its number there; see `batcher.shards`.
    """

    in_order = True
    """It is read from its beginning."""

    def __init__(self, stream: Any, size: int, name: str, seed: int) -> None:
        """`size` instances count as one Boss epoch; `name` is the data set's, for messages.

        Raises ConfigError when the stream cannot be sharded as it says.
        """
        self._size, self._name = size, name
        for offered in ("collate", "class_names"):
            if (value := getattr(stream, offered, None)) is not None:
                setattr(self, offered, value)
        self.shards = shards_of(stream, name)
        """The number of shards that the stream offers; 0: it does not shard itself."""
        self._reading: Reading = Shards(stream, name, seed)
        self.elsewhere: Reading | None = None
        """Reads the shards in other processes, from where the Boss says, if there are any."""
        self._stand = Stand.beginning(range(self.shards or 1))
        self._items: deque[Any] = deque()
        self.first = 0
        self._beginning = self._text()
        self._notes: deque[tuple[int, str]] = deque([(0, self._beginning)])
        """Positions that reading can go on from, and what is needed for that."""
        self._noting = True

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, position: int) -> Any:
        self.reach(position + 1)
        if position < self.first:
            raise IndexError(f"instance {position} of the stream was passed")
        return self._items[position - self.first]

    @property
    def end(self) -> int:
        """One more than the last position that was read."""
        return self.first + len(self._items)

    def reach(self, stop: int) -> None:
        """Reads on, so that all positions below `stop` are there. Raises ConfigError where the stream raises: a Batcher
        that is started anew would come to the same place."""
        if stop <= self.end:
            return
        self._note()
        with kept_random_state():
            while self.end < stop:
                item = self._stand.next(self._reading)
                if item is END:
                    problem = f"the stream gave no instance when it was begun at position {self.end}"
                    raise ConfigError("data.name", self._name, problem)
                self._items.append(item)

    def _note(self) -> None:
        """Notes where the stream stands, so that reading can go on from here."""
        if not self._noting or self._notes[-1][0] == self.end:
            return
        note = self._text()
        if len(note) > LARGEST_STATE:
            self._noting = False
            self._notes = deque([(0, self._beginning)])
            log.warning(
                "the state_dict() of %s has %d characters, over %d: a resumed run will read it from its beginning",
                self._name,
                len(note),
                LARGEST_STATE,
            )
        else:
            self._notes.append((self.end, note))

    def _text(self) -> str:
        return json.dumps({"at": self.end, **self._stand.plain()})

    def note(self, position: int) -> str:
        """What `go_to` needs to go on from `position`, beside it."""
        return next(note for at, note in reversed(self._notes) if at <= position)

    def forget(self, position: int) -> None:
        """Nothing before `position`, which was read, is needed any more."""
        while self.first < position:
            self._items.popleft()
            self.first += 1
        while len(self._notes) > 1 and self._notes[1][0] <= position:
            self._notes.popleft()

    def go_to(self, position: int, note: str, alive: Alive = lambda: None) -> None:
        """Goes on from `position`, whose `note` is from another life; from here on `elsewhere` reads, if it is there.
        `alive` is called while instances are passed over, now and where a process is replaced.

        Raises ValueError when it is no such note, and ConfigError when the stream had another number of shards then, or
        raises.
        """
        if self.first <= position <= self.end:
            self.forget(position)
            if self.elsewhere not in (None, self._reading):
                self._read_by(self.elsewhere, alive)
            return
        note = note or self._beginning
        at, self._stand = self._told(position, note)
        passed = sum(place.asked for place in self._stand.places.values() if place.state is None) + position - at
        if passed and any(place.state is None for place in self._stand.places.values()):
            log.warning(
                "%s: no state to go on from, %d instances of the stream are read and passed over", self._name, passed
            )
        self.first = at
        self._items.clear()
        self._notes = deque([(at, note)])
        self._read_by(self.elsewhere or self._reading, alive)
        for stop in range(at + STRIDE, position + STRIDE, STRIDE):
            self.reach(min(stop, position))
            self.forget(min(stop, position))
            alive()

    def _read_by(self, reading: Reading, alive: Alive) -> None:
        self._reading = reading
        with kept_random_state():
            reading.go_to(self._stand, alive)

    def _told(self, position: int, note: str) -> tuple[int, Stand]:
        """Where the stream stood at the `note`."""
        try:
            found = json.loads(note)
            at = found["at"]
            stand = Stand.told(found)
            if type(at) is not int or not 0 <= at <= position:
                raise ValueError("it is of another position")
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError(f"{self._name}: {note!r:.80} is no note of the stream at position {position}") from error
        if stand.places.keys() != self._stand.places.keys():
            had = f"has {len(self._stand.places)} shards; the run that is gone on with had {len(stand.places)}"
            raise ConfigError("data.name", self._name, f"its stream {had}")
        return at, stand


class StreamStore(FeatureStore):
    """Features and class numbers of the instances of a stream at hand, derived when they are first looked at."""

    def __init__(self, source: Source, tape: Tape, limit: int) -> None:
        """Takes the scale from the first instances. Raises ConfigError when none of them can be read."""
        self.source, self.limit, self._tape = source, limit, tape
        tape.reach(SAMPLE)
        ids, arrays = source.take(np.arange(SAMPLE))
        if not len(ids):
            source.refuse(f"none of its first {SAMPLE} instances can be read")
        self._measure(derived(arrays, limit))
        self._clear(0)

    def _clear(self, position: int) -> None:
        self._first = position
        self._features = np.empty((0, self.dim), np.float16)
        self._labels, self._known = np.empty(0, np.int64), np.empty(0, bool)

    def _look(self, stop: int) -> None:
        """Derives what is to be known of the instances below `stop`."""
        self._tape.reach(stop)
        while (begin := self._first + len(self._known)) < stop:
            ids = np.arange(begin, min(begin + SAMPLE, stop))
            good, arrays = self.source.take(ids)
            rows, features = good - begin, np.zeros((len(ids), self.dim), np.float16)
            labels, known = np.full(len(ids), -1), np.zeros(len(ids), bool)
            if len(good):
                features[rows], known[rows] = self._scaled(derived(arrays, self.limit)), True
                labels[rows] = arrays["targets"] if self.source.numbered else -1
            self._features = np.concatenate([self._features, features])
            self._labels, self._known = np.concatenate([self._labels, labels]), np.concatenate([self._known, known])

    def get(self, ids: Int64s) -> tuple[Float32s, Int64s, Bools]:
        self._look(int(ids.max(initial=-1)) + 1)
        rows = ids - self._first
        return widened(self._features[rows]), self._labels[rows], self._known[rows]

    def halves(self, ids: Int64s) -> Array:
        self._look(int(ids.max()) + 1)
        return super().halves(ids - self._first)

    def labels(self, ids: Int64s) -> Int64s:
        self._look(int(ids.max(initial=-1)) + 1)
        return self._labels[ids - self._first]

    def visit(self, ids: Int64s, arrays: Any) -> None:
        """Nothing to keep: no instance comes twice."""

    def revisit(self, ids: Int64s) -> None:
        """Nothing to look at again."""

    def forget(self, position: int) -> None:
        """Nothing before `position` is needed any more."""
        gone = min(max(position - self._first, 0), len(self._known))
        self._first += gone
        self._features, self._labels, self._known = self._features[gone:], self._labels[gone:], self._known[gone:]
        if self._first < position:
            self._clear(position)
