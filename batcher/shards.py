"""The shards of a stream, read by turns. A stream that does not shard itself is one shard.

In each round every shard gives one instance, in the order of their numbers; one that has ended is left out until all
have, then all are begun again. So the order depends on the shards alone, whoever reads them.
"""

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import index
from typing import Any, NamedTuple, Protocol, Self

from batcher.decode import seed_all
from proto.errors import RAISED, ConfigError, raised

log = logging.getLogger(__name__)

END: Any = object()
"""What a shard gives once when it has ended."""
STRIDE = 32
"""Instances after which a shard is asked for its state again."""


Alive = Callable[[], None]
"""Gives a sign of life, as often as it is called."""


class Place(NamedTuple):
    """How a shard is brought to where it stands: load a state, begin, and ask so many times."""

    state: Any = None
    """Its `state_dict()`, as JSON has it; None: that of the beginning."""
    given: int = 0
    """Instances that it had given by then."""
    walk: int = 0
    """How often it had ended by then."""
    asked: int = 0
    """How often it has been asked since, for an instance or to be told that it ended."""

    def after(self, item: Any) -> "Place":
        """The place after `item` was given."""
        if item is END and self.state is None:
            return Place(None, self.given + self.asked, self.walk + 1)
        return self._replace(asked=self.asked + 1)


@dataclass
class Stand:
    """Where the reading by turns stands."""

    places: dict[int, Place]
    """By number of the shard."""
    live: list[int]
    """The shards that have not ended in this walk, in order."""
    turn: int = 0
    """Whose turn it is: index into `live`."""
    fruitful: bool = True
    """Whether any of them has given an instance in this walk."""
    fruitless: bool = False
    """Whether a whole walk gave none."""

    @classmethod
    def beginning(cls, shards: Iterable[int]) -> Self:
        places = {shard: Place() for shard in shards}
        return cls(places, list(places), fruitful=False)

    @property
    def shard(self) -> int:
        """The shard that is asked next."""
        return self.live[self.turn]

    def move(self, item: Any, place: Place) -> None:
        """The shard whose turn it was gave `item` and stands at `place`."""
        self.places[self.shard] = place
        if item is not END:
            self.turn, self.fruitful = (self.turn + 1) % len(self.live), True
            return
        self.live.pop(self.turn)
        self.turn %= max(len(self.live), 1)
        if not self.live:
            self.fruitless, self.fruitful = not self.fruitful, False
            self.live = list(self.places)

    def next(self, reading: "Reading") -> Any:
        """The next instance of `reading`; END where all its shards, begun again, give none."""
        item = END
        while item is END and not self.fruitless:
            item, place = reading.ask(self)
            self.move(item, place)
        return item

    def part(self, shards: Iterable[int]) -> "Stand":
        """That of some of the `shards` alone: in which order they will be asked."""
        places = {shard: self.places[shard] for shard in shards}
        live = [shard for shard in self.live if shard in places]
        if not live:  # they have ended, and begin again when the others have, too
            return Stand(places, list(places))
        return Stand(places, live, sum(shard < self.shard for shard in live) % len(live))

    def plain(self) -> dict[str, Any]:
        """It as JSON has it."""
        return {"live": self.live, "turn": self.turn, "places": list(self.places.values())}

    @classmethod
    def told(cls, found: Mapping[str, Any]) -> Self:
        """The stand whose `plain` was `found`; raises ValueError when that can be none's."""
        try:
            live, turn, places = list(found["live"]), found["turn"], [Place(*place) for place in found["places"]]
            numbers = [turn, *(number for place in places for number in place[1:])]
            fits = all(type(number) is int and number >= 0 for number in numbers)
            if not fits or turn >= len(live) or sorted(set(live) & set(range(len(places)))) != live:
                raise ValueError("its numbers do not go together")
        except (KeyError, TypeError) as error:
            raise ValueError(f"{error!r}") from error
        return cls(dict(enumerate(places)), live, turn)


class Reading(Protocol):
    """What reads the shards of a stream."""

    def ask(self, stand: Stand) -> tuple[Any, Place]:
        """What the shard whose turn it is gives, or END, and where it stands then."""
        ...

    def go_to(self, stand: Stand, alive: Alive = lambda: None) -> None:
        """Goes on from `stand`. `alive` is called while instances are passed over, which may take long."""
        ...


def shards_of(stream: Any, name: str) -> int:
    """The number of shards that `stream` offers; 0: it does not shard itself.

    Raises ConfigError, naming the data set `name`, when that is no number.
    """
    if not (hasattr(stream, "num_shards") and callable(getattr(stream, "shard", None))):
        return 0
    offered = stream.num_shards
    try:
        number = index(offered)
    except TypeError:
        number = 0
    if number < 1 or isinstance(offered, bool):
        found = "a method; let it be a property" if callable(offered) else f"{offered!r:.80}"
        raise ConfigError("data.name", name, f"num_shards of its stream is {found}; needed: a whole number above 0")
    return number


