"""Streams: walked once and in order, chosen from at first look, and gone on with wherever they stood."""

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import IterableDataset
from toys import batches, lend, numbered

from batcher.config import BatcherConfig, DataConfig, PolicyConfig
from batcher.core import BatcherCore
from batcher.plugin import Data, is_stream, load
from batcher.policies import Candidates
from batcher.stream import Tape
from boss.account import Account
from proto.batches import Batch, End, Open
from proto.config import RunConfig
from proto.errors import ConfigError


class Numbers:
    """Instance k is filled with k, where the stream is begun again with 0; its class is k mod 3."""

    def __init__(self, length: int | None = None, bad: tuple[int, ...] = ()) -> None:
        self.length, self.bad = length, bad
        self.read: list[int] = []
        """What was read of it, in order."""

    def item(self, k: int) -> Any:
        self.read.append(k)
        return np.full(6, np.nan if k in self.bad else k, np.float32), k % 3

    def __iter__(self) -> Iterator[Any]:
        k = 0
        while self.length is None or k < self.length:
            yield self.item(k)
            k += 1


class Stateful(Numbers):
    """The same, which can be gone on with."""

    next = 0

    def __iter__(self) -> Iterator[Any]:
        while self.length is None or self.next < self.length:
            self.next += 1
            yield self.item(self.next - 1)
        self.next = 0

    def state_dict(self) -> dict[str, int]:
        return {"next": self.next}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.next = state["next"]


class Unspeakable(Stateful):
    """Its state is no JSON."""

    def state_dict(self) -> Any:
        return {"next": np.int64(self.next)}


@dataclass
class Half:
    """Keeps every candidate with probability 1/2, and notes what it was told."""

    passes: list[int]
    known: list[bool]

    def __call__(self, candidates: Candidates) -> Any:
        self.passes.append(candidates.progress.passes)
        self.known += (np.abs(candidates.features).sum(axis=1) > 0).tolist()
        assert np.isnan(candidates.ledger["last_loss"]).all()
        return np.full(len(candidates), 0.5, np.float32), np.ones(len(candidates), np.float32)


def make(stream: Any, p: float = 0.5, epoch_size: int = 100, test: int = 0, **config: Any) -> BatcherCore:
    data = Data(stream, numbered(test).train if test else None, class_names=("a", "b", "c"), epoch_size=epoch_size)
    core = BatcherCore(
        RunConfig(budget=5.0, seed=2), BatcherConfig(**{"batch_size": 16, **config}), PolicyConfig(name="autoassist"),
        data, "toy",
    )  # fmt: skip
    core.selector.policy = Half([], [])
    return core


def begin(core: BatcherCore, at: Account | None = None, eval_every: float = 0.0) -> BatcherCore:
    core.open((at or Account()).open(incarnation=0, slots=1, eval_every=eval_every))
    return core


def values(found: list[Batch]) -> list[float]:
    return [x for batch in found if batch.kind == "train" for x in batch.arrays["inputs"][:, 0].tolist()]


def ids(found: list[Batch]) -> list[int]:
    return [i for batch in found if batch.kind == "train" for i in batch.ids.tolist()]


def test_a_stream_is_trained_in_its_order_to_exactly_the_budget() -> None:
    core = begin(make(Numbers()))
    found = batches(core)
    assert len(ids(found)) == 500 == core.spec.train_total
    assert values(found) == ids(found) == sorted(set(ids(found)))
    assert sum(batch.candidates for batch in found) == found[-1].cursor == ids(found)[-1] + 1
    assert all(batch.candidates == len(batch.ids) + batch.dropped.sum() for batch in found)
    assert [batch.seq for batch in found] == list(range(len(found)))
    assert 0.4 < 500 / found[-1].cursor < 0.6


def test_dropped_instances_are_counted_by_class() -> None:
    found = batches(begin(make(Numbers())))
    dropped = np.sum([batch.dropped for batch in found], axis=0)
    missing = sorted(set(range(found[-1].cursor)) - set(ids(found)))
    assert dropped.tolist() == [*np.bincount(np.array(missing) % 3, minlength=3), 0]


def test_who_is_chosen_depends_on_neither_batch_size_nor_how_far_was_read() -> None:
    assert ids(batches(begin(make(Numbers())))) == ids(batches(begin(make(Numbers(), batch_size=7))))


