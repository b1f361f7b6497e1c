import json

import numpy as np
from toys import batch, batches, numbered, opened

from boss.account import Account


def test_it_counts_what_the_boss_took() -> None:
    account = Account()
    account.add(batch([1, 2], seq=0, candidates=5, dropped=np.array([1, 0, 2]), passes=0, cursor=5))
    account.add(batch([3], seq=1, kind="test"))
    account.add(batch([4, 5], seq=2, candidates=3, dropped=np.array([0, 1, 0]), passes=1, cursor=2))
    assert (account.seq, account.batches, account.trained, account.evaluated) == (3, 2, 4, 2)
    assert (account.passes, account.cursor) == (1, 2)
    metrics = account.metrics()
    assert (metrics["candidates"], metrics["kept_fraction"]) == (8, 0.5)
    assert metrics["dropped_per_class"] == (1, 1, 2)
    assert metrics["trained_per_class"] == (4, 0)


def test_it_counts_what_was_trained_of_each_class() -> None:
    account = Account()
    account.add(batch([1, 2, 3], targets=np.array([0, 1, 1])))
    account.add(batch([9], kind="test", targets=np.array([0])))
    account.add(batch([4], targets=np.array([1])))
    assert account.metrics()["trained_per_class"] == (1, 3)
    account.add(batch([5], targets=np.zeros((1, 4), np.float32)))  # of a loss of one's own
    assert account.metrics()["trained_per_class"] == (1, 3)


def test_one_that_went_through_json_counts_on() -> None:
    account, again = Account(), Account()
    account.add(batch([1, 2, 3], targets=np.array([0, 1, 1]), dropped=np.array([1, 0, 2])))
    again.load(json.loads(json.dumps(account.plain())))
    assert again.plain() == account.plain()
    again.add(batch([4], seq=1, targets=np.array([1]), dropped=np.array([0, 3, 0])))
    metrics = again.metrics()
    assert (metrics["trained_per_class"], metrics["dropped_per_class"]) == ((1, 3), (1, 3, 2))
    assert account.metrics()["trained_per_class"] == (1, 2), "they share nothing"


def test_a_stream_opened_where_an_account_stands_goes_on_with_the_rest() -> None:
    data, account = numbered(100, 20), Account()
    whole = batches(opened(data, budget=2.0, eval_every=0.5))
    for k, one in enumerate(whole[:-1]):
        account.add(one)
        if one.kind != "train":
            continue  # an evaluation that was cut off is made again as a whole
        again = opened(data, budget=2.0)
        again.open(account.open(incarnation=0, slots=1, eval_every=0.5))
        rest = [(b.seq, b.kind, b.ids.tolist(), b.passes, b.cursor) for b in batches(again)]
        assert rest == [(b.seq, b.kind, b.ids.tolist(), b.passes, b.cursor) for b in whole[k + 1 :]]
