"""What a Batcher keeps in memory: for 1.3 million instances, over passes, and with a Boss that takes no batch.

- ledger and features of 1.3 million instances (ImageNet's number) with 256 features each, once all are known;
- growth of the resident size from the third pass to the last, over a small data set;
- resident size with batches of 10 MB and four slots that the Boss does not give back, beyond that before the stream.

    python -m benchmarks.memory [--passes N]
"""

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from batcher.config import BatcherConfig, PolicyConfig
from batcher.core import BatcherCore
from batcher.plugin import Data
from benchmarks.report import finish
from benchmarks.service import Service
from proto.config import RunConfig
from proto.ledger import Ledger

INSTANCES = 1_300_000
FEATURES = 256
LARGE_ROWS, LARGE_ROW = 32, (3, 324, 324)
"""A batch of 10 MB."""
CHUNK = 20_000
SEED = 0


def resident_mb(pid: int | str) -> float:
    """MB of process `pid` that are in memory, those it shares with others too."""
    line = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


class Huge:
    """1.3 million instances that take no memory themselves, and offer features."""

    def __len__(self) -> int:
        return INSTANCES

    def __getitem__(self, index: int) -> Any:
        return np.zeros((3, 4, 4), np.uint8), index % 1000

    def labels(self, ids: Any) -> Any:
        return ids % 1000

    def features(self, ids: Any) -> Any:
        return np.random.default_rng(int(ids[0])).random((len(ids), FEATURES), np.float32)


class Large:
    """Instances of which a batch has 10 MB, decoded one by one."""

    targets = np.zeros(4 * LARGE_ROWS, np.int64)

    def __len__(self) -> int:
        return len(self.targets)

    def __getitem__(self, index: int) -> Any:
        return np.full(LARGE_ROW, index, np.uint8), 0


def large() -> Data:
    return Data(Large(), class_names=["one"])


def huge_mb() -> float:
    """MB that ledger, features and everything else of a core cost for 1.3 million instances."""
    before = resident_mb("self")
    core = BatcherCore(RunConfig(), BatcherConfig(), PolicyConfig(), Data(Huge()), "huge")
    every = np.arange(INSTANCES)
    for start in range(0, INSTANCES, CHUNK):
        ids = every[start : start + CHUNK]
        core.store.get(ids)
        ledger = Ledger(len(ids))
        ledger.fold(np.arange(len(ids)), np.ones(len(ids), np.float32), 1)
        core.selector.ledger.apply({"ids": ids, **ledger.take(np.arange(len(ids)))})
    return resident_mb("self") - before


def growth_mb(passes: int) -> float:
    """MB by which a Batcher grows from its third pass to pass `passes`."""
    service = Service(["data.name=digits", "run.budget=1000000", "batcher.batch_size=64", "policy.name=uniform"])
    try:
        first = 0.0
        while True:
            at = service.next(np.asarray).passes
            first = first or (resident_mb(service.process.pid) if at == 3 else 0.0)
            if at >= passes:
                return resident_mb(service.process.pid) - first
    finally:
        service.close()


def slow_boss_mb(workers: int) -> float:
    """MB by which a Batcher grows when all slots are filled and none comes back."""
    words = ["data.name=benchmarks.memory:large", f"batcher.batch_size={LARGE_ROWS}", f"batcher.workers={workers}"]
    service = Service([*words, "run.budget=1000000", "policy.name=uniform"])
    try:
        before = resident_mb(service.process.pid)
        time.sleep(5)
        return resident_mb(service.process.pid) - before
    finally:
        service.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--passes", type=int, default=300, help="passes over the small data set (300)")
    args = parser.parse_args()
    figures = {
        "huge_mb": round(huge_mb(), 1),
        f"growth_mb_in_{args.passes}_passes": round(growth_mb(args.passes), 1),
        "slow_boss_mb": round(slow_boss_mb(0), 1),
        "slow_boss_with_2_workers_mb": round(slow_boss_mb(2), 1),
    }
    table = Table("what", "MB")
    for name, value in figures.items():
        table.add_row(name.removesuffix("_mb").replace("_", " "), f"{value:,}")
    Console().print(table)
    finish(**figures, batch_mb=round(LARGE_ROWS * int(np.prod(LARGE_ROW)) / 1e6, 1), slots=4, seeds=[SEED])


if __name__ == "__main__":
    main()
