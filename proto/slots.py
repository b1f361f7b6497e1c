"""Slots: shared memory that the arrays of batches travel in.

The Boss makes a `Memory` of K slots, the Batcher attaches to it. Anonymous memory (a memfd, reached through
/proc/PID/fd/N) has no name, so nothing can be left behind, and the size of /dev/shm does not matter. Where /proc
refuses, a named file in /dev/shm serves; its maker locks it while it lives, and `sweep` removes what nobody has locked.
"""

import fcntl
import math
import mmap
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

import numpy as np

from proto.batches import Place
from proto.control import DataSpec
from proto.errors import Refused
from proto.fields import DTYPES
from proto.types import Array

Layout = Mapping[str, tuple[tuple[int, ...], np.dtype[Any]]]
"""Name -> (shape, dtype) of each array of a batch."""
Kind = Literal["memfd", "file"]

ALIGN = 64
"""Arrays begin at multiples of this: a cache line, and enough for any dtype."""
MAX_NDIM = 8
SHM = Path("/dev/shm")
SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


def starts(layout: Layout, first: int = 0) -> tuple[dict[str, int], int]:
    """Where each array of `layout` begins when the first may begin at byte `first`, and where the last one ends."""
    found, end = {}, first
    for name, (shape, dtype) in layout.items():
        found[name] = begin = -(-end // ALIGN) * ALIGN
        end = begin + math.prod(shape) * dtype.itemsize
    return found, end


def slot_size(arrays: Layout, classes: int) -> int:
    """Bytes of a slot, whole pages, that holds a batch of `arrays` with all that is said of its instances."""
    n = max(shape[0] for shape, _ in arrays.values())
    beside: dict[str, tuple[tuple[int, ...], np.dtype[Any]]] = {
        "ids": ((n,), np.dtype(np.int64)),
        "passes_of": ((n,), np.dtype(np.int64)),
        "weights": ((n,), np.dtype(np.float32)),
        "dropped": ((classes + 1,), np.dtype(np.int64)),
    }
    return -(-starts({**arrays, **beside})[1] // mmap.PAGESIZE) * mmap.PAGESIZE


def largest(one: Layout, n: int, tokens: int = 0) -> Layout:
    """The arrays of the largest batch of instances like `one`: n of them, or n with at most `tokens` padded positions.

    With `tokens` the first dimension of "inputs" counts positions, and that of every array that has as many.
    """
    positions = one["inputs"][0][:1] if tokens else None
    found = {}
    for name, (shape, dtype) in one.items():
        by_position = shape and shape[:1] == positions
        found[name] = ((1, tokens, *shape[1:]) if by_position else (n, *shape)), dtype
    return found


def slot_bytes(spec: DataSpec) -> int:
    """Bytes of a slot that holds the largest batch of `spec`."""
    one = {
        "inputs": (spec.input_shape, np.dtype(spec.input_dtype)),
        "targets": (spec.target_shape, np.dtype(spec.target_dtype)),
        **{name: (shape, np.dtype(dtype)) for name, (dtype, shape) in spec.beside.items()},
    }
    layout = largest(one, spec.max_batch, spec.max_tokens)
    return slot_size(layout, spec.classes)


class Memory:
    """`count` slots of `size` bytes each, mapped into this process: slot k is the bytes from k x size.

    The mapping goes when the last array in it does; `close` gives up everything else.
    """

    def __init__(self, descriptor: int, path: str, kind: Kind, count: int, size: int, *, owner: bool) -> None:
        """Takes over `descriptor`. Raises OSError, or ValueError for no bytes, when it cannot be mapped."""
        self.path, self.kind, self.count, self.size, self._owner = path, kind, count, size, owner
        self._descriptor = descriptor
        self.inode = os.fstat(descriptor).st_ino
        # Populated now: page faults cost as much as copying does.
        self._map = mmap.mmap(descriptor, count * size, mmap.MAP_SHARED | mmap.MAP_POPULATE)
        self.address: int = np.frombuffer(self._map, np.uint8).__array_interface__["data"][0]

    @classmethod
    def anonymous(cls, count: int, size: int) -> Self:
        """Memory without a name. Raises OSError."""
        descriptor = os.memfd_create("autoassist-slots", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        return cls._allocated(descriptor, f"/proc/{os.getpid()}/fd/{descriptor}", "memfd", count, size)

    @classmethod
    def file(cls, count: int, size: int) -> Self:
        """Memory in a named file, removed by `close`. Raises OSError, leaving nothing."""
        descriptor, path = tempfile.mkstemp(prefix=f"aa-{os.getuid()}-", suffix=".slots", dir=SHM)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            return cls._allocated(descriptor, path, "file", count, size)
        except BaseException:
            os.unlink(path)
            raise

    @classmethod
    def _allocated(cls, descriptor: int, path: str, kind: Kind, count: int, size: int) -> Self:
        try:
            # In full: what is not there must fail here, not as SIGBUS in the middle of training.
            os.posix_fallocate(descriptor, 0, count * size)
            if kind == "memfd":  # nobody who attaches can take the pages away under us
                fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, SEALS)
            return cls(descriptor, path, kind, count, size, owner=True)
        except BaseException:
            os.close(descriptor)
            raise

    @classmethod
    def attached(cls, path: str, inode: int, count: int, size: int) -> Self:
        """The memory that another process made at `path`. Raises OSError, also when it is not that one."""
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            found = os.fstat(descriptor)
            if (found.st_ino, found.st_size) != (inode, count * size):
                raise OSError(f"{path} is something else here (another PID namespace?)")
            return cls(descriptor, path, "memfd", count, size, owner=False)
        except BaseException:
            os.close(descriptor)
            raise

    @property
    def descriptor(self) -> int:
        """What a child process needs to map the same memory."""
        return self._descriptor

    def view(self, slot: int, start: int, dtype: str, shape: tuple[int, ...]) -> Array:
        """The array at byte `start` of `slot`, without a copy.

        Raises Refused, of kind "place", unless all of it lies in the slot, whatever the numbers are.
        """
        if not 0 <= slot < self.count:
            raise Refused("place", f"slot {slot} of {self.count}")
        if dtype not in DTYPES or len(shape) > MAX_NDIM or min(shape, default=0) < 0:
            raise Refused("place", f"no array: {dtype:.20} {shape!r:.80}")
        # Python integers: a product that overflows int64 must not come out right.
        end = start + math.prod(shape) * np.dtype(dtype).itemsize
        if start < 0 or start % np.dtype(dtype).itemsize or end > self.size:
            raise Refused("place", f"bytes {start} to {end} of a slot of {self.size}")
        try:
            return np.ndarray(shape, dtype, self._map, slot * self.size + start)
        except (ValueError, OverflowError):  # no bytes, and a dimension that numpy cannot count to
            raise Refused("place", f"shape {shape!r:.80}") from None

    def start_of(self, slot: int, array: Array) -> int | None:
        """The byte of `slot` at which `array` begins, or None when it is not a contiguous array in that slot."""
        start = int(array.__array_interface__["data"][0]) - self.address - slot * self.size
        inside = start >= 0 and start + array.nbytes <= self.size and array.flags.c_contiguous
        return start if inside and array.size else None

    def close(self) -> None:
        """Gives up descriptor and name."""
        if self._descriptor < 0:
            return
        os.close(self._descriptor)
        self._descriptor = -1
        del self._map  # unmapped with the last view: closing under one is an error
        if self._owner and self.kind == "file":
            Path(self.path).unlink(missing_ok=True)


class Seen(NamedTuple):
    """Where in a slot the arrays of a batch lie. Almost every batch looks like the one before: found out once."""

    places: tuple[Place, ...]
    arrays: dict[str, Array]
    beside: dict[str, Array]


def why(error: Exception) -> str:
    """Why memory could not be made or attached."""
    return getattr(error, "strerror", None) or str(error)


def sweep() -> None:
    """Removes the files of killed runs: those that nobody has locked."""
    for path in SHM.glob(f"aa-{os.getuid()}-*.slots"):
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            continue  # gone meanwhile, or not ours
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink(missing_ok=True)
        except OSError:
            pass  # its maker lives
        finally:
            os.close(descriptor)
