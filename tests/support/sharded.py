"""Streams that shard themselves, which processes can read, too."""

import os
import random
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from batcher.plugin import Data

SIZES = (70, 25, 40, 1, 0)
WIDE_BYTES = 40_000


class Shards:
    """Instance k of shard s holds s, k, the walk and a random number; its class is k mod 3."""

    def __init__(self, sizes: Sequence[int], options: dict[str, Any], shard: int | None = None) -> None:
        self.sizes, self.options, self.number = sizes, options, shard
        self.walk = 0

    @property
    def num_shards(self) -> Any:
        return self.options.get("num_shards", len(self.sizes))

    def shard(self, num_shards: int, index: int) -> Any:
        if index == self.options.get("raises"):
            raise FileNotFoundError(f"part-{index} is gone")
        return type(self)(self.sizes, self.options, index)

    def item(self, k: int) -> Any:
        here = [self.number, k]
        if log := self.options.get("log"):  # who read what
            with open(log, "a") as file:
                file.write(f"{os.getpid()} {self.number} {k}\n")
        if here == self.options.get("fails"):
            raise OSError("the line is dead")
        if here == self.options.get("kills"):
            once = self.options.get("once")
            if not once or not Path(once).exists():
                Path(once or os.devnull).touch()
                os.kill(os.getpid(), signal.SIGKILL)
        label = (lambda: 0) if here == self.options.get("unsendable") else k % 3
        return np.array([*here, self.walk, random.random()], np.float32), label

    def __iter__(self) -> Iterator[Any]:
        assert self.number is not None, "it is read by its shards"
        for k in range(self.sizes[self.number]):
            yield self.item(k)


class Wide(Shards):
    """The same, with large instances."""

    def item(self, k: int) -> Any:
        inputs, label = super().item(k)
        return np.pad(inputs, (0, WIDE_BYTES // 4 - len(inputs))), label


class Slow(Shards):
    """The same, each instance of which takes a while."""

    def item(self, k: int) -> Any:
        time.sleep(0.004)
        return super().item(k)


class Epochs(Shards):
    """The same, which is told in which walk it is."""

    def set_epoch(self, epoch: int) -> None:
        self.walk = epoch


class Stateful(Shards):
    """The same, which can be gone on with, and counts its walks itself."""

    next = 0

    def __iter__(self) -> Iterator[Any]:
        assert self.number is not None, "it is read by its shards"
        while self.next < self.sizes[self.number]:
            self.next += 1
            yield self.item(self.next - 1)
        self.next = 0
        self.walk += 1

    def state_dict(self) -> dict[str, int]:
        return {"walk": self.walk, "next": self.next}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.walk, self.next = state["walk"], state["next"]


class Sticky(Epochs):
    """The same; told to go on from a state it begins there in every walk, until it is told of another one. Its state is
    at the end until the next walk is under way. Hugging Face's streams are like that."""

    start = last = (0, 0)

    def __iter__(self) -> Iterator[Any]:
        walk, begin = self.start
        for k in range(begin if walk == self.walk else 0, self.sizes[self.number or 0]):
            self.last = self.walk, k + 1
            yield self.item(k)

    def state_dict(self) -> dict[str, int]:
        return dict(zip(("walk", "next"), self.last, strict=True))

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.start = state["walk"], state["next"]


def data(kind: str = "Shards", sizes: Sequence[int] = SIZES, epoch_size: int = 100, **options: Any) -> Data:
    return Data(globals()[kind](sizes, options), class_names=("a", "b", "c"), epoch_size=epoch_size)


def not_in_a_worker(**options: Any) -> Data:
    if "batcher.worker" in " ".join(sys.orig_argv):
        raise FileNotFoundError("no such folder here")
    return data(**options)


def hugging_face(rows: int = 50, shards: int = 3) -> Data:
    """Hugging Face's own stream; rows of it are dicts."""
    from datasets import Dataset

    columns = {"x": [[float(row), row / 2] for row in range(rows)], "y": [row % 3 for row in range(rows)]}
    stream = Dataset.from_dict(columns).to_iterable_dataset(num_shards=shards)
    stream.collate = lambda items: {
        "inputs": np.array([item["x"] for item in items], np.float32),
        "targets": np.array([item["y"] for item in items]),
    }
    return Data(stream, class_names=("a", "b", "c"), epoch_size=rows)
