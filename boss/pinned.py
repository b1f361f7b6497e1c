"""Slots as pinned memory: CUDA copies straight from them, by itself, while the CPU goes on."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from boss.copier import Copier, Event, Lane
from proto.batches import Batch
from proto.slot_receiver import Undo
from proto.slots import Memory


def pin(memory: Memory, warn: Callable[[str], None]) -> Undo | None:
    """Registers `memory` with CUDA, until what is returned is called.

    Where CUDA refuses, `warn` is told: batches then go through staging memory, which costs the CPU a copy.
    """
    size = memory.count * memory.size
    runtime = torch.cuda.cudart()  # type: ignore[no-untyped-call]
    code = int(runtime.cudaHostRegister(memory.address, size, 0))
    if code:
        warn(
            f"the slots ({size / 1e6:.0f} MB) are not pinned, batches go through pinned staging memory, which costs a "
            f"copy: cudaHostRegister gave error {code}; a higher limit on locked memory (ulimit -l) may bring it back"
        )
        return None
    address = memory.address
    return lambda: runtime.cudaHostUnregister(address)


class SlotCopier:
    """Copies a batch that lies in pinned memory by one copy of its part of the slot; any other through `staged`."""

    def __init__(self, lane: Lane, staged: Copier, pinned: Callable[[], Memory | None]) -> None:
        """`pinned` gives the memory whose slots are pinned now, if any."""
        self._lane, self._staged, self._pinned = lane, staged, pinned
        self._under_way: list[tuple[Batch, Event]] = []

    def bring(self, batch: Batch) -> dict[str, Tensor]:
        memory = self._pinned()
        begins = {name: memory.start_of(batch.slot, array) for name, array in batch.arrays.items()} if memory else {}
        places = {name: begin for name, begin in begins.items() if begin is not None}
        if memory is None or len(places) < len(batch.arrays):
            return self._staged.bring(batch)
        first = min(places.values())
        end = max(begin + batch.arrays[name].nbytes for name, begin in places.items())
        block = torch.from_numpy(memory.view(batch.slot, first, "uint8", (end - first,)))
        arrived, _ = self._lane.send(block)
        # Few bytes, which do not lie in the slot; on the same lane, so that they have arrived after the block.
        weights, event = self._lane.send(torch.from_numpy(batch.weights))
        self._under_way.append((batch, event))
        found = {"weights": weights}
        for name, begin in places.items():
            array = batch.arrays[name]
            dtype = torch.from_numpy(np.empty(0, array.dtype)).dtype
            part = arrived[begin - first : begin - first + array.nbytes]
            found[name] = part.view(dtype).view(array.shape)
        return found

    def finished(self, keep: int) -> list[Batch]:
        done = self._staged.finished(0 if self._under_way else keep)
        for _, event in self._under_way[: max(len(self._under_way) - keep, 0)]:
            event.synchronize()
        ended = [event.query() for _, event in self._under_way]
        done += [batch for (batch, _), over in zip(self._under_way, ended, strict=True) if over]
        self._under_way = [entry for entry, over in zip(self._under_way, ended, strict=True) if not over]
        return done
