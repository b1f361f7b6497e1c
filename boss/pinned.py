"""Slots as pinned memory: CUDA then copies from them by itself, while the CPU goes on."""

import logging
from collections.abc import Callable

import torch

from proto.slots import Memory

log = logging.getLogger(__name__)


def pin(memory: Memory) -> Callable[[], None]:
    """Registers `memory` with CUDA, until the function that is returned is called.

    Where CUDA refuses, that is logged, and batches are copied from pageable memory.
    """
    size = memory.count * memory.size
    runtime = torch.cuda.cudart()  # type: ignore[no-untyped-call]
    code = int(runtime.cudaHostRegister(memory.address, size, 0))
    if code:
        log.warning(
            "the slots (%.0f MB) are not pinned, copies to the GPU go through pinned staging memory or wait for it: "
            "cudaHostRegister gave error %d; raising the limit on locked memory (ulimit -l) may bring it back",
            size / 1e6,
            code,
        )
        return lambda: None
    address = memory.address

    def undo() -> None:
        runtime.cudaHostUnregister(address)

    return undo


def no_pin(memory: Memory) -> Callable[[], None]:
    """For devices other than CUDA's: nothing to do."""
    return lambda: None
