"""Decoding processes: the same bytes whatever their number, and what becomes of bad instances and dead processes."""
# ruff: noqa: NPY002 (the global generator is what transforms draw from)

import logging
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import decoded_items
import numpy as np
import pytest

from batcher.config import BatcherConfig, DataConfig, PolicyConfig
from batcher.core import BatcherCore
from batcher.decode import Decoder, kept_random_state, seed_all
from batcher.plugin import load
from batcher.source import Source
from batcher.workers import Pool
from proto.batches import End, Open
from proto.config import RunConfig
from proto.errors import ConfigError

SUPPORT = Path(decoded_items.__file__).parent


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    """The processes find the toy data set as this one does."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(SUPPORT), os.environ.get("PYTHONPATH", "")]))


@pytest.fixture
def make_core():
    pools = []

    def make(workers=0, plugin="data", budget=2.0, max_bad=100, batch_size=8, seed=0, eval_every=0.0, **args):
        data = DataConfig(name=f"decoded_items:{plugin}", args=args)

        def start(sources, rows):
            if workers:
                pools.append(Pool(data, seed, sources, rows, workers))

        config = BatcherConfig(batch_size=batch_size, max_bad=max_bad, workers=workers)
        run, policy = RunConfig(budget=budget, seed=seed), PolicyConfig(name="uniform")
        core = BatcherCore(run, config, policy, load(data), "toy", start_workers=start)
        core.pool = pools[-1] if workers else None
        core.open(Open(incarnation=0, rank=0, slots=1, eval_every=eval_every))
        return core

    yield make
    for pool in pools:
        pool.close()


def lend(slot, layout):
    return {name: np.full(shape, 99, dtype) for name, (shape, dtype) in layout.items()}


def batches(core):
    found = []
    while not isinstance((message := core.next(0, 0, lend)[0]), End):
        found.append(message)
    return found


def content(core):
    """(ids, inputs, targets) of the whole stream."""
    found = batches(core)
    ids = np.concatenate([batch.ids for batch in found])
    return ids, *(np.concatenate([batch.arrays[name] for batch in found]) for name in ("inputs", "targets"))


@pytest.mark.parametrize(
    ("args", "numbers"),
    [({}, (1, 4)), ({"kind": "Many"}, (1, 4)), ({"plugin": "with_torch"}, (1,))],
    ids=["single", "many", "torch"],
)
def test_bytes_do_not_depend_on_the_number_of_workers(make_core, args, numbers):
    ids, inputs, targets = content(make_core(0, **args))
    assert (inputs[:, 0] == ids).all()
    assert (targets == ids % 3).all()
    for workers in numbers:
        again = content(make_core(workers, **args))
        assert (again[0] == ids).all()
        assert again[1].tobytes() == inputs.tobytes()
        assert (again[2] == targets).all()


def test_a_stream_is_read_by_the_batcher_while_they_read_the_test_split(make_core):
    core = make_core(1, "stream")
    found = batches(core)
    assert np.concatenate([batch.ids for batch in found if batch.kind == "train"]).tolist() == list(range(80))
    assert np.concatenate([batch.ids for batch in found if batch.kind == "test"]).tolist() == list(range(40))
    assert core.skipped == []
    assert core.pool.cpu_s > 0


def test_randomness_differs_by_pass_and_seed_and_instance_and_not_by_batch_size(make_core):
    ids, inputs, _ = content(make_core(budget=2.0))
    first, second = (
        {int(i): row for i, row in zip(ids[s], inputs[s], strict=True)} for s in (slice(40), slice(40, 80))
    )
    for column in (1, 2):
        drawn = {float(row[column]) for rows in (first, second) for row in rows.values()}
        assert len(drawn) == 80  # each its own
    other, values, _ = content(make_core(budget=1.0, batch_size=13))
    assert all((first[int(i)] == row).all() for i, row in zip(other, values, strict=True))
    _, seeded, _ = content(make_core(budget=1.0, seed=1))
    assert not set(seeded[:, 1].tolist()) & set(inputs[:, 1].tolist())


def test_the_generators_of_the_process_are_left_alone(make_core):
    core = make_core()
    random.seed(5)
    np.random.seed(5)
    expected = random.random(), np.random.random()
    random.seed(5)
    np.random.seed(5)
    core.next(0, 0, lend)
    assert (random.random(), np.random.random()) == expected


def test_seeds_reach_every_generator():
    torch = pytest.importorskip("torch")
    with kept_random_state():
        drawn = []
        for numbers in ((1, 2, 3), (1, 2, 3), (1, 3, 2), (2**63 - 1, 0, 0)):
            seed_all(*numbers)
            drawn.append((np.random.random(), float(torch.rand(()))))
    assert drawn[0] == drawn[1]
    assert len(set(drawn)) == 3


class DrawsSeldom:
    """Draws from a generator for every tenth item, which may then raise; counts what is read."""

    targets = np.zeros(200, int)

    def __init__(self, first, raises=False, draw=random.random):
        self.first, self.raises, self.draw, self.read = first, raises, draw, []

    def __len__(self):
        return 200

    def __getitem__(self, index):
        self.read.append(index)
        draws = index >= self.first and index % 10 == 0
        drawn = self.draw() if draws else -1.0
        if draws and self.raises and drawn < 0.5:
            raise OSError(f"drew {drawn}")
        return np.array([index, drawn], np.float32), 0


def decoded(split, ids):
    """Inputs and errors of the instances `ids`, read in portions of 30."""
    out = {"inputs": np.zeros((len(ids), 2), np.float32), "targets": np.zeros(len(ids), np.int64)}
    decoder, errors = Decoder(split, 7), {}
    with kept_random_state():
        for start in range(0, len(ids), 30):
            part = np.array(ids[start : start + 30])
            errors |= decoder.decode(part, np.ones(len(part), np.int64), out, range(start, start + len(part)))
    return {index: row.tolist() for index, row in zip(ids, out["inputs"], strict=True)}, errors


@pytest.mark.parametrize(
    ("draw", "raises"),
    [(random.random, False), (random.random, True), (lambda: random.gauss(0, 1), False), (np.random.randn, True)],
    ids=["random", "random-raises", "gauss", "numpy-raises"],
)
def test_an_item_that_seldom_draws_gets_what_its_own_seed_gives(draw, raises):
    ids = list(range(200))
    late = DrawsSeldom(60, raises, draw)
    found, errors = decoded(late, ids)
    expected, expected_errors = {}, {}
    with kept_random_state():
        for index in ids:
            seed_all(7, 1, index)
            try:
                expected[index] = DrawsSeldom(60, raises, draw)[index][0].tolist()
            except OSError as error:
                expected_errors[index] = f"OSError: {error} (test_workers.py, line "
    assert errors.keys() == expected_errors.keys()
    assert all(error.startswith(expected_errors[index]) for index, error in errors.items())
    assert bool(errors) == raises
    assert {index: row for index, row in found.items() if index not in errors} == expected
    assert late.read == [*range(61), *range(60, 200)]  # read again where the first one drew, and never after


def test_items_that_draw_from_the_first_on_are_read_once():
    early = DrawsSeldom(0)
    backwards, _ = decoded(early, list(range(199, -1, -1)))
    assert early.read == list(range(199, -1, -1))
    assert backwards == decoded(DrawsSeldom(0), list(range(200)))[0]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("kind", ["Split", "Many"])
def test_instances_that_cannot_be_decoded_are_skipped_and_listed(make_core, workers, kind, caplog):
    core = make_core(workers, kind=kind, bad=[3, 17, 39])
    ids, inputs, _ = content(core)
    assert len(ids) == 80
    assert not set(ids.tolist()) & {3, 17, 39}
    assert (inputs[:, 0] == ids).all()
    assert sorted(core.skipped) == [3, 17, 39]
    metrics = core.metrics()
    assert metrics["skipped"] == 3
    assert "17: OSError: image 17 is truncated" in metrics["skipped_errors"]
    said = [record.getMessage() for record in caplog.records]
    assert sum("skipped instance" in line for line in said) == 3


@pytest.mark.parametrize("workers", [0, 1])
def test_an_instance_that_ends_its_script_is_skipped_like_any_other(make_core, workers):
    core = make_core(workers, exits=[5])
    assert 5 not in content(core)[0]
    assert core.metrics()["skipped_errors"].startswith("5: SystemExit: 3")
    assert not workers or core.pool.replaced == 0


@pytest.mark.parametrize("workers", [0, 1])
def test_more_than_max_bad_end_the_run_with_one_line(make_core, workers):
    core = make_core(workers, bad=[1, 2, 3], max_bad=2)
    with pytest.raises(ConfigError) as raised:
        batches(core)
    text = str(raised.value)
    assert "batcher.max_bad = 2: 3 instances" in text
    assert "is truncated" in text
    assert "\n" not in text


def test_bad_instances_of_an_evaluation_split_are_left_out_and_counted_once(make_core):
    core = make_core(bad_test=[0, 9], eval_every=1.0)
    found = [batch for batch in batches(core) if batch.kind == "test"]
    ids = np.concatenate([batch.ids for batch in found])
    assert ids.tolist() == 2 * [i for i in range(40) if i not in (0, 9)]
    assert all((batch.arrays["inputs"][:, 0] == batch.ids).all() for batch in found)
    assert core.metrics()["skipped"] == 2
    assert "0 of the test split" in core.metrics()["skipped_errors"]


@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        (
            {"bad_test": list(range(8, 16))},
            "no instance of a batch of its test split can be used: 15 of the test split",
        ),
        ({"bad": list(range(40))}, "none of the first 16 items of a split can be read: OSError: image 0 is truncated"),
    ],
)
def test_where_nothing_is_left_of_a_split_the_data_set_is_named(make_core, bad, problem):
    with pytest.raises(ConfigError, match=f"^data.name = 'toy': {problem}"):
        batches(make_core(**bad, labels=False, eval_every=1.0))


def test_an_instance_that_kills_its_process_twice_is_skipped(make_core, caplog):
    core = make_core(2, killers=[5])
    ids, inputs, _ = content(core)
    assert len(ids) == 80
    assert 5 not in ids
    assert (inputs[:, 0] == ids).all()
    assert core.skipped == [5]
    assert "killed by SIGKILL" in core.metrics()["skipped_errors"]
    said = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert sum("was killed by SIGKILL while reading instance 5; replaced" in line for line in said) == 2


@pytest.mark.parametrize("workers", [1, 3])
def test_a_process_that_is_killed_is_replaced_and_nothing_is_lost(make_core, workers):
    expected = content(make_core(0))
    core = make_core(workers)
    first = core.next(0, 0, lend)[0]
    for process in list(core.pool._processes):
        os.kill(process.child.pid, signal.SIGKILL)
    rest = batches(core)
    inputs = np.concatenate([batch.arrays["inputs"] for batch in (first, *rest)])
    assert inputs.tobytes() == expected[1].tobytes()
    assert core.skipped == []
    assert core.pool.replaced == workers


def test_labels_that_cannot_be_read_do_not_stop_the_start(make_core):
    core = make_core(bad=[4], labels=False)
    assert core.spec.classes == 3
    ids, _, _ = content(core)
    assert len(ids) == 80
    assert 4 not in ids


def test_a_process_that_cannot_load_the_data_says_why(make_core):
    with pytest.raises(RuntimeError, match=r"cannot load the data set: data\.name.*FileNotFoundError: no such"):
        make_core(1, plugin="not_in_a_worker")


def test_the_seconds_of_the_processes_are_counted(make_core):
    core = make_core(1)
    batches(core)
    assert 0.01 < core.pool.cpu_s < 60


PARENT = """
import sys, time
from batcher.config import DataConfig
from batcher.plugin import load
from batcher.source import Source
from batcher.workers import Pool
data = DataConfig(name="decoded_items:data")
pool = Pool(data, 0, {"train": Source(load(data).train, "toy")}, 8, 2)
print(*[process.child.pid for process in pool._processes], flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("with_signal", [signal.SIGKILL, signal.SIGTERM])
def test_the_processes_end_with_the_batcher_whatever_kills_it(with_signal):
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True) as parent:
        pids = [int(word) for word in parent.stdout.readline().split()]
        assert len(pids) == 2
        parent.send_signal(with_signal)
        parent.wait()
    deadline = time.monotonic() + 3
    while any(Path(f"/proc/{pid}").exists() for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]


def test_closing_leaves_no_process_and_no_descriptor(make_core):
    before = len(os.listdir("/proc/self/fd"))
    core = make_core(2)
    core.next(0, 0, lend)
    pids = [process.child.pid for process in core.pool._processes]
    core.pool.close()
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]
    assert len(os.listdir("/proc/self/fd")) == before


def test_more_instances_than_a_batch_holds_can_be_asked_for(make_core):
    core = make_core(2)
    ids = np.arange(40)
    taken, arrays = core.train.take(ids)
    assert (taken == ids).all()
    assert (arrays["inputs"][:, 0] == ids).all()


def test_items_of_another_shape_are_named():
    class Ragged:
        targets = np.zeros(3, int)

        def __len__(self):
            return 3

        def __getitem__(self, index):
            return np.zeros(index + 1, np.float32), 0

    out = {"inputs": np.empty((2, 1), np.float32), "targets": np.empty(2, np.int64)}
    errors = Decoder(Ragged(), 0).decode(np.array([0, 2]), np.zeros(2, np.int64), out, [0, 1])
    assert list(errors) == [2]
    assert "shape [3]" in errors[2]
    with pytest.raises(ValueError, match=r"instance 2.*shape \[3\]"):
        Source(Ragged(), "ragged").fill(np.array([2]), {name: array[:1] for name, array in out.items()})
