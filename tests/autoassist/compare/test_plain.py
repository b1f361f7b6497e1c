"""The plain PyTorch loop: the same task as the service's, in several forms."""

import json
import os
import signal
import threading

import numpy as np
import pytest
import torch
from toys import batch, spec

from autoassist import launch as launching
from autoassist.compare.arms import parse_arms
from autoassist.compare.feed import Items, Order, Prepare, in_memory, loaded
from autoassist.compare.plain import FORMS, Launch, threads, train, with_plain
from autoassist.compare.plan import Plan
from autoassist.config import change
from batcher import plugin
from batcher.core import BatcherCore
from boss.augment import Augmenter
from boss.config import BossConfig
from boss.step import Preparer
from proto.errors import ConfigError


@pytest.fixture
def settings(toy_settings):
    return change(toy_settings, ["run.serial=false", "run.budget=1.5", "policy.name=uniform"])


@pytest.fixture
def core(settings):
    data = plugin.load(settings.data)
    return BatcherCore(settings.run, settings.batcher, settings.policy, data, settings.data.name)


def test_batches_are_whole_passes_cut_to_the_budget():
    batches = Order(100, 250, 32, seed=0)
    ids, passes = (torch.cat(column) for column in zip(*batches, strict=True))
    assert [len(batch) for batch, _ in batches] == [32] * 7 + [26]
    assert passes.tolist() == [0] * 100 + [1] * 100 + [2] * 50
    assert sorted(ids[:100].tolist()) == sorted(ids[100:200].tolist()) == list(range(100))
    assert [len(batch) for batch, _ in Order(100, 33, 32, seed=0)] == [33]
    assert not torch.equal(ids, torch.cat([batch for batch, _ in Order(100, 250, 32, seed=1)]))


def test_of_very_many_passes_one_is_drawn_at_a_time():
    first, passes = next(iter(Order(100, 10**12, 32, seed=0)))  # all of them would take 16 TB
    assert torch.equal(first, next(iter(Order(100, 250, 32, seed=0)))[0])
    assert passes.tolist() == [0] * 32


@pytest.mark.parametrize("workers", [0, 1])
def test_every_form_gives_the_same_instances(core, workers):
    device, prepare = torch.device("cpu"), Prepare(lambda inputs: 2 * inputs)
    memory = list(in_memory(core, prepare, 3, device))
    loader = list(loaded(core, prepare, 3, device, workers))
    assert len(memory) == len(loader) == core.spec.train_batches
    for one, other in zip(memory, loader, strict=True):
        assert torch.equal(one[0], other[0])
        assert torch.equal(one[1], other[1])


def test_augmentation_is_the_service_s():
    augmenter = Augmenter(BossConfig(flip=True, crop=1), spec(input_shape=(1, 4, 4), input_dtype="uint8"), 7)
    prepare = Prepare(lambda inputs: inputs.float() / 255, augmenter)
    images = torch.arange(96, dtype=torch.uint8).reshape(6, 1, 4, 4)
    ids, passes = torch.arange(6), torch.tensor([0, 0, 0, 1, 1, 1])
    preparer = Preparer(spec(mean=(0.0,), std=(1.0,)), torch.device("cpu"), augmenter=augmenter)
    theirs, *_ = preparer(batch(ids.tolist(), images.numpy(), passes_of=passes.numpy()))
    assert torch.allclose(prepare(images, ids, passes), theirs, atol=1e-6)
    assert not torch.allclose(theirs, images / 255)


def test_items_of_any_data_set_are_collated():
    class Pairs:
        def __len__(self):
            return 4

        def __getitem__(self, index):
            return np.full(2, index, np.float32), index

    inputs, targets = Items(Pairs()).__getitems__([1, 3])
    assert (inputs.tolist(), targets.tolist()) == ([[1, 1], [3, 3]], [1, 3])


def test_it_trains_the_same_number_of_instances_in_the_same_number_of_steps(settings, console):
    assert launching.launch(change(settings, ["run.serial=true", "run.name=service"]), console) == 0
    service = json.loads((runs_folder(settings) / "service" / "summary.json").read_text())
    before = torch.get_num_threads()
    try:
        plain = train(settings, FORMS[0])
    finally:
        torch.set_num_threads(before)
    for key in ("optimizer_steps", "boss_instances", "boss_epochs", "device"):
        assert plain[key] == service[key], key
    assert sum(plain["trained_per_class"]) == plain["boss_instances"]
    assert plain["test_accuracy"] == pytest.approx(service["test_accuracy"], abs=0.05)
    assert plain["validation_accuracy"] is None


