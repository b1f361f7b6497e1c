"""The Batcher's core: messages in, messages out, no socket and no clock."""

import logging
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import numpy as np

from batcher.assembler import Assembler, Begun
from batcher.config import BatcherConfig, PolicyConfig
from batcher.cut import expected, make_cuts
from batcher.features import FeatureStore
from batcher.generator import Generator, Plan, Position
from batcher.plugin import Data, Split, is_stream
from batcher.policies import make_policy
from batcher.selector import Selector
from batcher.shards import Alive
from batcher.source import Source, sources_of
from batcher.spec import check_splits, spec_of
from batcher.stream import StreamStore, Tape
from batcher.suspects import count, write
from proto.batches import Batch, End, Open
from proto.config import RunConfig
from proto.learning import Features, Weights
from proto.messages import Kind, Value
from proto.transport import Layout
from proto.types import Array, Int64s

log = logging.getLogger(__name__)

EVALUATED: tuple[Kind, ...] = ("validation", "test")
MAX_PASSES = 2**40
Lend = Callable[[int, Layout], dict[str, Array]]


class BatcherCore:
    """Turns the Assistant's weights and the Boss's credits into batches.

    With a `lag`, batch b is chosen with exactly the version that has seen batch b - lag; else with the newest.
    """

    def __init__(
        self,
        run: RunConfig,
        config: BatcherConfig,
        policy: PolicyConfig,
        data: Data,
        name: str,
        lag: int | None = None,
        start_workers: Callable[[Mapping[Kind, Source], int], object] = lambda sources, rows: None,
    ) -> None:
        """Raises ConfigError when batch size or policy cannot be; `name` is the data set's, for messages.

        `start_workers` is given the sources and the size of the largest batch before instances are decoded.
        """
        self.run, self.config, self.lag = run, config, lag
        self.alive: Alive = lambda: None
        """Called while the instances of a stream are passed over, so that nobody takes that for a hang."""
        self._early: deque[Weights] = deque()
        self._received = self._resumed_after = 0
        self.tape = Tape(data.train, data.epoch_size, name, run.seed) if is_stream(data.train) else None
        if self.tape is not None and config.workers and not self.tape.shards:
            log.warning("the stream of %s is read by the Batcher itself; batcher.workers read its other splits", name)
        splits: dict[Kind, Split | None] = {
            "train": self.tape or data.train, "validation": data.validation, "test": data.test
        }  # fmt: skip
        self.sources = sources_of({kind: split for kind, split in splits.items() if split is not None}, name, run.seed)
        self.train = self.sources["train"]
        self._at_end: tuple[Kind, ...] = ("test",) if data.test_at_end else ()
        size = self.train.size
        self.total = max(1, round(run.budget * size))
        self._cuts = make_cuts(self.sources, config)
        batches, largest = expected(self._cuts["train"], self.total, size)
        classes = check_splits(self.sources, data, name)
        start_workers(self.sources, max(config.batch_size, largest))
        store = (
            FeatureStore(self.train, config.max_features, run.seed)
            if self.tape is None
            else StreamStore(self.train, self.tape, config.max_features)
        )
        rule = make_policy(policy)
        max_lag = policy.max_lag if lag is None else None
        self.store, self.selector = store, Selector(store, rule, classes, max_lag, policy.name)
        if self.tape is None:  # a stream is not read before it is opened
            self.selector.try_out()
        self.spec = spec_of(
            self.sources,
            data,
            classes=classes,
            feature_dim=store.dim,
            train_total=self.total,
            train_batches=batches,
            max_batch=largest,
            max_tokens=config.max_tokens,
            stream=self.tape is not None,
            assistant=self.selector.assistant,
        )
        # Not ahead in a deterministic run: the features of this batch may have a say in who is in the next.
        self._assembler = Assembler(self.sources, self._begin, max_bad=config.max_bad, ahead=lag is None)
        self._seq = self._candidates = self._kept = 0
        self._slots = self._unheard = 0
        """Slots of the stream; training batches planned since a version arrived."""
        self.batches_without_news = self.batches_uniform = 0
        """Training batches chosen while no version had come for more than `boss.slots` of them, and those for which
        everything was kept, because the newest version was more than `policy.max_lag` behind."""
        self._generator: Generator | None = None

    @property
    def skipped(self) -> list[int]:
        """Ids of instances that cannot be used."""
        return self._assembler.skipped

    @property
    def opened(self) -> bool:
        return self._generator is not None

    def can_open(self, message: Open) -> bool:
        """Whether `message` speaks of a place in this stream."""
        inside = (self.tape is not None or message.cursor <= self.train.size) and message.passes <= MAX_PASSES
        return inside and message.evaluated <= message.trained <= self.total and message.batches <= message.trained

    def open(self, message: Open) -> None:
        """The Boss begins to read: the stream starts, or goes on where the Boss says."""
        size = self.train.size
        self._slots = message.slots
        self.heard(message.step)
        self._seq, self._resumed_after = message.seq, message.batches
        if self.tape is not None:
            self.tape.go_to(message.cursor, message.stream, self.alive)
            self.store.forget(message.cursor)
        self._generator = Generator(
            size=size,
            splits={kind: self.sources[kind].size for kind in EVALUATED if kind in self.sources},
            cuts=self._cuts,
            total=self.total,
            eval_every=max(1, round(message.eval_every * size)) if message.eval_every else 0,
            seed=self.run.seed,
            select=self.selector.select,
            in_order=self.tape is not None,
            start=Position(message.passes, message.cursor, message.batches, message.trained, message.evaluated),
            at_end=self._at_end,
        )

    def heard(self, step: int) -> None:
        """The Boss is at optimizer step `step`."""
        self.selector.step = max(self.selector.step, step)

    def fold(self, weights: Weights) -> None:
        """Takes in a snapshot of the Assistant."""
        if self.lag is not None and weights.version <= self._received:
            self.selector.weights_refused += 1  # a copy of one that has come
            return
        self._unheard = 0
        self._received = weights.version
        self.selector.revisit(weights)
        if self.lag is None:
            self.selector.fold(weights)
        else:
            self._early.append(weights)

    @property
    def ready(self) -> bool:
        """Whether the next batch can be chosen now: with a lag, whether the version it needs has arrived."""
        assert self._generator is not None, "the stream is not open"
        if self.lag is None or not self._generator.trains_next:
            return True
        if self._received < self._resumed_after:
            return False  # the snapshots that come again tell which instances are known, also those for later batches
        needed = self._generator.batches + 1 - self.lag
        while self._early and self._early[0].version <= needed:
            self.selector.fold(self._early.popleft())
        return self.selector.version >= needed

    def next(self, slot: int, incarnation: int, lend: Lend) -> tuple[Batch | End, Features | None]:
        """The next batch, collated into the arrays that `lend` gives for `slot`, and its features for the Assistant."""
        assert self._generator is not None, "the stream is not open"
        assert self.ready, "the version that the next batch needs has not arrived"
        assembled = self._assembler.next(self._generator, partial(lend, slot))
        seq, self._seq = self._seq, self._seq + 1
        if assembled is None:
            return End(seq=seq, incarnation=incarnation), None
        begun, arrays = assembled
        plan = begun.plan
        train = plan.kind == "train"
        self._candidates += plan.candidates
        self._kept += len(plan.ids) if train else 0
        batch = Batch(
            kind=plan.kind,
            seq=seq,
            incarnation=incarnation,
            slot=slot,
            ids=plan.ids,
            passes_of=plan.passes_of,
            weights=plan.weights,
            version=begun.version,
            version_step=begun.version_step,
            passes=plan.passes,
            cursor=plan.cursor,
            candidates=plan.candidates,
            dropped=self._count(plan.dropped),
            last=plan.last,
            stream=self.tape.note(plan.cursor) if self.tape is not None else "",
            arrays=arrays,
        )
        if not train:
            return batch, None
        self.store.visit(batch.ids, batch.arrays)
        return batch, self._features(plan, seq, incarnation) if self.spec.assistant != "none" else None

    def _begin(self, generator: Generator) -> Begun | None:
        """Plans the next batch and has its instances decoded, by other processes where there are any."""
        before, late = generator.position, self.selector.late
        if self.tape is not None:
            self.tape.forget(before.cursor)
            self.store.forget(before.cursor)
        plan = generator.next()
        if plan is None:
            return None
        if plan.kind == "train" and self.tape is not None:
            # Here, and not where instances are decoded: a stream that fails is no instance that cannot be used.
            self.tape.reach(int(plan.ids.max()) + 1)
        if plan.kind == "train":
            self._unheard += 1
            self.batches_without_news += self._unheard > self._slots
            self.batches_uniform += late
        # Evaluations are read when they are assembled: without the instances known to be bad.
        train = plan.kind == "train"
        finish = self.train.begin(plan.ids, plan.passes_of) if train else lambda room: ({}, {})
        return Begun(before, plan, self.selector.version, self.selector.version_step, finish)

    def _features(self, plan: Plan, seq: int, incarnation: int) -> Features:
        return Features(
            batch_id=seq,
            incarnation=incarnation,
            ids=plan.ids,
            features=self.store.halves(plan.ids),
            labels=self.store.labels(plan.ids),
            wanted=self.selector.wanted(plan.ids, plan.coins),
        )

    def _count(self, ids: Int64s) -> Int64s:
        """How many of the instances `ids` are of each class, int64 [C + 1], last those whose class is not known yet."""
        classes = self.spec.classes
        if not len(ids):
            return np.zeros(classes + 1, np.int64)
        labels = self.store.labels(ids)
        return np.bincount(np.where(labels < 0, classes, labels), minlength=classes + 1).astype(np.int64)

    def write_suspects(self, path: Path) -> None:
        """Writes the suspects as CSV; a disk that refuses them is a warning in the log."""
        try:
            write(path, self.selector, self.spec.class_names, getattr(self.train.split, "describe", None))
        except OSError as error:
            log.warning("%s not written: %s", path.name, error)

    def metrics(self) -> dict[str, Value]:
        return {
            "candidates": self._candidates,
            "kept_fraction": self._kept / max(self._candidates, 1),
            "skipped": len(self.skipped),
            "skipped_ids": tuple(self.skipped[-16:]),
            "skipped_errors": "; ".join(self._assembler.errors),
            "suspects": count(self.selector),
            "p_histogram": tuple(self.selector.histogram.tolist()),
            "forced": self._generator.forced if self._generator else 0,
            "version": self.selector.version,
            "weights_refused": self.selector.weights_refused,
            "batches_without_news": self.batches_without_news,
            "batches_uniform": self.batches_uniform,
        }
