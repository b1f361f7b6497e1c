"""CIFAR-10 whose training images are flipped and cropped at random, as a data set of one's own would be."""

import random

import numpy as np

from batcher.datasets.arrays import ArraySplit
from batcher.features import pool
from batcher.plugin import Data
from proto.types import Array, Float32s, Int64s

PAD = 4
"""Pixels by which a crop may be off centre."""


class FlipsAndCrops:
    """Images uint8 [N, 3, H, W], each mirrored with probability 1/2 and moved by up to `PAD` pixels, black outside."""

    def __init__(self, images: Array, targets: Int64s) -> None:
        self.images, self.targets = images, targets

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[Array, int]:
        image = self.images[index]
        _, height, width = image.shape
        moved = np.zeros_like(image)
        down, right = random.randint(-PAD, PAD), random.randint(-PAD, PAD)
        to_rows, to_columns = (slice(max(by, 0), size + min(by, 0)) for by, size in ((down, height), (right, width)))
        rows, columns = (slice(max(-by, 0), size + min(-by, 0)) for by, size in ((down, height), (right, width)))
        moved[:, to_rows, to_columns] = image[:, rows, columns]
        return (moved[:, :, ::-1] if random.random() < 0.5 else moved), int(self.targets[index])

    def features(self, ids: Int64s) -> Float32s:
        """What the Assistant looks at: the image as it lies there."""
        return pool(self.images[ids])


def cifar10(folder: str) -> Data:
    """50,000 training images, augmented, and 10,000 test images as they are, from `folder`/cifar-10-batches-py."""
    from torchvision.datasets import CIFAR10

    train, test = (CIFAR10(folder, train=part) for part in (True, False))
    images, held_out = (np.ascontiguousarray(split.data.transpose(0, 3, 1, 2)) for split in (train, test))
    return Data(
        FlipsAndCrops(images, np.array(train.targets)),
        ArraySplit(held_out, np.array(test.targets)),
        class_names=train.classes,
        mean=(0.4914, 0.4822, 0.4465),
        std=(0.2470, 0.2435, 0.2616),
    )