class Shards:
    """The shards of a stream, read by this process."""

    def __init__(self, stream: Any, name: str, seed: int, numbers: Iterable[int] | None = None) -> None:
        """Those with these `numbers`, or all. `name` is the data set's, `seed` the run's.

        Raises ConfigError when the stream cannot be sharded.
        """
        count = shards_of(stream, name)
        numbers = range(count or 1) if numbers is None else numbers
        streams = {number: _shard(stream, name, count, number) if count else stream for number in numbers}
        if len({id(shard) for shard in streams.values()}) < len(streams):
            problem = "shard() of its stream returns one stream for all; needed: one of its own for each index"
            raise ConfigError("data.name", name, problem)
        self._name = name
        self.problem = ""
        """What is wrong with their states, if anything."""
        self._shards = {
            number: Shard(
                shard, name, f"shard {number} of the stream" if count > 1 else "the stream", seed, number, self._say
            )
            for number, shard in streams.items()
        }

    def ask(self, stand: Stand) -> tuple[Any, Place]:
        """Raises ConfigError where the shard raises."""
        shard = self._shards[stand.shard]
        return shard.ask(), shard.place

    def go_to(self, stand: Stand, alive: Alive = lambda: None) -> None:
        """Raises ConfigError where a shard raises."""
        for number, shard in self._shards.items():
            shard.go_to(stand.places[number], alive)

    def _say(self, problem: str) -> None:
        if not self.problem:
            self.problem = problem
            log.warning("the state_dict() of %s %s: a resumed run will read it from its beginning", self._name, problem)


def walked(stream: Any, name: str, seed: int) -> Iterator[Any]:
    """The instances of `stream`, by turns of its shards, until all have ended once."""
    shards = Shards(stream, name, seed)
    stand = Stand.beginning(range(shards_of(stream, name) or 1))
    left = len(stand.places)
    while left:
        item, place = shards.ask(stand)
        stand.move(item, place)
        if item is END:
            left -= 1
        else:
            yield item


def _shard(stream: Any, name: str, count: int, number: int) -> Any:
    asked = f"shard(num_shards={count}, index={number}) of its stream"
    try:
        shard = stream.shard(num_shards=count, index=number)
    except RAISED as error:  # whatever the user's stream raises
        raise ConfigError("data.name", name, f"{asked} raises {raised(error)}") from error
    if not hasattr(shard, "__iter__"):
        raise ConfigError("data.name", name, f"{asked} returns a {type(shard).__name__}; needed: a stream")
    return shard


class Shard:
    """One of them. Before an instance is read random, numpy and torch are seeded with the run's seed, the number of the
    shard, and how many instances it has given."""

    def __init__(
        self, stream: Any, name: str, what: str, seed: int, number: int, say: Callable[[str], None] = lambda text: None
    ) -> None:
        """`name` is the data set's, `what` the shard is called; `say` is told what is wrong with its state.

        Raises ConfigError when its state at the beginning cannot be had.
        """
        self._stream, self._name, self._what, self._seed, self._number = stream, name, what, seed, number
        self._say = say
        self.stateful = hasattr(stream, "state_dict") and hasattr(stream, "load_state_dict")
        try:
            self._beginning = stream.state_dict() if self.stateful else None
        except RAISED as error:  # whatever the user's stream raises
            problem = f"state_dict() of {what}, not yet begun, raises {raised(error)}"
            raise ConfigError("data.name", name, problem) from error
        self._notes = self.stateful
        self._failed = ""
        self._count = self._walk = 0
        self._iterator: Iterator[Any] | None = None
        self._begun = False
        """Whether an instance of this walk has been read."""
        self.place = Place()

    def ask(self) -> Any:
        """Its next instance; END once when it has ended. Raises ConfigError once the stream has raised."""
        if self._failed:
            raise ConfigError("data.name", self._name, self._failed)
        seed_all(self._seed, self._number, self._count)
        try:
            if self._iterator is None:
                self._iterator = self._begin()
            item = next(self._iterator, END)
        except RAISED as error:  # whatever the user's stream raises; it cannot be asked for the next one
            self._failed = f"{self._what} failed at position {self._count}: {raised(error)}"
            raise ConfigError("data.name", self._name, self._failed) from error
        self.place = self.place.after(item)
        if item is END:
            self._iterator, self._begun = None, False
            self._walk += 1
            return END
        self._count += 1
        # Before the first instance of a walk some streams still have the state of the end of the one before.
        if self._notes and (not self._begun or self.place.asked >= STRIDE):
            self._note()
        self._begun = True
        return item

    def _begin(self) -> Iterator[Any]:
        # Hugging Face's streams shuffle each walk anew by it, and forget the state that they were told to go on from.
        if set_epoch := getattr(self._stream, "set_epoch", None):
            set_epoch(self._walk)
        return iter(self._stream)

    def _note(self) -> None:
        try:
            state = json.loads(json.dumps(self._stream.state_dict(), allow_nan=False))
            if state is None:  # which stands for the beginning
                raise TypeError("it is None")
        except RAISED as error:  # whatever the user's stream raises
            kind = "" if isinstance(error, TypeError | ValueError) else f"{type(error).__name__}: "
            self._notes = False
            self._say(f"is no JSON ({kind}{error})")
            return
        self.place = Place(state, self._count, self._walk)

    def go_to(self, place: Place, alive: Alive = lambda: None) -> None:
        """Goes on from `place`. Raises ConfigError where the stream raises."""
        self._count, self._walk, self._begun = place.given, place.walk, place.state is not None
        self._iterator = None
        if self.stateful:
            try:
                self._stream.load_state_dict(self._beginning if place.state is None else place.state)
            except RAISED as error:  # whatever the user's stream raises
                problem = f"load_state_dict() of {self._what} raises {raised(error)}"
                raise ConfigError("data.name", self._name, problem) from error
        self.place = place._replace(asked=0)
        for _ in range(place.asked):
            self.ask()
            alive()
