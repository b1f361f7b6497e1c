"""Streams that shard themselves: the order, the randomness, and going on wherever they stood."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sharded
from toys import batches

from batcher.config import BatcherConfig, PolicyConfig
from batcher.core import BatcherCore
from batcher.plugin import Data
from batcher.shards import END, Place, Shards, Stand
from batcher.stream import Tape
from boss.account import Account
from proto.batches import Batch
from proto.config import RunConfig
from proto.errors import ConfigError

KINDS = ["Shards", "Epochs", "Stateful", "Sticky"]


def begun(data: Data, at: Account | None = None, batch_size: int = 16) -> BatcherCore:
    config = BatcherConfig(batch_size=batch_size)
    core = BatcherCore(RunConfig(budget=5.0, seed=2), config, PolicyConfig(name="uniform"), data, "toy")
    core.open((at or Account()).open(incarnation=0, slots=1, eval_every=0.0))
    return core


def rows(found: list[Batch]) -> list[tuple[float, ...]]:
    return [tuple(row) for batch in found for row in batch.arrays["inputs"].tolist()]


def by_turns(sizes: Any, count: int) -> list[tuple[int, int, int]]:
    """(shard, number in the shard, walk) of the first instances."""
    found: list[tuple[int, int, int]] = []
    walk = 0
    while len(found) < count:
        for k in range(max(sizes)):
            found += [(shard, k, walk) for shard, size in enumerate(sizes) if k < size]
        walk += 1
    return found[:count]


@pytest.mark.parametrize("kind", KINDS)
def test_every_shard_gives_one_by_turns_until_all_have_ended(kind: str) -> None:
    found = batches(begun(sharded.data(kind)))
    expected = by_turns(sharded.SIZES, 500)
    assert [row[:2] for row in rows(found)] == [row[:2] for row in expected]
    assert kind == "Shards" or [row[:3] for row in rows(found)] == expected
    assert [i for batch in found for i in batch.ids.tolist()] == list(range(500))


def test_randomness_depends_on_the_shard_and_how_much_it_has_given() -> None:
    alone, together = (rows(batches(begun(sharded.data(sizes=sizes), batch_size=7))) for sizes in ((9, 4), (9, 5)))
    first = [[row for row in found if row[0] == 0] for found in (alone, together)]
    assert first[0][:300] == first[1][:300]
    assert max(Counter(row[3] for row in alone).values()) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_it_goes_on_at_the_right_place_whenever_its_batcher_dies(kind: str) -> None:
    whole = batches(begun(sharded.data(kind)))
    account = Account()
    for number, batch in enumerate(whole[:-1], 1):
        account.add(batch)
        if number in (17, 20, 27):  # after the instances that are looked at first; at the end of a walk, and elsewhere
            rest = batches(begun(sharded.data(kind), account))
            same = slice(0, 4, None) if kind != "Shards" else slice(0, 2)  # nobody tells it in which walk it is
            assert [row[same] for row in rows(rest)] == [row[same] for row in rows(whole[number:])]
            assert [row[3] for row in rows(rest)] == [row[3] for row in rows(whole[number:])]


@pytest.mark.parametrize("kind", ["Stateful", "Sticky"])
def test_one_that_does_not_shard_itself_is_begun_again_whole_after_it_went_on(kind: str) -> None:
    class Alone(getattr(sharded, kind)):  # type: ignore[misc]
        @property
        def num_shards(self) -> Any:
            raise AttributeError

    def alone() -> Data:
        return Data(Alone((90,), {}, 0), class_names=("a", "b", "c"), epoch_size=100)

    whole = batches(begun(alone()))
    account = Account()
    for batch in whole[:20]:
        account.add(batch)
    rest = begun(alone(), account)
    assert rest.tape is not None
    assert rest.tape.shards == 0
    assert rows(batches(rest)) == rows(whole[20:])


def test_with_a_state_little_is_read_again(tmp_path: Path) -> None:
    account = Account()
    for batch in batches(begun(sharded.data("Stateful", sizes=(400, 400))))[:-4]:
        account.add(batch)
    log = tmp_path / "log"
    core = begun(sharded.data("Stateful", sizes=(400, 400), log=str(log)), account)
    begin = log.read_text().count("\n")
    batches(core)
    again = [int(line.split()[2]) for line in log.read_text().splitlines()[begin:]]
    assert min(again) > account.cursor / 2 - 70


def test_without_a_state_what_is_passed_over_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    account = Account()
    for batch in batches(begun(sharded.data(sizes=(400, 400))))[:-9]:
        account.add(batch)
    begun(sharded.data(sizes=(400, 400)), account)
    said = [record.getMessage() for record in caplog.records]
    assert said == [f"toy: no state to go on from, {account.cursor} instances of the stream are read and passed over"]


def test_states_too_large_for_a_batch_are_said_once_and_not_used(caplog: pytest.LogCaptureFixture) -> None:
    class Large(sharded.Stateful):
        def state_dict(self) -> Any:
            return {**super().state_dict(), "history": "x" * 30_000}

    def three() -> Data:
        return Data(Large((50, 50, 50), {}), class_names=("a", "b", "c"), epoch_size=100)

    whole = batches(begun(three()))
    account = Account()
    for batch in whole[:19]:
        account.add(batch)
    assert len(account.stream) < 1000
    assert sum("characters, over 65536" in record.getMessage() for record in caplog.records) == 1
    assert rows(batches(begun(three(), account))) == rows(whole[19:])


def test_what_a_shard_raises_is_told_with_its_number() -> None:
    with pytest.raises(
        ConfigError,
        match=r"^data\.name = 'toy': shard 1 of the stream failed at position 20: OSError: the line is dead",
    ):
        batches(begun(sharded.data(fails=[1, 20])))
    with pytest.raises(ConfigError, match="'toy': the stream gave no instance when it was begun at position 0"):
        begun(sharded.data(sizes=(0, 0)))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"num_shards": 0}, "num_shards of its stream is 0; needed: a whole number above 0"),
        ({"num_shards": True}, "num_shards of its stream is True; needed: a whole number above 0"),
        ({"num_shards": "3"}, "num_shards of its stream is '3'; needed: a whole number above 0"),
        ({"num_shards": lambda: 3}, "num_shards of its stream is a method; let it be a property"),
        ({"raises": 1}, r"shard\(num_shards=5, index=1\) of its stream raises FileNotFoundError: part-1 is gone"),
    ],
)
def test_what_cannot_be_sharded_is_one_line_before_anything_is_trained(options: Any, text: str) -> None:
    with pytest.raises(ConfigError, match=rf"^data\.name = 'toy': {text}"):
        begun(sharded.data(**options))


def test_every_shard_must_be_a_stream_of_its_own() -> None:
    class Nothing(sharded.Shards):
        def shard(self, num_shards: int, index: int) -> Any:
            return None

    class Itself(sharded.Shards):
        def shard(self, num_shards: int, index: int) -> Any:
            return self

    for kind, text in ((Nothing, "returns a NoneType; needed: a stream"), (Itself, "returns one stream for all")):
        with pytest.raises(ConfigError, match=text):
            Shards(kind((3, 3), {}), "toy", 0)


def test_a_stream_with_another_number_of_shards_is_not_gone_on_with() -> None:
    account = Account()
    for batch in batches(begun(sharded.data(sizes=(300, 300))))[:-9]:
        account.add(batch)
    with pytest.raises(ConfigError, match="its stream has 3 shards; the run that is gone on with had 2"):
        begun(sharded.data(sizes=(300, 300, 300)), account)


def test_a_note_that_goes_not_together_is_refused() -> None:
    good = Stand({0: Place({"next": 3}, 5, 1, 7), 1: Place(asked=4)}, [1]).plain()
    assert Stand.told(good).places[0] == Place({"next": 3}, 5, 1, 7)
    for change in ({"live": [2]}, {"live": []}, {"turn": 1}, {"turn": -1}, {"places": [[None, 0, 0, "x"], [None] * 4]}):
        with pytest.raises(ValueError, match="is no note of the stream at position 500"):
            Tape(sharded.data(sizes=(9, 9)).train, 100, "toy", 0).go_to(500, json.dumps({"at": 0, **good, **change}))


def test_a_part_of_the_shards_is_asked_in_the_order_of_the_whole() -> None:
    """As processes do it: each reads its own shards, and knows nothing of the others."""
    stream = sharded.data().train
    whole, reading = Stand.beginning(range(5)), Shards(stream, "toy", 0)
    for taken in (0, 1, 3, 60, 130, 135, 136, 139, 170):
        for _ in range(taken):
            whole.next(reading)
        parts = [whole.part(own) for own in (range(0, 5, 2), range(1, 5, 2))]
        readings = [Shards(stream, "toy", 0, part.places) for part in parts]
        for part, own in zip(parts, readings, strict=True):
            own.go_to(part)
        told = Stand.told(whole.plain())
        ahead = Shards(stream, "toy", 0)
        ahead.go_to(told)
        for _ in range(300):
            item, place = ahead.ask(told)
            part = parts[told.shard % 2]
            assert part.shard == told.shard
            same, there = readings[told.shard % 2].ask(part)
            assert there == place
            assert (item is END and same is END) or np.array_equal(item[0], same[0])
            part.move(same, there)
            told.move(item, place)
