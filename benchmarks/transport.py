"""How fast batches get from one process to another: slots against a DataLoader with one worker, frames, and memcpy.

The producer gathers rows from an array larger than the caches, the consumer adds up every byte. memcpy is what nothing
can beat: one process copies the same number of bytes, from as much memory, into as many buffers as there are slots.

The DataLoader has a batch sampler and the forms that torch documents: items and the default collation ("items"), or
whole batches by `__getitems__` and no collation ("batches"). `ratio_slots_vs_dataloader` is against the faster of them.
A third form ("in place") gathers whole batches straight into the shared memory they travel in, with functions of torch
that are private; `ratio_slots_vs_dataloader_in_place` is against that.

    python -m benchmarks.transport [--pairs N] [--seconds S]
"""

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import zmq
from rich.console import Console
from rich.table import Table
from torch.utils.data import DataLoader, Dataset, Sampler, default_collate

from batcher.datasets.arrays import ArraySplit
from benchmarks.report import alternate, finish, median_interval
from proto.batches import Batch, Credit, Open
from proto.codec import Codec
from proto.slot_receiver import SlotReceiver
from proto.slot_sender import SlotSender
from proto.slots import Layout, slot_size
from proto.sockets import Port, make_socket_dir
from proto.transport import Carrier, FrameCarrier, Outbound

ROWS = 256
SIZES = {"0.4": 1_568, "1.5": 5_880, "38": 150_528}
"""MB of a batch -> bytes of a row."""
SLOTS = 4
SOURCE_BYTES = 512 << 20
SEED = 0


def source(row_bytes: int) -> ArraySplit:
    """Rows of random bytes, in all `SOURCE_BYTES`."""
    rows = SOURCE_BYTES // row_bytes
    inputs = np.random.default_rng(SEED).integers(0, 255, (rows, row_bytes), np.uint8)
    return ArraySplit(inputs, np.zeros(rows, np.int64))


def layout_of(row_bytes: int) -> Layout:
    return {"inputs": ((ROWS, row_bytes), np.dtype(np.uint8)), "targets": ((ROWS,), np.dtype(np.int64))}


def index_batches(rows: int, seed: int) -> Iterator[np.ndarray[Any, np.dtype[np.int64]]]:
    """Batches of row numbers, shuffled anew each time all were used."""
    rng = np.random.default_rng(seed)
    while True:
        order = rng.permutation(rows)
        yield from order[: rows - rows % ROWS].reshape(-1, ROWS)


def read(array: np.ndarray[Any, Any]) -> int:
    """Reads every byte."""
    return int(array.reshape(-1).view(np.uint64).sum())


# -- arms: each gives the next batch's bytes, read


class Service:
    """A producer process and a carrier to it, as Batcher and Boss use them."""

    def __init__(self, name: str, row_bytes: int) -> None:
        self.folder, self.context = make_socket_dir(), zmq.Context()
        command = [sys.executable, "-m", "benchmarks.transport", "--produce", name, str(row_bytes), str(self.folder)]
        self.producer = subprocess.Popen(command, stdin=subprocess.PIPE)
        self.port = Port(self.context, "batches", "boss", self.folder, Codec("benchmark"))
        layout = layout_of(row_bytes)
        self.carrier: Carrier = (
            SlotReceiver(self.port, SLOTS, slot_size(layout, 0)) if name == "slots" else FrameCarrier(self.port)
        )
        self.carrier.open(Open(incarnation=0, rank=0, slots=SLOTS, eval_every=0.0))
        self._arrived: list[Batch] = []

    def __call__(self) -> int:
        while not self._arrived:
            self._arrived = [message for message in self.carrier.receive() if isinstance(message, Batch)][::-1]
            if not self._arrived:
                self.port.socket.poll(1000)
        batch = self._arrived.pop()
        inputs = batch.arrays["inputs"]
        read(inputs)
        self.carrier.release(batch)
        return inputs.nbytes

    def close(self) -> None:
        if isinstance(self.carrier, SlotReceiver):
            self.carrier.close()
        self.producer.communicate()  # closing its stdin ends it
        self.port.close()
        self.context.term()
        shutil.rmtree(self.folder, ignore_errors=True)


def produce(name: str, row_bytes: int, folder: Path) -> None:
    """The other end of `Service`: fills a slot for every credit until stdin is closed."""
    split = source(row_bytes)
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    port = Port(context, "batches", "batcher", folder, Codec("benchmark"))
    carrier: Outbound = SlotSender(port) if name == "slots" else FrameCarrier(port)
    poller = zmq.Poller()
    poller.register(port.socket, zmq.POLLIN)
    poller.register(sys.stdin.fileno(), zmq.POLLIN)
    layout = layout_of(row_bytes)
    batches, seq, free = index_batches(len(split), SEED), 0, list[int]()
    weights, passes_of, nobody = np.ones(ROWS, np.float32), np.zeros(ROWS, np.int64), np.zeros(1, np.int64)
    while True:
        for message in carrier.receive():
            match message:
                case Open():
                    free = list(range(message.slots))
                case Credit():
                    free.append(message.slot)
        if not free:
            if sys.stdin.fileno() in dict(poller.poll()):
                break
            continue
        slot, ids = free.pop(0), next(batches)
        arrays = carrier.lend(slot, layout)
        split.fill(ids, arrays)
        batch = Batch(
            kind="train", seq=seq, incarnation=0, slot=slot, ids=ids, passes_of=passes_of, weights=weights, version=0,
            version_step=0, passes=0, cursor=seq, candidates=ROWS, dropped=nobody, last=False, arrays=arrays,
        )  # fmt: skip
        carrier.send(batch, "boss")
        seq += 1
    port.close()
    context.term()


