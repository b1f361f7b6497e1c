"""`autoassist check-data`: loads a data set as a run would, and finds what will not work before a run does."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np

from batcher import mistakes as finding
from batcher.config import DATASETS, DataConfig
from batcher.decode import kept_random_state
from batcher.mistakes import Mistake, Seen, all_labels
from batcher.offers import in_offers, token_ids
from batcher.plugin import Data, is_stream, load
from batcher.shards import Shards, shards_of
from batcher.source import Source
from batcher.stream import Tape
from batcher.stream_mistakes import in_processes, in_stream
from batcher.workers import Pool
from proto.errors import RAISED, raised
from proto.messages import Kind
from proto.types import Array, Int64s

OFFERS = ("labels", "targets", "features", "fill", "lengths", "collate", "describe", "__getitems__")
DRAW_S = 1.0
"""How long batches are drawn from a split."""
IN_A_WORKER = 16
"""Instances of a split that a worker process reads."""


@dataclass
class SplitFacts:
    """What a split is like. `counts` int64 [C] are instances by class, of all or of those looked at (`counted`);
    `features` says how the Assistant gets them. `size` None: a stream, of so many `shards` (0: it does not
    shard itself)."""

    name: Kind
    size: int | None
    inputs: str
    labels: str
    offers: tuple[str, ...]
    features: str = "derived"
    counts: Int64s | None = None
    counted: int = 0
    example: str = ""
    instances_per_s: float | None = None
    megabytes_per_s: float | None = None
    shards: int = 0


@dataclass
class Findings:
    """All that was found about a data set."""

    name: str
    origin: str
    class_names: tuple[str, ...] = ()
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    load_s: float = 0.0
    splits: list[SplitFacts] = field(default_factory=list)
    mistakes: list[Mistake] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def check(config: DataConfig, batch_size: int, seed: int) -> Findings:
    """Loads the data set `config`, looks at a sample of each split, draws batches of `batch_size`, and reads some
    instances in a worker process. Raises ConfigError when it cannot be loaded at all."""
    began = time.perf_counter()
    data = load(config)
    origin = DATASETS[config.name].origin if config.name in DATASETS else "your own"
    found = Findings(
        config.name, origin, tuple(data.class_names), tuple(data.mean), tuple(data.std), time.perf_counter() - began
    )
    splits: dict[Kind, Any] = {"train": data.train, "validation": data.validation, "test": data.test}
    if is_stream(data.train):
        Shards(data.train, config.name, seed)
    with kept_random_state():
        for name, split in splits.items():
            if split is not None:
                _look(found, config, name, split, len(data.class_names), seed)
        _compare(found, data)
        if not found.mistakes:
            _draw(found, config, data, batch_size, seed)
    return found


def _look(found: Findings, config: DataConfig, name: Kind, split: Any, classes: int, seed: int) -> None:
    collates = hasattr(split, "collate")
    seen, problems = ([], []) if collates else finding.read(name, split, seed)
    if seen:
        problems += _guarded(name, finding.in_shapes(name, split, seen))
        problems += _guarded(name, finding.in_labels(name, split, seen, classes))
        problems += _guarded(name, finding.in_randomness(name, split, seen, seed))
        if not problems and is_stream(split):
            problems += _guarded(name, in_stream(name, split, load(config).train, seen, seed))
            if not problems and (shards := shards_of(split, name)):
                problems += in_processes(name, config, seen, shards, seed)
        if not problems:
            problems += in_offers(name, split, seen)
    elif collates and not is_stream(split):
        ids = finding.sample(len(split))
        nothing = np.empty(0)
        problems += in_offers(name, split, [Seen(int(index), nothing, nothing) for index in ids])
    found.mistakes += problems
    found.splits.append(_facts(name, split, seen, not problems))
    if name == "train" and seen and not found.mean:
        found.notes += _unnormalised(seen)


def _unnormalised(seen: Sequence[Seen]) -> Iterator[str]:
    """Says of uint8 images which mean and deviation would normalise them."""
    images = [one.inputs for one in seen if one.inputs.dtype == np.uint8 and one.inputs.ndim == 3]
    if len(images) == len(seen) and len({len(image) for image in images}) == 1:
        pixels = np.concatenate([image.reshape(len(image), -1) for image in images], axis=1) / 255
        mean, std = ([round(float(value), 3) for value in of] for of in (pixels.mean(1), pixels.std(1)))
        yield (
            "uint8 values reach the model divided by 255, no more; to normalise them give Data a mean and std: "
            f"mean={mean}, std={std} by the {len(images)} instances looked at"
        )


def _guarded(name: Kind, mistakes: Iterator[Mistake]) -> Iterator[Mistake]:
    """`mistakes`, with what the data set raises while they are looked for."""
    try:
        yield from mistakes
    except RAISED as error:  # whatever the user's data set raises
        yield Mistake(name, f"it raises {raised(error)}", "see docs/plugins.md for what is offered how")


def _facts(name: Kind, split: Any, seen: Sequence[Seen], sound: bool) -> SplitFacts:
    offers = tuple(offer for offer in OFFERS if hasattr(split, offer))
    size = None if is_stream(split) else len(split)
    facts = SplitFacts(name, size, _inputs(split, seen, sound), _labels(seen), offers)
    facts.shards = shards_of(split, name) if size is None else 0
    labels = all_labels(split)
    if not isinstance(labels, np.ndarray):
        labels = np.array([one.label for one in seen if one.label.ndim == 0 and one.label.dtype.kind in "iu"])
    if labels.ndim == 1 and labels.dtype.kind in "iu" and len(labels) and labels.min() >= 0:
        facts.counts, facts.counted = np.bincount(labels), len(labels)
    if sound and seen and "features" in offers and size is not None:
        given = split.features(np.array([seen[0].index]))
        facts.features = "token ids, offered" if token_ids(given) else f"{np.asarray(given).shape[1]}, offered"
    if sound and seen and "describe" in offers and size is not None:
        shown = split.describe(seen[0].index)
        facts.example = shown if isinstance(shown, str) else ""
    return facts


def _inputs(split: Any, seen: Sequence[Seen], sound: bool) -> str:
    """Dtype and shape; where the items differ, from the least to the most, of those looked at."""
    if not seen:
        return "-"
    shapes = {one.inputs.shape for one in seen}
    dims = [sorted({shape[k] for shape in shapes}) for k in range(min(len(shape) for shape in shapes))]
    if sound and hasattr(split, "lengths"):
        dims[0] = np.unique(split.lengths(np.arange(len(split)))).tolist()
    shown = ", ".join(str(d[0]) if len(d) == 1 else f"{d[0]} to {d[-1]}" for d in dims)
    return f"{seen[0].inputs.dtype} [{shown}]"


def _labels(seen: Sequence[Seen]) -> str:
    if not seen:
        return "-"
    label = seen[0].label
    if label.ndim:
        return f"{label.dtype} {list(label.shape)}"
    return "class number" if label.dtype.kind in "iub" else "a number to be predicted"


def _compare(found: Findings, data: Data) -> None:
    """What is remarkable about the splits together."""
    if data.test is None:
        found.notes.append("there is no test split: nothing is evaluated")
    train = found.splits[0]
    if train.shards:
        many = f"its shards, {train.shards} in all" if train.shards > 1 else "its only shard, in one process"
        found.notes.append(f"batcher.workers read {many}")
    elif train.size is None:
        found.notes.append("the stream does not shard itself: the Batcher alone reads it, whatever batcher.workers is")
    if (
        train.size is not None
        and not {"labels", "targets"} & set(train.offers)
        and not data.class_names
        and train.labels == "class number"
    ):
        found.notes.append("without labels(ids), targets or class_names every item is read to count the classes")
    found.notes += _untrained(found.splits, data.class_names)
    for other in found.splits[1:]:
        fixed = "to" not in train.inputs + other.inputs and "-" not in (train.inputs, other.inputs)
        if fixed and train.inputs != other.inputs:
            problem = f"inputs are {other.inputs}, those of the train split {train.inputs}"
            found.mistakes.append(Mistake(other.name, problem, "give all splits the same transform sizes and dtype"))


def _untrained(splits: Sequence[SplitFacts], names: Sequence[str]) -> Iterator[str]:
    """Says which classes there is nothing to train on of, as far as is known."""
    train = splits[0]
    if train.counts is None:
        return
    classes = max(len(names), *(len(facts.counts) for facts in splits if facts.counts is not None))
    missing = [k for k in range(classes) if k >= len(train.counts) or not train.counts[k]]
    if missing and train.counted == train.size:  # those looked at may lack classes that others have
        these = (f"{k} ({names[k]})" if k < len(names) else str(k) for k in missing[:20])
        yield f"classes without an instance to train on: {', '.join(these)}"
    if missing == [0]:
        yield "no instance looked at is of class 0, where class numbers begin: subtract 1 if yours begin at 1"


def _draw(found: Findings, config: DataConfig, data: Data, batch_size: int, seed: int) -> None:
    """How fast batches are, and whether a worker process reads the same."""
    sources: dict[Kind, Source] = {}
    for facts in found.splits:
        try:
            if facts.size is None:
                source = Source(Tape(load(config).train, data.epoch_size, config.name, seed), config.name, seed)
                source.classes(len(data.class_names))
            else:
                source = sources[facts.name] = Source(getattr(data, facts.name), config.name, seed)
            _time(facts, source, batch_size)
        except Exception as error:  # what the looks before this one could not tell
            found.mistakes.append(Mistake(facts.name, f"no batch can be made: {error}", "see docs/plugins.md"))
    by_item = [facts.name for facts in found.splits if not {"fill", "collate"} & set(facts.offers)]
    if not found.mistakes and "train" in sources and by_item:
        found.mistakes += _in_a_worker(by_item, sources, config, seed)


def _time(facts: SplitFacts, source: Source, batch_size: int) -> None:
    ids = _drawn(source, min(batch_size, source.size))
    source.take(next(ids))
    instances = taken_bytes = 0
    began = time.perf_counter()
    while (spent := time.perf_counter() - began) < DRAW_S:
        good, arrays = source.take(next(ids))
        instances, taken_bytes = instances + len(good), taken_bytes + sum(array.nbytes for array in arrays.values())
    facts.instances_per_s, facts.megabytes_per_s = instances / spent, taken_bytes / spent / 1e6


def _drawn(source: Source, size: int) -> Iterator[Int64s]:
    """Ids of instances, `size` at a time, in the order that a run may ask for them."""
    rng = np.random.default_rng(0)
    for start in count(0, size):
        if isinstance(source.split, Tape):
            source.split.forget(start)
            source.split.reach(start + size)
            yield np.arange(start, start + size)
        else:
            yield rng.integers(0, source.size, size)


def _in_a_worker(
    by_item: Sequence[Kind], sources: dict[Kind, Source], config: DataConfig, seed: int
) -> Iterator[Mistake]:
    """Reads a few instances in a fresh interpreter that loads the data set itself, as `batcher.workers` does."""
    ids = {kind: finding.sample(sources[kind].size)[:IN_A_WORKER] for kind in by_item}
    here = {kind: sources[kind].take(ids[kind]) for kind in by_item}
    try:
        pool = Pool(config, seed, sources, IN_A_WORKER, 1)
    except Exception as error:  # the worker's own words
        mend = "what the callable needs must be there in a fresh interpreter: importable modules, files, environment"
        yield Mistake("train", f"cannot be sent to a worker process: {error}", mend)
        return
    try:
        there = {kind: sources[kind].take(ids[kind]) for kind in by_item}
    finally:
        pool.close()
    for kind in by_item:
        if not _same(here[kind], there[kind]):
            mend = "items must depend on nothing but the instance, the files, and the seeded generators"
            yield Mistake(kind, "a worker process reads other values than this one", mend)


def _same(one: tuple[Int64s, dict[str, Array]], other: tuple[Int64s, dict[str, Array]]) -> bool:
    return np.array_equal(one[0], other[0]) and all(
        np.array_equal(one[1][key], other[1][key], equal_nan=one[1][key].dtype.kind == "f") for key in one[1]
    )