def test_it_is_chosen_from_at_the_first_look() -> None:
    core = begin(make(Numbers()))
    batches(core)
    policy: Any = core.selector.policy
    assert set(policy.passes) == {1}
    assert sum(policy.known) >= len(policy.known) - 1  # instance 0 is all zeros


def test_features_of_a_batch_are_those_of_its_instances() -> None:
    core = begin(make(Numbers()))
    for _ in range(20):
        batch, features = core.next(0, 0, lend)
        assert isinstance(batch, Batch)
        assert features is not None
        np.testing.assert_allclose(features.features, core.store.scale * batch.arrays["inputs"], rtol=1e-3)
        assert features.labels.tolist() == (batch.ids % 3).tolist()


def test_a_stream_that_ends_is_begun_again_and_ids_go_on() -> None:
    stream = Numbers(70)
    found = batches(begin(make(stream)))
    assert ids(found) == sorted(set(ids(found)))
    assert values(found) == [i % 70 for i in ids(found)]
    assert stream.read[:140] == [*range(70), *range(70)]


@pytest.mark.parametrize("make_stream", [Stateful, Numbers, Unspeakable])
@pytest.mark.parametrize("length", [None, 330])
def test_it_goes_on_at_the_right_place_whenever_its_batcher_dies(make_stream: Any, length: int | None) -> None:
    whole = batches(begin(make(make_stream(length), test=20), eval_every=1.0))
    account = Account()
    for k, batch in enumerate(whole[:-1]):
        account.add(batch)
        if batch.kind != "train" or k % 4:
            continue
        stream = make_stream(length)
        rest = batches(begin(make(stream, test=20), account, eval_every=1.0))
        assert [batch.seq for batch in rest] == [batch.seq for batch in whole[k + 1 :]]
        assert ids(rest) == ids(whole[k + 1 :])
        assert values(rest) == values(whole[k + 1 :])
        assert not set(ids(whole[: k + 1])) & set(ids(rest))


def test_with_a_state_little_is_read_again() -> None:
    whole = batches(begin(make(Stateful())))
    account = Account()
    for batch in whole[:-4]:
        account.add(batch)
    again = Stateful()
    core = make(again)
    looked_at = len(again.read)  # before the Boss says where to go on
    batches(begin(core, account))
    assert min(again.read[looked_at:]) > account.cursor - 60


def test_skipping_forward_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    account = Account()
    for batch in batches(begin(make(Numbers())))[:-2]:
        account.add(batch)
    batches(begin(make(Numbers()), account))
    said = [record.getMessage() for record in caplog.records if "passed over" in record.getMessage()]
    assert said == [f"toy: no state to go on from, {account.cursor} instances of the stream are read and passed over"]


def test_that_one_process_reads_it_is_said_where_more_are_asked_for(caplog: pytest.LogCaptureFixture) -> None:
    found = batches(begin(make(Numbers(), workers=3)))
    assert values(found) == ids(found)
    assert [r.getMessage() for r in caplog.records] == [
        "the stream of toy is read by the Batcher itself; batcher.workers read its other splits"
    ]


def test_a_state_that_is_no_json_is_said_once_and_not_used(caplog: pytest.LogCaptureFixture) -> None:
    found = batches(begin(make(Unspeakable())))
    assert {place[0] for batch in found for place in json.loads(batch.stream)["places"]} == {None}
    assert sum("is no JSON" in record.getMessage() for record in caplog.records) == 1


def test_little_of_a_stream_is_kept() -> None:
    core = begin(make(Numbers(), epoch_size=2000))
    assert core.tape is not None
    most = 0
    while not isinstance(core.next(0, 0, lend)[0], End):
        most = max(most, core.tape.end - core.tape.first)
    assert most < 400
    assert len(core.selector.ledger) == core.spec.ledger_size == 0


def test_a_bad_instance_is_skipped_by_position() -> None:
    core = begin(make(Numbers(bad=(5, 400))))
    found = batches(core)
    assert set(core.skipped) <= {5, 400}
    assert not {5, 400} & set(ids(found))
    assert len(ids(found)) == 500


def test_its_randomness_depends_on_the_position_alone() -> None:
    class Random(Stateful):
        def item(self, k: int) -> Any:
            return np.array([k, np.random.random(), float(torch.rand(()))], np.float32), k % 3  # noqa: NPY002

    def content(found: list[Batch]) -> dict[int, list[float]]:
        return {int(row[0]): row.tolist() for batch in found for row in batch.arrays["inputs"]}

    state = torch.get_rng_state()
    whole = batches(begin(make(Random())))
    assert torch.equal(torch.get_rng_state(), state)
    account = Account()
    for batch in whole[:9]:
        account.add(batch)
    rest = content(batches(begin(make(Random(), batch_size=11), account)))
    assert rest == {k: row for k, row in content(whole).items() if k in rest}


