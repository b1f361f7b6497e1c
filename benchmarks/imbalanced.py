"""MNIST with classes of unequal size, 100 : 1 from the first to the last, for `autoassist compare`:

    autoassist compare data.name=benchmarks.imbalanced:data data.root=FOLDER [section.key=value ...]

Class k keeps the share 100^(-k/9) of its training instances (the long tail of Cui et al., CVPR 2019, section 5.1); the
test split is whole, so that each class counts the same.
"""

from typing import Any

import numpy as np

from batcher.datasets.arrays import ArraySplit
from batcher.datasets.idx import mnist
from batcher.plugin import Data
from proto.types import Int64s

RATIO = 100.0


def tail(labels: Int64s) -> Int64s:
    """Ids int64, ascending, of the instances that are left, the first of each class, for `labels` int64 [n] of all."""
    classes, counts = np.unique(labels, return_counts=True)
    shares = RATIO ** (-np.arange(len(classes)) / (len(classes) - 1))
    left = [
        np.flatnonzero(labels == label)[: max(1, round(float(count * share)))]
        for label, count, share in zip(classes, counts, shares, strict=True)
    ]
    return np.sort(np.concatenate(left))


def data(root: str) -> Data:
    """MNIST, its training split with a long tail; `root` holds MNIST/raw."""
    whole = mnist(root)
    train: Any = whole.train
    ids = tail(train.targets)
    left = ArraySplit(train.inputs[ids], train.targets[ids])
    return Data(left, whole.test, class_names=whole.class_names, mean=whole.mean, std=whole.std)
