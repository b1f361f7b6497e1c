"""Shared memory of slots: what is in it, who may see it, and that nothing stays behind."""

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proto import slots
from proto.control import DataSpec
from proto.errors import Refused
from proto.slots import ALIGN, Memory, slot_bytes, starts, sweep

PAGE = os.sysconf("SC_PAGESIZE")


@pytest.fixture(params=[Memory.anonymous, Memory.file], ids=["anonymous", "file"])
def memory(request):
    made = request.param(3, 2 * PAGE)
    yield made
    made.close()


def spec(shape=(3, 5), dtype="uint8", max_batch=7, classes=4):
    return DataSpec(
        train_size=100, validation_size=0, test_size=0, classes=classes, class_names=(), input_shape=shape,
        input_dtype=dtype, mean=(), std=(), feature_dim=1, train_total=100, train_batches=1, max_batch=max_batch,
    )  # fmt: skip


def test_a_slot_holds_the_largest_batch_in_whole_pages():
    n, needed = 7, 0
    for size in (n * 15, n * 8, n * 8, n * 8, n * 4, 5 * 8):
        needed = -(-needed // ALIGN) * ALIGN + size
    assert slot_bytes(spec()) == -(-needed // PAGE) * PAGE
    assert slot_bytes(spec(shape=(3, 224, 224), dtype="float32", max_batch=64)) % PAGE == 0


def test_arrays_begin_at_multiples_of_a_cache_line():
    begins, end = starts({"a": ((3,), np.dtype(np.uint8)), "b": ((2, 2), np.dtype(np.float32))}, first=1)
    assert begins == {"a": 64, "b": 128}
    assert end == 144


def test_what_one_end_writes_the_other_reads(memory):
    other = Memory.attached(memory.path, memory.inode, memory.count, memory.size)
    for slot in range(3):
        other.view(slot, 64, "int64", (4,))[:] = np.arange(4) + slot
    for slot in range(3):
        assert memory.view(slot, 64, "int64", (4,)).tolist() == [slot, slot + 1, slot + 2, slot + 3]
    other.close()


def test_views_outlive_the_memory(memory):
    view = memory.view(1, 0, "int64", (2,))
    view[:] = 5
    memory.close()
    assert view.tolist() == [5, 5]


@pytest.mark.parametrize(
    ("slot", "start", "dtype", "shape"),
    [
        (3, 0, "uint8", (1,)),
        (-1, 0, "uint8", (1,)),
        (0, -64, "uint8", (1,)),
        (0, 4, "int64", (1,)),
        (0, 2 * PAGE - 7, "uint8", (8,)),
        (0, 0, "uint8", (2 * PAGE + 1,)),
        (0, 2 * PAGE, "uint8", (1,)),
        (0, 0, "uint8", (-1,)),
        (0, 0, "uint8", (2**32, 2**32)),
        (0, 0, "int64", (2**61,)),
        (0, 2**63, "uint8", (0,)),
        (0, 0, "uint8", (0, 2**62, 2**62)),
        (0, 0, "object", (1,)),
        (0, 0, "complex128", (1,)),
        (0, 0, "uint8", (1,) * 9),
    ],
)
def test_what_does_not_lie_in_the_slot_is_refused(memory, slot, start, dtype, shape):
    with pytest.raises(Refused) as refused:
        memory.view(slot, start, dtype, shape)
    assert refused.value.kind == "place"


@given(
    st.integers(-(2**66), 2**66),
    st.sampled_from(["uint8", "float16", "int64"]),
    st.lists(st.integers(-1, 2**66) | st.integers(0, 99), max_size=9),
)
def test_no_view_reaches_outside_its_slot(start, dtype, shape):
    memory = Memory.anonymous(2, PAGE)
    try:
        view = memory.view(0, start, dtype, tuple(shape))
    except Refused:
        return
    finally:
        memory.close()
    first = view.__array_interface__["data"][0]
    assert view.size == 0 or memory.address <= first <= first + view.nbytes <= memory.address + PAGE


def test_where_an_array_begins(memory):
    view = memory.view(1, 128, "int64", (4, 4))
    assert memory.start_of(1, view) == 128
    assert memory.start_of(0, view) is None
    assert memory.start_of(2, view) is None
    assert memory.start_of(1, view[:, 1]) is None
    assert memory.start_of(1, np.zeros(4)) is None


def test_another_file_of_that_name_is_refused(memory, tmp_path):
    with pytest.raises(OSError, match="something else"):
        Memory.attached(memory.path, memory.inode + 1, memory.count, memory.size)
    with pytest.raises(OSError, match="something else"):
        Memory.attached(memory.path, memory.inode, memory.count + 1, memory.size)
    with pytest.raises(FileNotFoundError):
        Memory.attached(str(tmp_path / "none"), 1, 1, PAGE)


def test_nobody_can_take_the_pages_of_anonymous_memory_away():
    memory = Memory.anonymous(1, PAGE)
    descriptor = os.open(memory.path, os.O_RDWR)
    with pytest.raises(PermissionError):
        os.ftruncate(descriptor, 0)
    os.close(descriptor)
    memory.close()


def test_nothing_is_left_behind():
    before = set(os.listdir("/proc/self/fd")), set(slots.SHM.iterdir())
    for make in (Memory.anonymous, Memory.file):
        for _ in range(20):
            memory = make(2, PAGE)
            other = Memory.attached(memory.path, memory.inode, 2, PAGE)
            memory.close()
            other.close()
            memory.close()
    assert (set(os.listdir("/proc/self/fd")), set(slots.SHM.iterdir())) == before


def test_a_full_dev_shm_is_noticed_at_once_and_leaves_nothing(monkeypatch):
    def full(descriptor, begin, length):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    before = set(os.listdir("/proc/self/fd")), set(slots.SHM.iterdir())
    for make in (Memory.anonymous, Memory.file):
        with pytest.raises(OSError, match="No space left"):
            make(2, PAGE)
    assert (set(os.listdir("/proc/self/fd")), set(slots.SHM.iterdir())) == before


HOLDER = """
import os, sys, time
from proto.slots import Memory
memory = Memory.file(1, os.sysconf("SC_PAGESIZE"))
print(memory.path, flush=True)
time.sleep(60)
"""


def test_the_file_of_a_killed_run_is_swept_and_that_of_a_living_one_is_not():
    with subprocess.Popen([sys.executable, "-c", HOLDER], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        path = Path(holder.stdout.readline().strip())
        sweep()
        assert path.exists()
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        assert path.exists()
        sweep()
        assert not path.exists()
