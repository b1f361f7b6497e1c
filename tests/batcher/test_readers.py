"""Processes that read the shards of a stream: the same instances whatever their number; what becomes of dead ones."""

import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sharded
from toys import batches, lend

from batcher.config import BatcherConfig, DataConfig, PolicyConfig
from batcher.core import BatcherCore
from batcher.plugin import load
from batcher.readers import PORTION_BYTES, Readers
from boss.account import Account
from proto.batches import Batch
from proto.config import RunConfig
from proto.errors import ConfigError

SUPPORT = Path(sharded.__file__).parent
Make = Callable[..., BatcherCore]


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """The processes find the toy stream as this one does."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(SUPPORT), os.environ.get("PYTHONPATH", "")]))


@pytest.fixture
def make() -> Iterator[Make]:
    started: list[Readers] = []

    def begun(workers: int = 0, at: Account | None = None, plugin: str = "data", **args: Any) -> BatcherCore:
        data = DataConfig(name=f"sharded:{plugin}", args=args)

        def start(sources: Any, rows: int) -> None:
            if workers:
                tape = sources["train"].split
                tape.elsewhere = Readers(data, 2, tape.shards, workers)
                started.append(tape.elsewhere)

        config = BatcherConfig(batch_size=16, workers=workers)
        run, policy = RunConfig(budget=5.0, seed=2), PolicyConfig(name="uniform")
        core = BatcherCore(run, config, policy, load(data), "toy", start_workers=start)
        core.open((at or Account()).open(incarnation=0, slots=1, eval_every=0.0))
        return core

    yield begun
    for readers in started:
        readers.close()


def readers_of(core: BatcherCore) -> Readers:
    assert core.tape is not None
    assert isinstance(core.tape.elsewhere, Readers)
    return core.tape.elsewhere


def content(found: list[Batch]) -> list[tuple[bytes, bytes]]:
    """Ids and bytes of the training batches."""
    return [(batch.ids.tobytes(), batch.arrays["inputs"].tobytes()) for batch in found]


@pytest.mark.parametrize(("workers", "kind"), [(1, "Epochs"), (4, "Stateful"), (1, "Wide")])
def test_ids_and_bytes_do_not_depend_on_the_number_of_processes(make: Make, workers: int, kind: str) -> None:
    assert content(batches(make(workers, kind=kind))) == content(batches(make(0, kind=kind)))


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2, 3, 4, 9])
@pytest.mark.parametrize("kind", ["Shards", "Epochs", "Stateful", "Sticky"])
def test_whatever_the_kind_and_the_number(make: Make, workers: int, kind: str) -> None:
    core = make(workers, kind=kind)
    assert content(batches(core)) == content(batches(make(0, kind=kind)))
    assert len(readers_of(core)._children) == min(workers, 5)


@pytest.mark.parametrize(("before", "after", "kind"), [(0, 2, "Epochs"), (2, 0, "Stateful")])
def test_a_stream_goes_on_with_another_number_of_processes(make: Make, before: int, after: int, kind: str) -> None:
    whole = batches(make(before, kind=kind))
    account = Account()
    for batch in whole[:20]:
        account.add(batch)
    assert content(batches(make(after, account, kind=kind))) == content(whole[20:])


@pytest.mark.parametrize("kind", [pytest.param("Shards", marks=pytest.mark.slow), "Stateful"])
def test_one_that_is_killed_is_replaced_and_nothing_is_lost(
    make: Make, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    expected = content(batches(make(0, kind=kind, sizes=(200, 150, 170), epoch_size=100)))
    core = make(2, kind=kind, sizes=(200, 150, 170), epoch_size=100)
    found: list[Any] = [core.next(0, 0, lend)[0] for _ in range(3)]
    for child in readers_of(core)._children:
        os.kill(child.pid, signal.SIGKILL)
    found += batches(core)
    assert content(found) == expected
    said = [record.getMessage() for record in caplog.records if "replaced" in record.getMessage()]
    assert len(said) == readers_of(core).replaced == 2
    assert any("the process that reads shards 0, 2 of the stream (pid" in line for line in said)
    assert all("was killed by SIGKILL after instance" in line for line in said)


def test_an_instance_that_ends_its_process_once_is_read_by_the_next(make: Make, tmp_path: Path) -> None:
    sizes = (300, 200)
    core = make(1, sizes=sizes, kills=[1, 180], once=str(tmp_path / "done"))
    assert content(batches(core)) == content(batches(make(0, sizes=sizes)))
    assert readers_of(core).replaced == 1


def test_one_that_ends_its_process_twice_ends_the_run_in_one_line(make: Make) -> None:
    core = make(1, sizes=(300, 200), kills=[1, 180])
    with pytest.raises(
        ConfigError, match=r"reads shards 0, 1 of the stream was killed by SIGKILL, twice in a row, after"
    ):
        batches(core)


def test_what_a_shard_raises_is_raised_where_it_would_be_without_processes(make: Make) -> None:
    options: Any = {"sizes": (200, 200), "fails": [1, 160]}
    trained = []
    for workers in (0, 2):
        core = make(workers, **options)
        problem = r"^data\.name = 'toy': shard 1 of the stream failed at position 160: OSError: the line is dead"
        with pytest.raises(ConfigError, match=problem.replace("toy", ("toy", "sharded:data")[workers > 0])):
            batches(core)
        trained.append(core.metrics()["candidates"])
    assert trained[0] == trained[1]
    assert trained[0] == 320  # all that came before it


def test_what_cannot_be_sent_is_told(make: Make) -> None:
    core = make(1, sizes=(200, 200), unsendable=[1, 160])
    with pytest.raises(ConfigError, match=r"an instance of shard 1 cannot be sent .*or set batcher\.workers = 0"):
        batches(core)


def test_a_process_that_cannot_load_the_data_says_why(make: Make) -> None:
    with pytest.raises(
        RuntimeError, match=r"reads shards 0, 1, 2, 3, \.\.\. of the stream cannot load .*no such folder"
    ):
        make(1, plugin="not_in_a_worker")


@pytest.mark.parametrize("workers", [0, 1])
def test_that_it_lives_is_said_while_what_was_had_is_passed_over(make: Make, workers: int) -> None:
    options: Any = {"sizes": (200, 200), "epoch_size": 80}
    account = Account()
    for batch in batches(make(0, **options))[:20]:
        account.add(batch)
    core = make(workers, kind="Slow", **options)
    signs: list[float] = []
    core.alive = lambda: signs.append(time.monotonic())
    core.open(account.open(incarnation=0, slots=1, eval_every=0.0))
    core.next(0, 0, lend)
    assert len(signs) > 1


def test_little_is_read_ahead(make: Make, tmp_path: Path) -> None:
    log = tmp_path / "log"
    core = make(1, kind="Wide", sizes=(100_000,), log=str(log))
    core.next(0, 0, lend)
    seen, before = -1, time.monotonic()
    while (now := log.read_text().count("\n")) != seen and time.monotonic() - before < 20:
        seen = now
        time.sleep(0.5)
    # 256 are looked at first, by the Batcher and again by the process, which then fills a portion and a pipe
    assert seen < 2 * 256 + 2 * PORTION_BYTES / sharded.WIDE_BYTES + 100


def test_closing_leaves_no_process_and_no_descriptor_and_counts_seconds(make: Make) -> None:
    before = len(os.listdir("/proc/self/fd"))
    core = make(2, sizes=(1000, 1000))
    readers = readers_of(core)
    for _ in range(20):
        core.next(0, 0, lend)
    pids = [child.pid for child in readers._children]
    assert len(pids) == 2
    readers.close()
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]
    assert len(os.listdir("/proc/self/fd")) == before
    assert 0.01 < readers.cpu_s < 60


PARENT = """
import time
from batcher.config import DataConfig
from batcher.readers import Readers
from batcher.shards import Stand
readers = Readers(DataConfig(name="sharded:data", args={"sizes": [9, 9]}), 0, 2, 2)
readers.go_to(Stand.beginning(range(2)))
print(*[child.pid for child in readers._children], flush=True)
time.sleep(60)
"""


def test_the_processes_end_with_the_batcher_even_while_they_wait_to_be_heard() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pids = [int(word) for word in parent.stdout.readline().split()]
        assert len(pids) == 2
        parent.kill()
        parent.wait()
    deadline = time.monotonic() + 3
    while any(Path(f"/proc/{pid}").exists() for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]


def test_hugging_face_streams_shard_themselves_as_they_are(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("datasets", reason="Hugging Face datasets is not installed (the extra hf)")
    whole = batches(make(0, plugin="hugging_face"))
    assert content(batches(make(2, plugin="hugging_face"))) == content(whole)
    account = Account()
    for batch in whole[: len(whole) - 3]:
        account.add(batch)
    assert content(batches(make(0, account, plugin="hugging_face"))) == content(whole[-3:])
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []
