"""What can be wrong with a stream beside its instances: how it is begun again, gone on with, and read by its shards."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from batcher.config import DataConfig
from batcher.mistakes import Mistake, Seen
from batcher.readers import Readers
from batcher.shards import Reading, Shards, Stand, shards_of
from proto.errors import RAISED, ConfigError, raised
from proto.types import Array

READ_ELSEWHERE = 16
"""Instances that a process reads."""


def in_stream(name: str, stream: Any, again: Any, seen: Sequence[Seen], seed: int) -> Iterator[Mistake]:
    """Whether `again`, the stream loaded anew, gives what was `seen` of it, and whether it can be gone on with."""
    shards, stand = Shards(again, name, seed), Stand.beginning(range(shards_of(again, name) or 1))
    if not all(np.array_equal(one.inputs, _inputs(stand, shards)) for one in seen):
        mend = "draw from random, numpy.random or torch, seeded for each position, or from a generator of a fixed seed"
        yield Mistake(name, "non-deterministic: the stream, loaded and begun again, gives other instances", mend)
    elif shards.problem:
        yield Mistake(name, f"its state_dict() {shards.problem}", "let it be JSON: numbers, texts, lists and dicts")
    elif any(place.state is not None for place in stand.places.values()):
        there = Stand.told(json.loads(json.dumps(stand.plain())))
        expected = _inputs(stand, shards)
        try:
            other = Shards(stream, name, seed)
            other.go_to(there)
            found = _inputs(there, other)
        except RAISED as error:  # whatever the user's stream raises
            problem = f"load_state_dict raises {raised(error)}"
            yield Mistake(name, problem, "it is given what state_dict() gave, as JSON has it: lists for tuples")
            return
        if not np.array_equal(expected, found):
            mend = "let iter() go on from where load_state_dict says, right after the last instance given"
            yield Mistake(name, "a stream that goes on from state_dict() gives another instance next", mend)


def in_processes(name: str, config: DataConfig, seen: Sequence[Seen], shards: int, seed: int) -> Iterator[Mistake]:
    """Whether a process that loads the data set itself reads what was `seen` of its `shards`, as with
    `batcher.workers`."""
    try:
        readers = Readers(config, seed, shards, 1)
    except Exception as error:  # the process's own words
        mend = "what the callable needs must be there in a fresh interpreter: importable modules, files, environment"
        yield Mistake(name, f"cannot be read by a worker process: {error}", mend)
        return
    try:
        stand = Stand.beginning(range(shards))
        readers.go_to(stand)
        same = all(np.array_equal(one.inputs, _inputs(stand, readers)) for one in seen[:READ_ELSEWHERE])
        problem = "" if same else "a worker process reads other values than this one"
    except ConfigError as error:
        problem = str(error).removeprefix(f"data.name = {config.name!r}: ")
    finally:
        readers.close()
    if problem:
        mend = "instances must depend on nothing but the shard, the files, and the seeded generators, and be arrays"
        yield Mistake(name, problem, mend)


def _inputs(stand: Stand, reading: Reading) -> Array:
    """Those of the next instance."""
    return np.asarray(stand.next(reading)[0])
