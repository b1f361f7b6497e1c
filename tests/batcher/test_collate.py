"""Instances that differ in length: padded and masked once, alike by whichever way they are read."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ragged_items
from ragged_items import Bare, Collating, Filling, Offering, lengths_of
from toys import lend

from batcher.config import BatcherConfig, DataConfig, PolicyConfig
from batcher.core import BatcherCore
from batcher.plugin import Data, load
from batcher.source import Source
from batcher.workers import Pool
from proto.batches import Batch, End, Open
from proto.config import RunConfig
from proto.errors import ConfigError
from proto.slots import slot_bytes

SPLITS = [Bare(), Offering(), Filling()]


def core(kind: str = "Bare", workers: int = 0, pools: Any = None, **config: Any) -> BatcherCore:
    data = DataConfig(name="ragged_items:data", args={"kind": kind, "test": 20})
    config = {"batch_size": 8, "max_tokens": 40, **config}

    def start(sources: Any, rows: int) -> None:
        if workers:
            pools.append(Pool(data, 0, sources, rows, workers, config["max_tokens"]))

    made = BatcherCore(
        RunConfig(budget=2.0), BatcherConfig(**config), PolicyConfig(name="uniform"), load(data), "toy",
        start_workers=start,
    )  # fmt: skip
    made.open(Open(incarnation=0, rank=0, slots=1, eval_every=1.0))
    return made


def batches(of: BatcherCore) -> list[Batch]:
    def garbage(slot: int, layout: Any) -> dict[str, Any]:
        return {name: np.full(shape, 99, dtype) for name, (shape, dtype) in layout.items()}

    found = []
    while not isinstance((message := of.next(0, 0, garbage)[0]), End):
        found.append(message)
    return found


@pytest.mark.parametrize("split", SPLITS, ids=lambda split: type(split).__name__)
def test_a_batch_is_as_long_as_its_longest_and_says_what_is_padding(split: Any) -> None:
    source = Source(split, "mine")
    ids = np.array([0, 3, 1])  # of lengths 1, 11 and 8
    _, arrays = source.take(ids)
    assert arrays["inputs"].shape == (3, 11)
    assert arrays["lengths"].tolist() == [1, 11, 8]
    assert arrays["mask"].tolist() == (np.arange(11) < np.array([[1], [11], [8]])).tolist()
    np.testing.assert_array_equal(arrays["inputs"], arrays["mask"] * (ids % 7 + 1)[:, None])
    assert arrays["targets"].tolist() == [1, 1, 0]
    assert source.lengths is not None
    assert source.lengths.tolist() == lengths_of().tolist()


@pytest.mark.parametrize("kind", ["Bare", "Offering", "Filling"])
def test_batches_by_positions_are_whole_and_say_their_lengths(kind: str) -> None:
    made = core(kind)
    found = batches(made)
    assert sum(len(batch.ids) for batch in found if batch.kind == "train") == 120
    for batch in found:
        assert batch.arrays["inputs"].size <= 40
        assert batch.arrays["lengths"].tolist() == lengths_of()[batch.ids].tolist()
        assert (batch.arrays["mask"].sum(axis=1) == batch.arrays["lengths"]).all()
        assert (batch.arrays["inputs"][~batch.arrays["mask"]] == 0).all()
        needed = sum(array.nbytes for array in batch.arrays.values()) + 12 * len(batch.ids)
        assert needed <= slot_bytes(made.spec)
    assert made.spec.beside == {"mask": ("bool", (11,)), "lengths": ("int64", ())}
    assert (made.spec.input_shape, made.spec.vocabulary) == ((11,), 30)


def test_who_decodes_changes_neither_order_nor_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    support = str(Path(ragged_items.__file__).parent)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([support, os.environ.get("PYTHONPATH", "")]))
    pools: list[Pool] = []
    try:
        here, there = batches(core()), batches(core(workers=2, pools=pools))
    finally:
        for pool in pools:
            pool.close()
    assert len(here) == len(there)
    for one, other in zip(here, there, strict=True):
        assert one.ids.tolist() == other.ids.tolist()
        assert {n: a.tobytes() for n, a in one.arrays.items()} == {n: a.tobytes() for n, a in other.arrays.items()}


def test_a_collate_of_ones_own_is_honoured() -> None:
    made = core("Collating", max_tokens=0)
    found = batches(made)
    assert sum(len(batch.ids) for batch in found if batch.kind == "train") == 120
    for batch in found:
        assert set(batch.arrays) == {"inputs", "targets", "attention_mask"}
        assert batch.arrays["inputs"].shape == (len(batch.ids), lengths_of()[batch.ids].max())
        np.testing.assert_array_equal(batch.arrays["inputs"].max(axis=1), batch.ids % 7 + 1)
    assert made.spec.classes == 2
    assert "attention_mask" in made.spec.beside


@pytest.mark.parametrize(
    ("made", "text"),
    [
        ([1, 2], r"its collate returned list; needed: a dict of arrays with \"inputs\" and \"targets\""),
        ({"inputs": np.ones((2, 3))}, "its collate returned the names inputs"),
        ({"inputs": np.ones((2, 3)), "targets": np.ones(3, int)}, r"its collate made targets of shape \[3\] for 2"),
        ({"inputs": np.array(["a", "b"]), "targets": np.ones(2, int)}, "its collate made inputs of dtype <U1"),
        (None, r"its collate raises ZeroDivisionError"),
    ],
)
def test_a_collate_that_makes_no_batch_is_one_line(made: Any, text: str) -> None:
    class Broken(Collating):
        def collate(self, items: Any) -> Any:
            return made if made is not None else 1 / 0

    with pytest.raises(ConfigError, match=rf"data\.name = 'mine': {text}"):
        Source(Broken(), "mine")


class Wrong(Offering):
    """Offers lengths that are not its items'."""

    def __init__(self, said: Any) -> None:
        super().__init__()
        self.said = said

    def lengths(self, ids: Any) -> Any:
        return self.said[ids]