class Items(Dataset[torch.Tensor]):
    """Gives rows one by one."""

    def __init__(self, inputs: torch.Tensor) -> None:
        self.inputs = inputs

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.inputs[index]


class Gathered(Items):
    """Gives a batch at once."""

    def __getitems__(self, ids: Any) -> torch.Tensor:
        return self.inputs[ids]


class InPlace(Items):
    """Gives a batch at once, gathered straight into shared memory, which torch's own collation does with items."""

    def __getitems__(self, ids: Any) -> torch.Tensor:
        shape = (len(ids), self.inputs.shape[1])
        memory = self.inputs.untyped_storage()._new_shared(shape[0] * shape[1])  # type: ignore[no-untyped-call]
        out = self.inputs.new(memory).resize_(shape)
        return torch.index_select(self.inputs, 0, torch.from_numpy(ids), out=out)


class Batches(Sampler[Any]):
    """`index_batches` as a batch sampler."""

    def __init__(self, rows: int) -> None:
        self.rows = rows

    def __iter__(self) -> Iterator[Any]:
        yield from index_batches(self.rows, SEED)


FORMS = {"dataloader_items": Items, "dataloader_batches": Gathered, "dataloader_in_place": InPlace}
DOCUMENTED = ("dataloader_items", "dataloader_batches")


def as_it_is(batch: Any) -> Any:
    return batch


class Loader:
    """A torch DataLoader with one worker."""

    def __init__(self, split: ArraySplit, form: type[Items]) -> None:
        self._loader = DataLoader(
            form(torch.from_numpy(split.inputs)),
            batch_sampler=Batches(len(split)),
            num_workers=1,
            prefetch_factor=SLOTS,
            collate_fn=default_collate if form is Items else as_it_is,
        )
        self._batches = iter(self._loader)

    def __call__(self) -> int:
        batch: torch.Tensor = next(self._batches)
        read(batch.numpy())
        return batch.nbytes

    def close(self) -> None:
        del self._batches


class Memcpy:
    """Copies, in one process, from as much memory into as many buffers."""

    def __init__(self, split: ArraySplit) -> None:
        whole = split.inputs.reshape(-1)
        size = split.inputs.shape[1] * ROWS
        self._parts = whole[: len(whole) - len(whole) % size].reshape(-1, size)
        self._buffers = np.zeros((SLOTS, size), np.uint8)
        self._next = 0

    def __call__(self) -> int:
        part, self._next = self._parts[self._next % len(self._parts)], self._next + 1
        np.copyto(self._buffers[self._next % SLOTS], part)
        return int(part.nbytes)

    def close(self) -> None:
        pass


def measure(row_bytes: int, pairs: int, seconds: float) -> dict[str, list[float]]:
    """GB/s of every arm, in `pairs` alternating rounds."""
    split = source(row_bytes)
    arms: dict[str, Any] = {name: Loader(split, form) for name, form in FORMS.items()}
    arms |= {"memcpy": Memcpy(split)}
    arms |= {name: Service(name, row_bytes) for name in ("slots", "frames")}
    found = alternate(arms, pairs, seconds, 2 * SLOTS)
    return {name: [rate / 1e9 for rate in rates] for name, rates in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=15, help="alternating rounds to measure (15)")
    parser.add_argument("--seconds", type=float, default=0.5, help="length of one measurement (0.5)")
    parser.add_argument("--produce", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.produce:
        produce(args.produce[0], int(args.produce[1]), Path(args.produce[2]))
        return
    torch.set_num_threads(1)
    os.environ |= {"OMP_NUM_THREADS": "1"}
    others = ("dataloader", "dataloader_in_place", "frames", "memcpy")
    table = Table("batch, MB", "slots, GB/s", *(name.replace("_", " ") for name in others))
    figures: dict[str, Any] = {}
    for size, row_bytes in SIZES.items():
        found = measure(row_bytes, args.pairs, args.seconds)
        best = max(DOCUMENTED, key=lambda name: median_interval(found[name])[0])
        figures[f"best_dataloader_{size}_mb"] = best
        row = []
        for other in others:
            rates = found[best if other == "dataloader" else other]
            middle, low, high = median_interval([a / b for a, b in zip(found["slots"], rates, strict=True)])
            figures[f"ratio_slots_vs_{other}_{size}_mb"] = round(middle, 3)
            figures[f"ratio_interval_slots_vs_{other}_{size}_mb"] = [round(low, 3), round(high, 3)]
            row.append(f"{median_interval(rates)[0]:.2f}\n{middle:.2f} x ({low:.2f} to {high:.2f})")
        figures |= {f"{name}_gb_per_s_{size}_mb": [round(v, 3) for v in values] for name, values in found.items()}
        table.add_row(size, f"{median_interval(found['slots'])[0]:.2f}", *row)
    Console().print(table)
    finish(
        ratio_slots_vs_dataloader=figures["ratio_slots_vs_dataloader_1.5_mb"],
        ratio_slots_vs_dataloader_in_place=figures["ratio_slots_vs_dataloader_in_place_1.5_mb"],
        ratio_slots_vs_memcpy=figures["ratio_slots_vs_memcpy_38_mb"],
        **figures,
        seeds=[SEED],
    )


if __name__ == "__main__":
    main()
