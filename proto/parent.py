"""A process that another one of ours starts: it ends with that one, and takes no other orders."""

import ctypes
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

PR_SET_PDEATHSIG = 1


def end_with_parent(parent: int) -> bool:
    """Has the kernel end this process with its parent, whatever it is doing; False if `parent` has died already."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    return os.getppid() == parent


@contextmanager
def kept_from_children() -> Iterator[None]:
    """Processes started here never see SIGINT, nor SIGTERM until they call `outlive_sigterm`.

    Both may reach the whole process group, but what follows is ours to decide. One that arrives meanwhile is not lost:
    it is delivered to us at the end, or at once where another thread of ours takes it.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def outlive_sigterm() -> None:
    """From now on SIGTERM does nothing to this process, and what it does by default to those that it starts.

    Blocked, or ignored in the system's way, it would be so in all that user code starts, which could not be ended.
    """
    signal.signal(signal.SIGTERM, lambda *_: None)
    os.register_at_fork(after_in_child=lambda: signal.signal(signal.SIGTERM, signal.SIG_DFL))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
