"""The Assistant's forward pass, in numpy: the Batcher scores candidates with it, `assistant.learner` trains its arrays.

AutoAssist (Zhang, Yu, Dhillon, NeurIPS 2019), section 3: q = sigmoid(W x + U_y + b), the probability that an instance
of class y with features x has a loss above the running mean.
"""

from collections.abc import Mapping

import numpy as np

from proto.types import Array, Float32s, Int64s

Arrays = Mapping[str, Array]


def initial(feature_dim: int, classes: int) -> dict[str, Float32s]:
    """The arrays of an untrained scorer, all zero (q = 1/2): "w" [D], "u" [max(C, 1)], "b" [1], float32."""
    return {name: np.zeros(size, np.float32) for name, size in (("w", feature_dim), ("u", max(classes, 1)), ("b", 1))}


def score(arrays: Arrays, features: Float32s, labels: Int64s) -> Float32s:
    """q float32 [n] for features float32 [n, D] and labels int64 [n]; a label outside [0, C) adds no class term."""
    u = arrays["u"]
    known = (labels >= 0) & (labels < len(u))
    logit = features @ arrays["w"] + np.where(known, u[np.where(known, labels, 0)], 0) + arrays["b"]
    return (1 / (1 + np.exp(-np.clip(logit, -60, 60)))).astype(np.float32)
