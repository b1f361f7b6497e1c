from toys import batch, spec

from boss.account import Account
from boss.progress import MOST, PER_EPOCH, Progress


def records(batches, account=None, **fields):
    """What is recorded while an account takes `batches` of a data set of 100 instances."""
    account, found = account or Account(), []
    progress = Progress(account, spec(train_size=100, **fields), lambda event, values: found.append((event, values)))
    for one in batches:
        account.add(one)
        progress.after_batch(one)
    return found


def test_a_record_each_twentieth_of_a_boss_epoch():
    found = records([batch([1, 2], candidates=4) for _ in range(50)])
    assert PER_EPOCH == 20
    assert [values["trained"] for _, values in found] == [6, 10, 16, 20, 26, 30, 36, 40, 46, 50,
                                                          56, 60, 66, 70, 76, 80, 86, 90, 96, 100]  # fmt: skip
    assert {event for event, _ in found} == {"progress"}
    assert found[-1][1]["boss_epochs"] == 1.0
    assert found[-1][1]["kept_fraction"] == 0.5


def test_the_last_batch_is_recorded_wherever_it_ends():
    found = records([batch([1]), batch([2], last=True)])
    assert [values["trained"] for _, values in found] == [2]


def test_a_resumed_run_records_nothing_twice():
    account = Account(trained=10)
    assert records([batch([1])], account) == []


def test_a_run_of_many_boss_epochs_is_recorded_a_thousand_times():
    found = records((batch([1, 2]) for _ in range(10_000)), train_total=20_000)
    assert MOST == 1000
    assert [values["trained"] for _, values in found] == list(range(20, 20_001, 20))