class Failing(Numbers):
    error: Exception | SystemExit = OSError("the line is dead")

    def item(self, k: int) -> Any:
        if k == 300:
            raise self.error
        return super().item(k)


class Exiting(Failing):
    error = SystemExit("no more")


@pytest.mark.parametrize(
    ("stream", "text"),
    [
        (Failing(), "the stream failed at position 300: OSError: the line is dead"),
        (Exiting(), "the stream failed at position 300: SystemExit: no more"),
        (Numbers(0), "the stream gave no instance when it was begun at position 0"),
        (iter([Numbers().item(k) for k in range(300)]), "the stream gave no instance when it was begun at posi"),
    ],
)
def test_a_stream_that_fails_or_cannot_be_begun_again_ends_the_run_in_one_line(stream: Any, text: str) -> None:
    with pytest.raises(ConfigError, match=rf"^data\.name = 'toy': {text}"):
        batches(begin(make(stream)))


def test_a_note_that_is_none_is_refused() -> None:
    for note in ('{"at": 900}', "[]", '{"at": "x"}'):
        with pytest.raises(ValueError, match="is no note of the stream at position 500"):
            Tape(Numbers(), 100, "toy", 0).go_to(500, note)


def test_what_a_stream_cannot_tell_must_be_given() -> None:
    data = Data(Numbers(), epoch_size=100)
    with pytest.raises(ConfigError, match="the classes of a stream cannot be counted; give class_names"):
        BatcherCore(RunConfig(), BatcherConfig(), PolicyConfig(), data, "toy")

    class Ragged(Numbers):
        def item(self, k: int) -> Any:
            return np.zeros(k % 5 + 1), 0

    with pytest.raises(ConfigError, match=r"differ in length need a collate\(items\)"):
        make(Ragged())
    with pytest.raises(ConfigError, match=r"batcher\.max_tokens"):
        make(Numbers(), max_tokens=100)


class Torch(IterableDataset):  # type: ignore[type-arg]
    def __iter__(self) -> Iterator[Any]:
        return iter(Numbers())


class Counted(Torch):
    def __len__(self) -> int:
        return 50


def no_length() -> Data:
    return Data(Torch(), class_names=("a", "b", "c"))


def counted() -> Data:
    return Data(Counted(), class_names=("a", "b", "c"))


@pytest.fixture
def plugins(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setitem(sys.modules, "stream_plugins", sys.modules[__name__])
    return "stream_plugins"


def test_the_size_of_a_boss_epoch_is_given_or_that_of_the_stream(plugins: str) -> None:
    assert load(DataConfig(name=f"{plugins}:counted")).epoch_size == 50
    assert load(DataConfig(name=f"{plugins}:counted", epoch_size=7)).epoch_size == 7
    with pytest.raises(ConfigError, match=r"data\.epoch_size = 0: the stream of stream_plugins:no_length has no len"):
        load(DataConfig(name=f"{plugins}:no_length"))
    with pytest.raises(ConfigError, match=r"data\.val_fraction = 0\.1: cannot be cut off a stream"):
        load(DataConfig(name=f"{plugins}:counted", val_fraction=0.1))
    with pytest.raises(ConfigError, match=r"data\.epoch_size = 5: digits is no stream"):
        load(DataConfig(name="digits", epoch_size=5))


def test_what_is_a_stream() -> None:
    assert all(is_stream(stream) for stream in (Torch(), Counted(), Numbers(), iter([])))
    assert not any(is_stream(split) for split in (numbered(3).train, [(1, 2)], torch.utils.data.TensorDataset()))


def test_the_boss_says_where_it_stands() -> None:
    account = Account()
    account.add(batches(begin(make(Stateful())))[0])
    message = account.open(incarnation=0, slots=1, eval_every=0.0)
    assert isinstance(message, Open)
    assert message.stream == account.stream != ""
    again = Account()
    again.load(account.plain())
    assert again.plain() == account.plain()


def test_the_suspects_of_a_stream_are_none(tmp_path: Path) -> None:
    core = begin(make(Numbers()))
    batches(core)
    core.write_suspects(tmp_path / "suspects.csv")
    assert (tmp_path / "suspects.csv").read_text().count("\n") == 1
