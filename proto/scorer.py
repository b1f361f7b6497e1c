"""The Assistant's forward pass, in numpy: the Batcher scores candidates with it, `assistant` trains its arrays.

There are two Assistants, and a policy declares which one it wants:

- "above", the AutoAssist paper's (Zhang, Yu, Dhillon, NeurIPS 2019, section 3): q = sigmoid(W x + U_y + b), the
  probability that an instance of class y with features x has a loss above the running mean;
- "loss": a network with two hidden layers over features, class and history, that predicts the loss an instance has now.
"""

import math
from collections.abc import Mapping

import numpy as np

from proto.messages import Assistant
from proto.types import Array, Float32s, Int64s

Arrays = Mapping[str, Array]

HIDDEN = 64, 32
"""Units of the two hidden layers."""
HISTORY = 6
"""Values that stand for an instance's record in the ledger."""
SOFTENED = 0.05
"""What the output stands for is log(r + 0.05), r the loss in units of the mean: far below the mean all are alike."""
CAP = 5.0
"""Largest output: losses above exp(5) times the mean are all alike."""
HIGHEST = math.exp(CAP)
BLOCK = 1024
"""Rows of one product."""
FINEST = 2.0**-17
"""The output's last digit. The last bits of a product depend on where in it a row stands, and a run that is resumed
looks at candidates in other portions; so products are float64, and the output is rounded to what does not depend on
that."""


def initial(kind: Assistant, feature_dim: int, classes: int) -> dict[str, Float32s]:
    """The arrays of an untrained Assistant, float32.

    "above": all zero (q = 1/2), "w" [D], "u" [max(C, 1)], "b" [1]. "loss": weights as torch initialises them, drawn
    with a fixed seed; "shift" and "scale" [D] of the features, "x" [D, H1], "y" [max(C, 1), H1], "z" [6, H1] and "b1"
    [H1] of the first layer, "w2" [H1, H2] and "b2" [H2] of the second, "w3" [H2] and "b3" [1] of the output, and the
    factor "calibration" [1] of the prediction.
    """
    if kind == "none":
        return {}
    if kind == "above":
        return {name: np.zeros(n, np.float32) for name, n in (("w", feature_dim), ("u", max(classes, 1)), ("b", 1))}
    rng, (one, two) = np.random.default_rng(0), HIDDEN

    def uniform(inputs: int, *shape: int) -> Float32s:
        return rng.uniform(-(inputs**-0.5), inputs**-0.5, shape).astype(np.float32)

    return {
        "shift": np.zeros(feature_dim, np.float32),
        "scale": np.ones(feature_dim, np.float32),
        "x": uniform(feature_dim, feature_dim, one),
        "y": uniform(HISTORY, max(classes, 1), one),
        "z": uniform(HISTORY, HISTORY, one),
        "b1": np.zeros(one, np.float32),
        "w2": uniform(one, one, two),
        "b2": np.zeros(two, np.float32),
        "w3": np.zeros(two, np.float32),
        "b3": np.zeros(1, np.float32),
        "calibration": np.ones(1, np.float32),
    }


def score(arrays: Arrays, features: Float32s, labels: Int64s) -> Float32s:
    """q float32 [n] for features float32 [n, D] and labels int64 [n]; a label outside [0, C) adds no class term."""
    logit = features @ arrays["w"] + _of_class(arrays["u"], labels) + arrays["b"]
    return (1 / (1 + np.exp(-np.clip(logit, -60, 60)))).astype(np.float32)


def forecast(arrays: Arrays, features: Float32s, labels: Int64s, history: Float32s) -> Float32s:
    """The loss now in units of the mean loss, float32 [n], for features [n, D], labels [n] and `history` [n, 6].

    A label outside [0, C) adds no class term.
    """
    # The features are standardised by the first layer itself, which saves a pass over all of them.
    of = {name: array.astype(np.float64) for name, array in arrays.items()}
    x = of["x"] * of["scale"][:, None]
    first = np.concatenate([x, of["z"]])
    bias = of["b1"] - of["shift"] @ x
    output = np.empty(len(features), np.float32)
    rows = np.empty((min(BLOCK, len(features)), len(first)))
    for start in range(0, len(features), BLOCK):
        part = slice(start, start + BLOCK)
        n = len(output[part])
        rows[:n, : -history.shape[1]], rows[:n, -history.shape[1] :] = features[part], history[part]
        hidden = rows[:n] @ first + bias + _of_class(of["y"], labels[part])
        hidden = np.maximum(np.maximum(hidden, 0) @ of["w2"] + of["b2"], 0)
        output[part] = np.round((hidden @ of["w3"] + of["b3"]) / FINEST) * FINEST
    return relative(output) * arrays["calibration"]


def history(records: Mapping[str, Array], step: int, mean_loss: float) -> Float32s:
    """What the ledger's `records` tell at Boss step `step`, float32 [n, 6], of the size of 1.

    Whether there is a last loss, and one before, both in units of `mean_loss` and then as `target`; age in steps and
    times trained as logarithms. All 0 without a record.
    """
    last, before = records["last_loss"], records["loss_before"]
    seen, twice = np.isfinite(last), np.isfinite(before)
    age = np.maximum(step - records["last_step"], 0)
    columns = [
        seen,
        np.where(seen, target(last, mean_loss), 0),
        twice,
        np.where(twice, target(before, mean_loss), 0),
        np.where(seen, np.log1p(age, dtype=np.float32) / 4 - 1, 0),
        np.log1p(records["times_trained"], dtype=np.float32) / 2,
    ]
    return np.stack(columns, axis=1).astype(np.float32)


def target(losses: Float32s, mean_loss: float) -> Float32s:
    """Losses as they are predicted: log(loss / mean + 0.05), float32 [n], at most CAP."""
    with np.errstate(over="ignore", invalid="ignore"):
        logs = np.log(np.maximum(losses, 0) / np.float32(max(mean_loss, 1e-12)) + np.float32(SOFTENED))
    return np.minimum(logs, np.float32(CAP)).astype(np.float32)


def relative(targets: Float32s) -> Float32s:
    """The inverse of `target`: losses in units of the mean, at least 0."""
    return np.maximum(np.exp(np.minimum(targets, np.float32(CAP))) - np.float32(SOFTENED), 0).astype(np.float32)


def _of_class(table: Array, labels: Int64s) -> Array:
    """The row of `table` of each label; 0 for labels outside it."""
    known = (labels >= 0) & (labels < len(table))
    rows = table[np.where(known, labels, 0)]
    return np.where(known if table.ndim == 1 else known[:, None], rows, 0)
