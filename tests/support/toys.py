"""Small messages, data sets and cores to test with."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from batcher.config import BatcherConfig, PolicyConfig
from batcher.core import BatcherCore
from batcher.datasets.arrays import ArraySplit
from batcher.plugin import Data
from proto import scorer
from proto.batches import Batch, End, Open
from proto.config import RunConfig
from proto.control import DataSpec
from proto.learning import Features, Losses, Weights
from proto.ledger import Ledger
from proto.transport import Layout

BIG_IDS = np.array([2049, 50001, 2**24 + 1])
"""Ids that float16, uint16 and float32 cannot hold."""


def spec(**changes: Any) -> DataSpec:
    fields: dict[str, Any] = {
        "train_size": 100, "validation_size": 0, "test_size": 20, "classes": 3, "class_names": (), "input_shape": (6,),
        "input_dtype": "float32", "mean": (), "std": (), "feature_dim": 6, "train_total": 200, "train_batches": 7,
        "max_batch": 32,
    }  # fmt: skip
    return DataSpec(**fields | changes)


def batch(ids: Sequence[int], inputs: Any = None, targets: Any = None, **changes: Any) -> Batch:
    n = len(ids)
    fields: dict[str, Any] = {
        "kind": "train", "seq": 0, "incarnation": 0, "slot": 0, "ids": np.asarray(ids, np.int64),
        "passes_of": np.zeros(n, np.int64), "weights": np.ones(n, np.float32), "version": 0, "version_step": 0,
        "passes": 0, "cursor": n, "candidates": n, "dropped": np.zeros(3, np.int64), "last": False,
        "arrays": {
            "inputs": np.zeros((n, 6), np.float32) if inputs is None else inputs,
            "targets": np.zeros(n, np.int64) if targets is None else targets,
        },
    }  # fmt: skip
    return Batch(**fields | changes)


def features(batch_id: int, ids: Sequence[int], matrix: Any, labels: Any, incarnation: int = 0) -> Features:
    return Features(
        batch_id=batch_id,
        incarnation=incarnation,
        ids=np.asarray(ids, np.int64),
        features=np.asarray(matrix, np.float16),
        labels=np.asarray(labels, np.int64),
        wanted=np.full(len(ids), np.nan, np.float32),
    )


def losses(batch_id: int, ids: Sequence[int], values: Any, step: int | None = None, incarnation: int = 0) -> Losses:
    return Losses(
        batch_id=batch_id,
        step=batch_id + 1 if step is None else step,
        incarnation=incarnation,
        ids=np.asarray(ids, np.int64),
        losses=np.asarray(values, np.float32),
    )


def weights(version: int, **changes: Any) -> Weights:
    """Snapshot `version` of a scorer for 6 features and 3 classes, with an empty ledger delta."""
    nobody = np.empty(0, np.int64)
    fields: dict[str, Any] = {
        "version": version, "step": version, "incarnation": 0, "arrays": scorer.initial("above", 6, 3),
        "mean_loss": 0.5, "untrained_loss": 0.0, "selecting": 0.0,
        "confidence": 0.5, "full": False, "delta_number": version - 1,
        "delta": {"ids": nobody, **Ledger(0).take(nobody)},
    }  # fmt: skip
    return Weights(**fields | changes)


def lend(slot: int, layout: Layout) -> dict[str, Any]:
    return {name: np.empty(shape, dtype) for name, (shape, dtype) in layout.items()}


def numbered(size: int, test_size: int = 0, classes: int = 3) -> Data:
    """Instance i of the training split is filled with i, of the test split with -i; its class is i mod `classes`."""

    def split(n: int, sign: int) -> ArraySplit:
        return ArraySplit(np.repeat(sign * np.arange(n, dtype=np.float32)[:, None], 6, 1), np.arange(n) % classes)

    return Data(split(size, 1), split(test_size, -1) if test_size else None)


def opened(
    data: Data,
    *,
    batch_size: int = 32,
    budget: float = 2.0,
    seed: int = 0,
    eval_every: float = 0.0,
    lag: int | None = None,
    policy: str = "uniform",
) -> BatcherCore:
    """A Batcher core under `policy` whose stream is open."""
    core = BatcherCore(
        RunConfig(budget=budget, seed=seed),
        BatcherConfig(batch_size=batch_size),
        PolicyConfig(name=policy),
        data,
        "toy",
        lag,
    )
    core.open(Open(incarnation=0, rank=0, slots=1, eval_every=eval_every))
    return core


def batches(core: BatcherCore) -> list[Batch]:
    """All batches to the end of the stream."""
    found = []
    while not isinstance((message := core.next(0, 0, lend)[0]), End):
        found.append(message)
    return found
