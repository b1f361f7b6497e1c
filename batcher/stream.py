"""Streams: data that can only be walked from its beginning, such as torch's `IterableDataset`.

The id of an instance is its position. A stream that ends is begun again and positions go on, so no id comes twice.
"""

import json
import logging
from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np

from batcher.decode import kept_random_state, seed_all
from batcher.features import SAMPLE, FeatureStore, derived
from batcher.source import Source
from proto.halves import widened
from proto.types import Array, Bools, Float32s, Int64s

log = logging.getLogger(__name__)

LARGEST_STATE = 65_536
"""Characters of JSON that a stream's state may have: it travels with every batch."""
STRIDE = 1024
"""Instances that are read at once where they are only passed over."""


class Tape:
    """The instances of a stream that have been read and may still be needed, as a split.

    Before an instance is read random, numpy and torch are seeded with the run's seed and its position.
    """

    in_order = True
    """Only this process can read it."""

    def __init__(self, stream: Any, size: int, name: str, seed: int) -> None:
        """`size` instances count as one Boss epoch; `name` is the data set's, for messages."""
        self._stream, self._size, self._name, self._seed = stream, size, name, seed
        for offered in ("collate", "class_names"):
            if (value := getattr(stream, offered, None)) is not None:
                setattr(self, offered, value)
        self._stateful = hasattr(stream, "state_dict") and hasattr(stream, "load_state_dict")
        self._beginning = stream.state_dict() if self._stateful else None
        self._items: deque[Any] = deque()
        self._begin(0)
        self._notes: deque[tuple[int, str]] = deque([(0, json.dumps({"at": 0}))])
        """Positions that reading can go on from, and what is needed for that."""

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

    def _begin(self, position: int) -> None:
        """Reads on at `position` with what the stream now begins with."""
        self._iterator: Iterator[Any] = iter(self._stream)
        self.first = position
        self._items.clear()

    def reach(self, stop: int) -> None:
        """Reads on, so that all positions below `stop` are there. Raises ValueError where the stream raises."""
        if stop <= self.end:
            return
        self._note()
        with kept_random_state():
            while self.end < stop:
                seed_all(self._seed, 0, self.end)
                self._items.append(self._next())

    def _next(self) -> Any:
        for _ in range(2):
            try:
                return next(self._iterator)
            except StopIteration:
                self._iterator = iter(self._stream)
                self._notes.append((self.end, json.dumps({"at": self.end})))
            except Exception as error:  # whatever the user's stream raises; it cannot be asked for the next one
                problem = f"{type(error).__name__}: {error}"
                raise ValueError(f"{self._name}: the stream failed at position {self.end}: {problem}") from error
        raise ValueError(f"{self._name}: the stream gave no instance when it was begun at position {self.end}")

    def _note(self) -> None:
        """Notes the stream's state, with which reading can go on from here."""
        if not self._stateful or self._notes[-1][0] == self.end:
            return
        try:
            note = json.dumps({"at": self.end, "state": self._stream.state_dict()}, allow_nan=False)
            problem = f"has {len(note)} characters, over {LARGEST_STATE}" if len(note) > LARGEST_STATE else ""
        except (TypeError, ValueError) as error:
            problem = f"is no JSON ({error})"
        if problem:
            self._stateful = False
            log.warning("the state_dict() of %s %s: a resumed run will read it from its beginning", self._name, problem)
        else:
            self._notes.append((self.end, note))

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

    def go_to(self, position: int, note: str) -> None:
        """Goes on from `position`, whose `note` is from another life. Raises ValueError when it is no such note."""
        if self.first <= position <= self.end:
            self.forget(position)
            return
        found = json.loads(note or '{"at": 0}')
        if not isinstance(found, dict) or not isinstance(at := found.get("at"), int) or not 0 <= at <= position:
            raise ValueError(f"{self._name}: {note!r:.80} is no note of the stream at position {position}")
        if "state" in found:
            self._stream.load_state_dict(found["state"])
        elif self._beginning is not None:
            self._stream.load_state_dict(self._beginning)
        if "state" not in found and position > at:
            log.warning(
                "%s: no state to go on from, %d instances of the stream are read and passed over",
                self._name,
                position - at,
            )
        self._begin(at)
        self._notes = deque([(at, note or json.dumps(found))])
        for stop in range(at + STRIDE, position + STRIDE, STRIDE):
            self.reach(min(stop, position))
            self.forget(min(stop, position))


class StreamStore(FeatureStore):
    """Features and class numbers of the instances of a stream at hand, derived when they are first looked at."""

    def __init__(self, source: Source, tape: Tape, limit: int) -> None:
        """Takes the scale from the first instances. Raises ValueError when none of them can be decoded."""
        self.source, self.limit, self._tape = source, limit, tape
        tape.reach(SAMPLE)
        ids, arrays = source.take(np.arange(SAMPLE))
        if not len(ids):
            raise ValueError(f"{source.name}: none of the first {SAMPLE} instances can be decoded")
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
        self._look(int(ids.max()) + 1)
        rows = ids - self._first
        return widened(self._features[rows]), self._labels[rows], self._known[rows]

    def halves(self, ids: Int64s) -> Array:
        self._look(int(ids.max()) + 1)
        return super().halves(ids - self._first)

    def labels(self, ids: Int64s) -> Int64s:
        self._look(int(ids.max()) + 1)
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
