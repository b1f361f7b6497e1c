"""A split whose instances already lie in memory, or in a memory-mapped file, as arrays."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from batcher.features import pool
from proto.types import Array, Float32s, Int64s

LOOKED_AT = 10_000
"""Instances from which mean and deviation of the channels are taken."""


def checked(labels: Any) -> Array:
    """Labels [N] as int64, or as float32 where they are floats. Raises ValueError when one is not finite."""
    given = np.asarray(labels)
    targets = given.astype(np.float32 if given.dtype.kind == "f" else np.int64, copy=False)
    if not np.isfinite(targets).all():
        index = int(np.argwhere(~np.isfinite(targets))[0, 0])
        raise ValueError(f"the label of instance {index} is {given[index]}; mend it or leave the instance out")
    return targets


class ArraySplit:
    """Inputs [N, ...] and labels [N], gathered straight into the batch."""

    def __init__(self, inputs: Array, labels: Any) -> None:
        """Whole labels are class numbers, others (float) are numbers to be predicted.

        Raises ValueError when the lengths differ, or when a label is not finite.
        """
        if len(inputs) != len(labels):
            raise ValueError(f"{len(inputs)} inputs but {len(labels)} labels")
        self.inputs, self.targets = inputs, checked(labels)

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, index: int) -> tuple[Array, int | float | Array]:
        label = self.targets[index]
        return self.inputs[index], label if label.ndim else label.item()

    def labels(self, ids: Int64s) -> Array:
        return self.targets[ids]

    def features(self, ids: Int64s) -> Float32s:
        return pool(self.inputs[ids])

    def fill(self, ids: Int64s, out: Mapping[str, Array]) -> None:
        for name, values in (("inputs", self.inputs), ("targets", self.targets)):
            if values.flags.c_contiguous and values.dtype == out[name].dtype:
                # "clip" lets numpy write straight into `out`; "raise" would go through a buffer. The ids are ours.
                np.take(values, ids, axis=0, out=out[name], mode="clip")
            else:
                out[name][...] = values[ids]

    def describe(self, index: int) -> Array | str:
        return picture(self.inputs[index])


def picture(inputs: Array) -> Array | str:
    """One input as a report may show it: an image uint8 [H, W] or [H, W, 3] if it is one, else its first numbers."""
    if inputs.dtype == np.uint8 and inputs.ndim == 3 and inputs.shape[0] in (1, 3):
        return inputs[0] if inputs.shape[0] == 1 else np.moveaxis(inputs, 0, -1)
    shown = ", ".join(f"{value:g}" for value in inputs.ravel()[:16].tolist())
    return f"{shown}, ..." if inputs.size > 16 else shown


def moments(images: Array) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and deviation of each channel of uint8 images [N, C, H, W], scaled to [0, 1], from at most `LOOKED_AT`
    evenly spaced ones."""
    some = images[:: -(-len(images) // LOOKED_AT)]
    channels = [some[:, channel].astype(np.float32) / 255 for channel in range(some.shape[1])]
    return tuple(float(c.mean(dtype=np.float64)) for c in channels), tuple(
        float(c.std(dtype=np.float64)) or 1.0 for c in channels
    )
