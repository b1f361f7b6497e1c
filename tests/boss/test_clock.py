from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from toys import batch

from boss import clock
from boss.account import Account
from boss.clock import Clocked
from proto.batches import Batch
from proto.messages import Kind


class Time:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = 100.0


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    moved = Time()
    monkeypatch.setattr(clock, "time", SimpleNamespace(perf_counter=lambda: moved.now))
    return moved


class Waits:
    """A stream whose batches arrive after a wait each."""

    def __init__(self, time: Time, *arrivals: tuple[Kind, float]) -> None:
        self.time, self.arrivals = time, arrivals
        self.released: list[Batch] = []

    def __iter__(self) -> Iterator[Batch]:
        for kind, wait in self.arrivals:
            self.time.now += wait
            yield batch([1], kind=kind)

    def release(self, batch: Batch) -> None:
        self.released.append(batch)


def taken(time: Time, *arrivals: tuple[Kind, float], work: float = 1.0) -> float:
    """Seconds on the clock after taking all `arrivals`, each with `work` seconds of work."""
    account = Account()
    for _ in Clocked(Waits(time, *arrivals), account):
        time.now += work
    return account.train_s


def test_it_shows_nothing_before_the_first_batch(time: Time) -> None:
    assert taken(time) == 0


def test_waiting_for_the_first_batch_does_not_count_but_for_the_next_ones_does(time: Time) -> None:
    assert taken(time, ("train", 50), ("train", 2), ("train", 3)) == 3 + 2 + 3


def test_evaluation_does_not_count(time: Time) -> None:
    assert taken(time, ("train", 0), ("test", 9), ("test", 9), ("train", 0), ("test", 9)) == 2
    assert taken(time, ("train", 0), ("validation", 9), ("test", 9), ("train", 0)) == 2


def test_a_step_under_way_is_counted_once_it_has_ended(time: Time) -> None:
    account, seen = Account(), []
    for _ in Clocked(Waits(time, ("train", 0), ("train", 0)), account):
        seen.append(account.train_s)
        time.now += 1
    assert [*seen, account.train_s] == [0, 1, 2]


def test_a_resumed_run_goes_on_counting(time: Time) -> None:
    account = Account(train_s=10.0)
    for _ in Clocked(Waits(time, ("train", 5), ("test", 5)), account):
        time.now += 1
    assert account.train_s == 11


def test_batches_are_released_to_the_stream_underneath(time: Time) -> None:
    waits = Waits(time, ("train", 0))
    clocked = Clocked(waits, Account())
    for one in clocked:
        clocked.release(one)
    assert len(waits.released) == 1
