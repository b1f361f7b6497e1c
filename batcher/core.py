"""The Batcher's core: messages in, messages out, no socket and no clock."""

from collections.abc import Callable

import numpy as np

from batcher.config import POLICIES, BatcherConfig, PolicyConfig
from batcher.features import FeatureStore
from batcher.generator import Generator, batch_sizes
from batcher.plugin import Data, Source
from batcher.selector import Selector
from proto.config import RunConfig
from proto.errors import ConfigError
from proto.messages import Batch, DataSpec, End, Features, Kind, Open, Value, Weights
from proto.resolver import build, resolve
from proto.transport import Layout
from proto.types import Array, Int64s

EVALUATED: tuple[Kind, ...] = ("validation", "test")
Lend = Callable[[int, Layout], dict[str, Array]]


class BatcherCore:
    """Turns the Assistant's weights and the Boss's credits into batches."""

    def __init__(self, run: RunConfig, config: BatcherConfig, policy: PolicyConfig, data: Data, name: str) -> None:
        """Raises ConfigError when batch size or policy cannot be; `name` is the data set's, for messages."""
        self.run, self.config = run, config
        splits = {"train": data.train, "validation": data.validation, "test": data.test}
        self.sources: dict[str, Source] = {
            kind: Source(split, name) for kind, split in splits.items() if split is not None
        }
        self.train = self.sources["train"]
        size = self.train.size
        if config.batch_size > size:
            raise ConfigError(
                "batcher.batch_size",
                config.batch_size,
                f"over the data set's size; {name} has {size} training instances",
            )
        self.total = max(1, round(run.budget * size))
        batches, largest = batch_sizes(self.total, config.batch_size)
        classes = len(data.class_names) or self.train.classes()
        store = FeatureStore(self.train, config.max_features, run.seed)
        rule = build("policy.args", resolve("policy.name", policy.name, POLICIES), {"gamma": policy.gamma}, policy.args)
        self.store, self.selector = store, Selector(store, rule, classes)
        self.spec = DataSpec(
            train_size=size,
            validation_size=len(data.validation) if data.validation is not None else 0,
            test_size=len(data.test) if data.test is not None else 0,
            classes=classes,
            class_names=tuple(data.class_names),
            input_shape=self.train.shape,
            input_dtype=self.train.dtype.name,
            mean=tuple(data.mean),
            std=tuple(data.std),
            feature_dim=store.dim,
            train_total=self.total,
            train_batches=batches,
            max_batch=largest,
        )
        self._seq = self._candidates = self._kept = 0
        self._dropped = np.zeros(classes, np.int64)
        self._generator: Generator | None = None

    @property
    def opened(self) -> bool:
        return self._generator is not None

    def open(self, message: Open) -> None:
        """The Boss begins to read: the stream starts."""
        self._generator = Generator(
            size=self.train.size,
            splits={kind: self.sources[kind].size for kind in EVALUATED if kind in self.sources},
            batch_size=self.config.batch_size,
            total=self.total,
            eval_every=max(1, round(message.eval_every * self.train.size)) if message.eval_every else 0,
            seed=self.run.seed,
            select=self.selector.select,
        )

    def fold(self, weights: Weights) -> None:
        self.selector.fold(weights)

    def next(self, slot: int, incarnation: int, lend: Lend) -> tuple[Batch | End, Features | None]:
        """The next batch, collated into the arrays that `lend` gives for `slot`, and its features for the Assistant."""
        assert self._generator is not None, "the stream is not open"
        plan = self._generator.next()
        seq, self._seq = self._seq, self._seq + 1
        if plan is None:
            return End(seq=seq, incarnation=incarnation), None
        train, source = plan.kind == "train", self.sources[plan.kind]
        arrays = lend(slot, source.layout(len(plan.ids)))
        source.fill(plan.ids, arrays)
        dropped = self._count(plan.dropped) if len(plan.dropped) else np.zeros_like(self._dropped)
        self._candidates += plan.candidates
        self._kept += len(plan.ids) if train else 0
        batch = Batch(
            kind=plan.kind,
            seq=seq,
            incarnation=incarnation,
            slot=slot,
            ids=plan.ids,
            weights=plan.weights,
            version=self.selector.version,
            version_step=self.selector.version_step,
            passes=plan.passes,
            cursor=plan.cursor,
            candidates=plan.candidates,
            dropped=dropped,
            last=plan.last,
            arrays=arrays,
        )
        return batch, self._features(batch) if train else None

    def _features(self, batch: Batch) -> Features:
        self.store.visit(batch.ids, batch.arrays)
        features, labels, _ = self.store.get(batch.ids)
        return Features(
            batch_id=batch.seq, incarnation=batch.incarnation, ids=batch.ids, features=features, labels=labels
        )

    def _count(self, ids: Int64s) -> Int64s:
        _, labels, known = self.store.get(ids)
        counts = np.bincount(labels[known], minlength=len(self._dropped))
        self._dropped += counts
        return counts.astype(np.int64)

    def metrics(self) -> dict[str, Value]:
        return {
            "candidates": self._candidates,
            "kept": self._kept,
            "kept_fraction": self._kept / max(self._candidates, 1),
            "dropped_per_class": tuple(self._dropped.tolist()),
            "forced": self._generator.forced if self._generator else 0,
            "version": self.selector.version,
            "weights_refused": self.selector.weights_refused,
        }