def runs_folder(settings):
    from pathlib import Path

    return Path(settings.run.dir)


def test_it_has_as_many_threads_in_all_as_the_service(settings, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)))
    assert [threads(settings, workers) for workers in (0, 1, 2)] == [3, 2, 1]  # Boss, Batcher, Assistant
    assert threads(change(settings, ["boss.threads=0"]), 2) == 6
    assert threads(change(settings, ["batcher.workers=2"]), 0) == 5
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    assert [threads(settings, workers) for workers in (0, 1, 2)] == [2, 1, 1]


class Tried:
    """Stands for a sweep: how long each form takes."""

    def __init__(self, seconds):
        self.seconds, self.made = seconds, []

    def make(self, run):
        self.made.append(run)
        return {"train_s": self.seconds[run.kind]}


def test_the_fastest_form_stands_at_each_of_uniform_s_budgets(settings):
    theirs = change(settings, ["policy.name=assist", "policy.args.alpha=0.5"])
    plan = Plan(theirs, parse_arms("autoassist@2", [4]), 2)
    sweep = Tried(dict(zip(FORMS, (None, 3.0, 2.0, 2.5), strict=True)))
    found = with_plain(plan, sweep)
    assert found.launches["dataloader"] == (FORMS[2], Launch(FORMS[2]))
    assert [arm.label for arm in found.arms_called("dataloader")] == ["dataloader@2", "dataloader@4"]
    assert {run.settings.data.test for run in sweep.made} == {"never"}
    assert all(run.settings.policy.args == {} for run in sweep.made), "uniform takes no arguments of another policy"
    assert {run.settings.run.budget for run in sweep.made} == {200 * 32 / 400}, "whatever budgets are added later"
    assert {run.kind for arm, run in found.final({}) if arm.name == "dataloader"} == {FORMS[2]}


@pytest.mark.parametrize("word", ["boss.accumulate=2", "boss.mixup=0.2", "boss.ema=0.9"])
def test_what_the_loop_does_not_know_is_refused(settings, word):
    with pytest.raises(ConfigError, match="--against dataloader can have"):
        with_plain(Plan(change(settings, [word]), parse_arms("uniform", [1]), 1), Tried({}))


RAGGED = """
import numpy as np

class Ragged:
    def __len__(self):
        return 40
    def __getitem__(self, index):
        return np.ones((3 + index % 2, 4), np.float32), index % 3

class Stream:
    def __iter__(self):
        return iter([])
    def __len__(self):
        return 40

def ragged():
    return Ragged(), Ragged()

def stream():
    return Stream(), Ragged()
"""


@pytest.mark.parametrize("name", ["ragged", "stream"])
def test_data_that_the_loop_cannot_make_batches_of_are_refused(settings, name, tmp_path):
    (tmp_path / "odd.py").write_text(RAGGED)
    plan = Plan(change(settings, [f"data.name=./odd.py:{name}"]), parse_arms("uniform", [1]), 1)
    with pytest.raises(ConfigError, match=rf"odd\.py:{name}': --against dataloader can have no stream"):
        with_plain(plan, Tried({}))


def test_a_process_of_its_own_does_it(settings, console):
    settings = change(settings, ["run.name=plain", "run.budget=0.5", 'data.test="end"'])
    assert Launch(FORMS[0])(settings, console) == 0
    summary = json.loads((runs_folder(settings) / "plain" / "summary.json").read_text())
    assert summary["exit_code"] == 0
    assert summary["cpu_s_loop"] > 0
    assert summary["train_s"] > 0


def test_a_signal_stops_it_at_once(settings, console):
    ready = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    ready.start()
    code = Launch(FORMS[0])(change(settings, ["run.name=plain", "run.budget=1000000.0"]), console)
    ready.join()
    summary = json.loads((runs_folder(settings) / "plain" / "summary.json").read_text())
    assert (code, summary["exit_code"], summary["exit_reason"]) == (130, 130, "stopped by SIGINT")


def test_what_its_process_cannot_do_is_one_line(settings, console):
    with pytest.raises(ConfigError, match=r"^boss\.device = 'cuda:99': cannot be used here"):
        Launch(FORMS[0])(change(settings, ["run.name=plain", "boss.device=cuda:99"]), console)
