"""What the Boss's step costs: instances per second of its Trainer, fed from memory, against a hand-written loop.

Both train small_cnn on the same synthetic MNIST-sized uint8 batches, made before, with the same optimizer (fused SGD
with Nesterov's momentum), one-cycle schedule, batch size, threads and memory allocator, by turns in one process. The
loop is the fastest that one would write: it normalises the uint8 batch by one multiply and one add, in place, reads no
loss and reports none, and takes NaN as it comes. The Trainer copies the batch, as out of a slot that is filled again,
normalises it the same way, weighs, masks, checks, counts and reports.

With --floats the loop has its inputs as normalised floats instead, four times the memory. With --plain-allocator both
go without what the Boss sets in glibc (boss/allocator.py): the figures then show what that is worth.

    python -m benchmarks.boss [--pairs N] [--steps N] [--threads N] [--batch-sizes N ...] [--floats] [--plain-allocator]
"""

import argparse
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch.nn.functional import cross_entropy

from benchmarks.report import finish, median_interval
from boss.allocator import keep_freed_memory
from boss.config import BossConfig
from boss.models import small_cnn
from boss.outlet import LossOutlet
from boss.trainer import Trainer
from proto.batches import Batch
from proto.config import RunConfig
from proto.control import DataSpec

DISTINCT = 16
"""Batches that both go through again and again."""
BAR = 0.97


def data_spec(size: int, steps: int) -> DataSpec:
    return DataSpec(
        train_size=DISTINCT * size, validation_size=0, test_size=0, classes=10, class_names=(), input_shape=(1, 28, 28),
        input_dtype="uint8", mean=(0.1307,), std=(0.3081,), feature_dim=1, train_total=steps * size,
        train_batches=steps, max_batch=size,
    )  # fmt: skip


def make_batches(size: int, seed: int) -> list[Batch]:
    draw = np.random.default_rng(seed)
    return [
        Batch(
            kind="train", seq=seq, incarnation=0, slot=0, ids=np.arange(size), passes_of=np.zeros(size, np.int64),
            weights=np.ones(size, np.float32), version=0, version_step=0, passes=0, cursor=size, candidates=size,
            dropped=np.zeros(11, np.int64), last=False, arrays={
                "inputs": draw.integers(0, 256, (size, 1, 28, 28), dtype=np.uint8),
                "targets": draw.integers(0, 10, size),
            },
        )
        for seq in range(DISTINCT)
    ]  # fmt: skip


class Memory:
    """A stream of `steps` batches that are there already."""

    def __init__(self, batches: list[Batch], steps: int) -> None:
        self._batches, self._steps = batches, steps

    def __iter__(self) -> Iterator[Batch]:
        return (self._batches[step % DISTINCT] for step in range(self._steps))

    def release(self, batch: Batch) -> None: ...


class PlainLoop:
    """The hand-written loop."""

    def __init__(
        self, batches: list[Batch], spec: DataSpec, config: BossConfig, device: torch.device, *, floats: bool = False
    ) -> None:
        torch.manual_seed(0)
        self.factor, self.offset = 1 / (255 * spec.std[0]), -spec.mean[0] / spec.std[0]
        self.batches = [
            tuple(torch.tensor(batch.arrays[name]).to(device) for name in ("inputs", "targets")) for batch in batches
        ]
        if floats:
            self.batches = [(self.normalised(inputs), targets) for inputs, targets in self.batches]
        self.model = small_cnn(spec).to(device)
        self.optimizer = torch.optim.SGD(
            self.model.parameters(),
            config.lr,
            config.momentum,
            weight_decay=config.weight_decay,
            nesterov=True,
            fused=True,
        )
        self.schedule = torch.optim.lr_scheduler.OneCycleLR(
            self.optimizer, config.lr, total_steps=spec.train_batches + 1, cycle_momentum=False
        )

    def normalised(self, inputs: torch.Tensor) -> torch.Tensor:
        return inputs.float().mul_(self.factor).add_(self.offset) if inputs.dtype == torch.uint8 else inputs

    def run(self, steps: int) -> None:
        for step in range(steps):
            inputs, targets = self.batches[step % DISTINCT]
            loss = cross_entropy(self.model(self.normalised(inputs)), targets)
            self.optimizer.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            self.optimizer.step()
            self.schedule.step()


def timed(action: Any, *args: Any) -> float:
    """Seconds that `action(*args)` takes, with what it leaves to the GPU."""
    began = time.perf_counter()
    action(*args)
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - began


def measure(size: int, pairs: int, steps: int, seed: int, floats: bool) -> list[tuple[float, float]]:
    """Instances per second of Trainer and plain loop, in alternation; which of them is first alternates too."""
    spec, config = data_spec(size, (pairs + 1) * steps), BossConfig(model="small_cnn")
    batches = make_batches(size, seed)
    trainer = Trainer(RunConfig(seed=seed), config, spec)
    plain = PlainLoop(batches, spec, config, trainer.device, floats=floats)
    outlet, stream = LossOutlet(lambda report: True, 256), Memory(batches, steps)

    def ours() -> float:
        return timed(trainer.train, stream, outlet, lambda event, values: None)

    found = []
    for pair in range(pairs + 1):
        if pair % 2:
            mine, theirs = ours(), timed(plain.run, steps)
        else:
            theirs, mine = timed(plain.run, steps), ours()
        if pair:  # the first one warms up
            found.append((steps * size / mine, steps * size / theirs))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=31, help="alternating pairs to measure (31)")
    parser.add_argument("--steps", type=int, default=30, help="optimizer steps of each half of a pair (30)")
    parser.add_argument("--threads", type=int, default=0, help="CPU threads; 0: torch's own choice")
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=[64, 128], help="(64 128)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--floats", action="store_true", help="the loop has normalised floats in memory")
    parser.add_argument("--plain-allocator", action="store_true", help="both without the Boss's setting of glibc")
    args = parser.parse_args()
    if not args.plain_allocator:
        keep_freed_memory()
    if args.threads:
        torch.set_num_threads(args.threads)
    table = Table("batch size", "Trainer, instances/s", "plain loop, instances/s", "ratio", "90 % interval")
    figures: dict[str, Any] = {}
    ratios = {}
    for size in args.batch_sizes:
        pairs = measure(size, args.pairs, args.steps, args.seed, args.floats)
        ratio, low, high = median_interval([mine / theirs for mine, theirs in pairs])
        (mine, *_), (theirs, *_) = (median_interval(column) for column in zip(*pairs, strict=True))
        table.add_row(str(size), f"{mine:,.0f}", f"{theirs:,.0f}", f"{ratio:.3f}", f"{low:.3f} to {high:.3f}")
        ratios[size] = (ratio, low, high)
        figures |= {
            f"trainer_instances_per_s_{size}": round(mine, 1),
            f"plain_loop_instances_per_s_{size}": round(theirs, 1),
            f"ratio_interval_{size}": [round(low, 4), round(high, 4)],
        }
    Console().print(table)
    device = "gpu" if torch.cuda.is_available() else "cpu"
    worst = min(ratio for ratio, _, _ in ratios.values())
    finish(
        **{f"ratio_{device}_vs_plain_loop": round(worst, 4)},
        bar=BAR,
        bar_met=all(high >= BAR for _, _, high in ratios.values()),
        **figures,
        pairs=args.pairs,
        steps_per_half_pair=args.steps,
        threads=torch.get_num_threads(),
        loop_has="normalised floats" if args.floats else "uint8",
        allocator="plain" if args.plain_allocator else "keeps freed memory",
        seeds=[args.seed],
    )


if __name__ == "__main__":
    main()