@pytest.mark.parametrize(
    ("said", "text"),
    [
        (np.zeros(60, int), "the length of instance 0 is 0; leave it out"),
        (np.ones((60, 2), int), r"its lengths\(ids\) are int64 \[60, 2\]; needed: int64 \[60\]"),
    ],
)
def test_lengths_that_cannot_be_are_one_line(said: Any, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        Source(Wrong(said), "mine")


def test_an_item_longer_than_its_split_says_is_named() -> None:
    out = {name: np.empty(*kind) for name, kind in Source(Bare(), "mine").layout(1, 4).items()}
    with pytest.raises(ValueError, match=r"instance 3.*11 positions; its split's lengths allow 1 to 4 here"):
        Source(Wrong(np.full(60, 4)), "mine").fill(np.array([3]), out)


def test_a_test_split_that_happens_to_be_even_is_padded_like_the_others() -> None:
    class Even(Bare):
        def __init__(self) -> None:
            self._n = np.full(20, 15)

    made = BatcherCore(
        RunConfig(budget=1.0), BatcherConfig(batch_size=8), PolicyConfig(name="uniform"), Data(Bare(), Even()), "toy"
    )
    assert made.spec.input_shape == (15,)
    made.open(Open(incarnation=0, rank=0, slots=1, eval_every=0.0))
    assert {batch.arrays["mask"].shape[1] for batch in batches(made) if batch.kind == "test"} == {15}


def test_token_ids_outside_the_vocabulary_are_skipped_by_name() -> None:
    data = Data(Offering(), vocabulary=7)  # instance 6 is made of 7s
    made = BatcherCore(RunConfig(budget=1.0), BatcherConfig(batch_size=8), PolicyConfig(name="uniform"), data, "toy")
    made.open(Open(incarnation=0, rank=0, slots=1, eval_every=0.0))
    while not isinstance(made.next(0, 0, lend)[0], End):
        pass
    assert sorted(made.skipped) == [i for i in range(60) if i % 7 == 6]
    assert "a token id is not below 7" in str(made.metrics()["skipped_errors"])
