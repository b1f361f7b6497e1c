"""A data set whose items are decoded one by one, some of which go wrong; worker processes can load it, too."""

import os
import random
import signal
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from batcher.plugin import Data

SIZE = 40


class Split:
    """Instance i holds i and a random number of each generator that transforms draw from."""

    def __init__(
        self,
        bad: Sequence[int] = (),
        killers: Sequence[int] = (),
        exits: Sequence[int] = (),
        log: str = "",
        labels: bool = True,
        torch: bool = False,
    ):
        self.bad, self.killers, self.exits, self.log, self.torch = set(bad), set(killers), set(exits), log, torch
        if labels:
            self.targets = np.arange(SIZE) % 3

    def __len__(self) -> int:
        return SIZE

    def __getitem__(self, index: int) -> Any:
        if self.log:  # who decoded what
            with open(self.log, "a") as log:
                log.write(f"{os.getpid()} {index}\n")
        if index in self.bad:
            raise OSError(f"image {index} is truncated")
        if index in self.exits:
            sys.exit(3)
        if index in self.killers:
            os.kill(os.getpid(), signal.SIGKILL)
        drawn = [random.random(), np.random.random(), 0.0]  # noqa: NPY002 (what transforms draw from)
        if self.torch:
            import torch

            drawn[2] = float(torch.rand(()))
        return np.array([index, *drawn], np.float32), index % 3


class Many(Split):
    """Offers several items in one call."""

    def __getitems__(self, indices: list[int]) -> list[Any]:
        return [self[index] for index in indices]


class WithFeatures(Split):
    """Offers its features without decoding."""

    def features(self, ids: Any) -> Any:
        return np.stack([ids, ids % 3, ids * 0 + 1], 1).astype(np.float32)


def data(kind: str = "Split", bad_test: Sequence[int] | None = None, **options: Any) -> Data:
    test = None if bad_test is None else Split(bad_test, log=options.get("log", ""))
    return Data(globals()[kind](**options), test)


def with_torch(**options: Any) -> Data:
    import torch  # noqa: F401

    return data(torch=True, **options)


class Walk:
    """A stream of the same instances."""

    def __iter__(self) -> Iterator[Any]:
        split = Split()
        yield from (split[index] for index in range(SIZE))


def stream() -> Data:
    """A stream that cannot be sharded, beside a split whose items can be read one by one."""
    return Data(Walk(), Split(), class_names=("a", "b", "c"), epoch_size=SIZE)


def not_in_a_worker() -> Data:
    if "batcher.worker" in " ".join(sys.orig_argv):
        raise FileNotFoundError("no such folder here")
    return data()
