"""A split whose instances already lie in memory as arrays."""

from collections.abc import Mapping

import numpy as np

from batcher.collate import plain
from batcher.features import pool
from proto.types import Array, Float32s, Int64s


class ArraySplit:
    """Inputs [N, ...] and labels, class numbers [N] or float targets [N, ...], gathered straight into the batch."""

    def __init__(self, inputs: Array, labels: Array) -> None:
        """Raises ValueError when the lengths differ."""
        if len(inputs) != len(labels):
            raise ValueError(f"{len(inputs)} inputs but {len(labels)} labels")
        self.inputs, self.targets = np.ascontiguousarray(inputs), plain(labels)
        if self.targets.ndim == 1 and self.targets.dtype == np.uint8:
            self.targets = self.targets.astype(np.int64)

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, index: int) -> tuple[Array, Array]:
        return self.inputs[index], self.targets[index]

    def labels(self, ids: Int64s) -> Array:
        return self.targets[ids]

    def features(self, ids: Int64s) -> Float32s:
        return pool(self.inputs[ids])

    def fill(self, ids: Int64s, out: Mapping[str, Array]) -> None:
        # "clip" lets numpy write straight into `out`; "raise" would go through a buffer. The ids are ours, in range.
        np.take(self.inputs, ids, axis=0, out=out["inputs"], mode="clip")
        np.take(self.targets, ids, axis=0, out=out["targets"], mode="clip")
