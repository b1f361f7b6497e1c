"""The three cores in a circle, with the number that says who is who in every place that could confuse it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from toys import lend, losses, opened

from assistant.config import AssistantConfig
from assistant.history import History
from assistant.learner import Learner
from autoassist.checkpoints import Collector
from autoassist.serial import SerialStream
from batcher.core import BatcherCore
from batcher.datasets.arrays import ArraySplit
from batcher.plugin import Data
from boss.config import BossConfig
from boss.outlet import LossOutlet
from boss.trainer import Trainer
from proto.batches import Batch, End
from proto.codec import Codec
from proto.config import RunConfig
from proto.learning import Features

CODEC = Codec("r")


def sent(message: Any) -> Any:
    return CODEC.decode([bytes(frame) for frame in CODEC.encode(message)])


def shuffled(size: int, budget: float, batch_size: int) -> BatcherCore:
    """Under `autoassist`, instances whose label is their id."""
    split = ArraySplit(np.arange(size, dtype=np.float32)[:, None], np.arange(size))
    return opened(Data(split), budget=budget, batch_size=batch_size, policy="autoassist")


@pytest.mark.parametrize("size", [70, 3000])
def test_losses_stay_with_their_instances_all_the_way_round(size: int) -> None:
    core = shuffled(size, budget=2.0, batch_size=33)
    learner = Learner(core.spec, AssistantConfig())
    held_back: list[Features] = []
    rng = np.random.default_rng(0)
    while not isinstance((made := core.next(0, 0, lend))[0], End):
        batch, features = map(sent, made)
        np.testing.assert_array_equal(batch.ids, batch.arrays["targets"])
        np.testing.assert_array_equal(features.labels, features.ids)
        held_back.append(features)
        learner.fold_losses(sent(losses(batch.seq, batch.ids, batch.arrays["targets"])))
        if rng.random() < 0.6:  # features come late and in another order, versions are skipped
            while held_back:
                learner.fold_features(held_back.pop())
            core.fold(sent(learner.snapshot()))
            learner.published()
    if learner.version > core.selector.version:
        core.fold(learner.snapshot())
    assert core.metrics()["weights_refused"] == 0
    for ledger in (learner.ledger, core.selector.ledger):
        np.testing.assert_array_equal(ledger.last_loss, np.arange(size))
        again = ledger.times_trained > 1
        assert again.any()
        np.testing.assert_array_equal(ledger.loss_before[again], np.flatnonzero(again))
        assert np.isnan(ledger.loss_before[~again]).all()
        assert ledger.times_trained.sum() == 2 * size


def serial(core: BatcherCore, learner: Learner, lag: int, run_dir: Path) -> SerialStream:
    collector = Collector(run_dir, dict, lambda line, style: None)
    return SerialStream(core, learner, History(core.spec.train_size, lag), run_dir, collector, lambda: False)


@pytest.mark.parametrize("lag", [1, 2, 8])
def test_wired_in_one_process_batch_b_is_chosen_with_version_b_minus_lag(lag: int, tmp_path: Path) -> None:
    split = ArraySplit(np.random.default_rng(0).normal(size=(60, 6)).astype(np.float32), np.arange(60) % 3)
    core = opened(Data(split, split), budget=3.0, batch_size=8, eval_every=0.5, lag=lag, policy="autoassist")
    learner = Learner(core.spec, AssistantConfig(), ordered=True)
    trainer = Trainer(RunConfig(), BossConfig(model="linear", device="cpu"), core.spec)
    stream = serial(core, learner, lag, tmp_path)
    versions = []

    class Watched:
        def __iter__(self) -> Iterator[Batch]:
            for batch in stream:
                if batch.kind == "train":
                    versions.append((batch.version, batch.version_step))
                yield batch

        release = staticmethod(stream.release)

    trainer.train(Watched(), LossOutlet(stream.send, 16), lambda event, values: None)
    expected = [max(0, b - lag) for b in range(1, len(versions) + 1)]
    assert len(versions) == core.spec.train_batches
    assert versions == list(zip(expected, expected, strict=True))
    assert trainer.max_lag == min(lag, len(versions) - 1)
    assert learner.metrics()["reports_folded"] == len(versions)


def test_wired_in_one_process_an_instance_that_is_not_finite_does_not_end_the_run(tmp_path: Path) -> None:
    inputs = np.random.default_rng(0).normal(size=(60, 6)).astype(np.float32)
    inputs[7] = np.nan
    core = opened(Data(ArraySplit(inputs, np.zeros(60, int))), batch_size=8, lag=2)
    learner = Learner(core.spec, AssistantConfig(), ordered=True)
    stream = serial(core, learner, 2, tmp_path)
    for batch in stream:
        stream.send(losses(batch.seq, batch.ids, np.ones(len(batch.ids))))
    assert learner.ledger.times_trained.sum() == 120
    assert learner.ledger.times_trained[7] == 0
