"""The loader in a loop: every batch once, whatever the loop does."""

import itertools
import warnings
from collections import Counter

import pytest
import torch

from autoassist import Loader
from proto.errors import ConfigError


def test_a_loop_gets_the_budget_whatever_it_does(points):
    loader = Loader(points, batch_size=32, budget=2.5, policy="uniform", seed=3)
    assert len(loader) == loader.steps_total == 16  # 500 instances
    assert loader.progress == 0
    ids, kept = [], []

    def take(batch):
        ids.extend(batch.ids.tolist())
        kept.append((batch, batch.inputs.clone()))

    for batch in loader:  # left at once
        take(batch)
        break
    for batch in itertools.islice(iter(loader), 2):  # a second iterator goes on
        take(batch)
    assert loader.progress == 96 / 500

    def fail():
        for batch in loader:
            take(batch)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    for batch in loader:  # an exception does not end it
        take(batch)
        losses = torch.arange(float(len(batch)), requires_grad=True)
        mean = loader.report(batch, losses)
        assert mean == losses.mean()
        assert loader.report(batch, losses.half()).dtype == torch.float32
    assert list(loader) == []
    assert loader.progress == 1
    times = Counter(ids)
    assert (len(ids), len(times), set(times.values())) == (500, 200, {2, 3})
    for batch, inputs in kept:  # a batch is the user's: what came later has not changed it
        assert torch.equal(batch.inputs, inputs)
        assert torch.equal(batch.inputs[:, 3].long(), batch.ids)
        assert torch.equal(batch.inputs, points.tensors[0][batch.ids])
        assert torch.equal(batch.targets, points.tensors[1][batch.ids])
    stats = loader.stats()
    assert stats["trained"] == stats["candidates"] == 500
    assert stats["reports_made"] == stats["assistant_reports_folded"] == 12
    assert stats["transport"] == "memfd"
    assert "train_s" not in stats, "nobody measured it"
    loader.close()
    loader.close()
    with pytest.raises(RuntimeError, match="the loader is closed"):
        loader.state_dict()


def test_epochs_end_where_so_many_are_trained_and_the_policy_drops(points):
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.5)
    with Loader(
        points, batch_size=15, budget=3, policy="autoassist", gamma=0.05, deterministic=True, config={"run.lag": 2}
    ) as loader:
        lengths, numbers = [], []
        for epoch in loader.epochs():
            numbers.append(epoch.number)
            lengths.append(0)
            for batch in epoch:
                logits = model(batch.inputs[:, :3])
                losses = torch.nn.functional.cross_entropy(logits, batch.targets, reduction="none")
                loader.report(batch, losses).backward()
                optimizer.step()
                optimizer.zero_grad()
                lengths[-1] += len(batch)
        assert numbers == [0, 1, 2]
        assert lengths == [210, 195, 195]
        assert loader.stats()["candidates"] > 600  # some were dropped
        assert loader.stats()["assistant_version"] == len(loader)


def test_without_reports_something_is_said_once(points):
    with Loader(points, batch_size=4, budget=2) as loader, warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert sum(len(batch) for batch in loader) == 400
    assert [str(warning.message) for warning in said if "not reported" in str(warning.message)] == [
        "the last 32 batches were not reported: without their losses the Assistant cannot tell what matters, and "
        "selection falls back to uniform; call loss = loader.report(batch, losses) in the loop"
    ]
    assert loader.stats()["candidates"] == 400  # nothing was dropped


class Words:
    def __len__(self):
        return 10

    def __getitem__(self, index):
        return "word", index


def test_what_the_user_can_mend_is_one_line():
    with Loader(Words(), batch_size=2, budget=1) as loader:
        with pytest.raises(ConfigError, match=r"^train_set.*item\[0\] is a str; needed: an array"):
            len(loader)
    with pytest.raises(ConfigError, match=r"policy.name = 'unifrom': unknown; did you mean 'uniform'"):
        Loader(Words(), batch_size=2, budget=1, policy="unifrom")
    with pytest.raises(ConfigError, match=r"config\['batcher.workers'\] = 3: .* Loader has an argument for"):
        Loader(Words(), batch_size=2, budget=1, config={"batcher.workers": 3})


def test_a_supervisor_that_is_killed_is_an_error_of_the_loop(points):
    with Loader(points, batch_size=2, budget=1000, policy="uniform") as loader:
        batches = iter(loader)
        next(batches)
        loader._held.service._attended.process.kill()
        with pytest.raises(RuntimeError, match="the supervising process died"):
            list(batches)
        with pytest.raises(RuntimeError, match="this loader has failed"):
            next(iter(loader))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_batches_for_a_gpu_that_was_used_before(points):
    torch.ones(1, device="cuda")
    with Loader(points, batch_size=32, budget=2, policy="uniform") as loader:
        for batch in loader:
            assert batch.inputs.is_pinned()
            there = batch.to("cuda", non_blocking=True)
            assert torch.equal(there.inputs.cpu(), points.tensors[0][batch.ids])
            mean = loader.report(there, there.inputs[:, 0] ** 2)
            assert mean.device.type == "cuda"
        assert loader.stats()["reports_made"] == len(loader)


@pytest.mark.slow
def test_two_loaders_at_once_do_not_know_of_each_other(points):
    how = {"batch_size": 50, "budget": 1, "policy": "uniform"}
    with Loader(points, seed=1, **how) as one, Loader(points, seed=2, **how) as two:
        pairs = list(zip(one, two, strict=True))
        assert len(pairs) == 4
        for loader, batches in zip((one, two), zip(*pairs, strict=True), strict=True):
            assert sorted(i for batch in batches for i in batch.ids.tolist()) == list(range(200))
            assert loader.progress == 1
    assert pairs[0][0].ids.tolist() != pairs[0][1].ids.tolist()
