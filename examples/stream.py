"""A stream: instances that come one after the other, without an end. Here they are points on two noisy spirals.

    ./scripts/launch.sh examples/stream.toml

With `state_dict` and `load_state_dict` a run that was interrupted goes on where it was; without them it would read the
stream from its beginning and pass over what it has had. With `num_shards` and `shard` it is read by `batcher.workers`
processes, where these are asked for; without them the Batcher reads it alone.
"""

import numpy as np

from batcher.datasets.arrays import ArraySplit
from batcher.plugin import Data


class Spirals:
    """Points float32 [2] and which of the two spirals each lies on, the k-th drawn from (seed, k); every `step`-th."""

    num_shards = 4

    def __init__(self, seed, begin=0, step=1):
        self.seed, self.next, self.step = seed, begin, step

    def shard(self, num_shards, index):
        return Spirals(self.seed, index, num_shards)

    def __iter__(self):
        while True:
            rng = np.random.default_rng([self.seed, self.next])
            spiral, turn = int(rng.integers(2)), rng.uniform(0.25, 1.0)
            angle = np.pi * (2 * turn + spiral)
            point = 2 * turn * np.array([np.cos(angle), np.sin(angle)]) + rng.normal(scale=0.2, size=2)
            self.next += self.step
            yield point.astype(np.float32), spiral

    def state_dict(self):
        return {"next": self.next}

    def load_state_dict(self, state):
        self.next = state["next"]


def data(test_size=1000):
    points = iter(Spirals(seed=1))
    inputs, labels = zip(*(next(points) for _ in range(test_size)), strict=True)
    return Data(Spirals(seed=0), ArraySplit(np.stack(inputs), labels), class_names=("left", "right"))
