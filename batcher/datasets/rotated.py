"""Rotated MNIST: every image of MNIST turned about its centre by an angle of its own, always the same one."""

import numpy as np

from batcher.datasets.arrays import ArraySplit, moments
from batcher.datasets.idx import mnist
from batcher.plugin import Data
from proto.types import Array, Float32s

CHUNK = 2000
"""Images that are turned at one time; each takes about 100 kB meanwhile."""


def rotated_mnist(root: str, download: bool = False) -> Data:
    """MNIST, each image turned by an angle drawn uniformly from [0, 360) degrees.

    As in Larochelle et al., *An Empirical Evaluation of Deep Architectures on Problems with Many Factors of Variation*
    (2007). The angle belongs to the instance, not to the pass: it is drawn from a fixed seed, the split and the id.
    Reads the files of `mnist`.
    """
    data = mnist(root, download)
    assert isinstance(data.train, ArraySplit)
    assert isinstance(data.test, ArraySplit)
    train, test = (
        ArraySplit(turned(split.inputs, angles(len(split), number)), split.targets)
        for number, split in enumerate((data.train, data.test))
    )
    mean, std = moments(train.inputs)
    return Data(train, test, class_names=data.class_names, mean=mean, std=std)


def angles(n: int, split: int) -> Float32s:
    """Angles float32 [n] in degrees of the instances of a split (0: train, 1: test)."""
    return np.random.default_rng(np.random.SeedSequence([0, split])).uniform(0, 360, n).astype(np.float32)


def turned(images: Array, degrees: Float32s) -> Array:
    """Images uint8 [N, 1, H, W] turned counter-clockwise about their centres by `degrees` [N], bilinearly; what comes
    in from outside is 0."""
    n, _, height, width = images.shape
    y, x = np.mgrid[:height, :width].astype(np.float32)
    y, x = y.ravel() - (height - 1) / 2, x.ravel() - (width - 1) / 2
    # A border of two zeros on each side: a place outside is moved onto it, and then needs no case of its own.
    padded = np.pad(images[:, 0], [(0, 0), (2, 2), (2, 2)]).reshape(n, -1)
    row = width + 4
    out = np.empty((n, height * width), np.uint8)
    for start in range(0, n, CHUNK):
        part = slice(start, start + CHUNK)
        radians = np.deg2rad(degrees[part])[:, None]
        cos, sin = np.cos(radians), np.sin(radians)
        from_y = np.clip(cos * y + sin * x + (height - 1) / 2 + 2, 0.5, height + 2.5)
        from_x = np.clip(cos * x - sin * y + (width - 1) / 2 + 2, 0.5, width + 2.5)
        top, left = np.floor(from_y), np.floor(from_x)
        down, right = from_y - top, from_x - left
        corner = (top * row + left).astype(np.int64) + np.arange(len(radians))[:, None] * padded.shape[1]
        source = padded[part].ravel()
        upper = source[corner] * (1 - right) + source[corner + 1] * right
        lower = source[corner + row] * (1 - right) + source[corner + row + 1] * right
        out[part] = np.rint(upper * (1 - down) + lower * down)
    return out.reshape(images.shape)
