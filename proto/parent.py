"""A process that must not outlive the one that started it."""

import ctypes
import os
import signal

PR_SET_PDEATHSIG = 1


def end_with_parent(parent: int) -> bool:
    """Has the kernel end this process with its parent, whatever it is doing; False if `parent` has died already."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    return os.getppid() == parent
