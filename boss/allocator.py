"""The C library's memory, for training on the CPU."""

import ctypes

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""Of glibc's malloc.h."""
LARGEST = 32 << 20
"""The largest threshold that glibc takes."""


def keep_freed_memory() -> None:
    """Has glibc keep what is freed, to be used again, as torch does by itself on CUDA; elsewhere nothing happens.

    Else every step gives its activations and gradients back to the kernel and has them mapped anew, page by page, each
    cleared. Blocks of over 32 MiB still are. The process stays as large as it once was.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_MMAP_THRESHOLD, LARGEST)
        mallopt(M_TRIM_THRESHOLD, 2**31 - 1)
