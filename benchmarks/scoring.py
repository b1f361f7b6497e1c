"""CPU seconds of one core that one pass of choosing among 1.3 million candidates takes, in chunks of 1024.

Features are there already (256 of them each), the ledger is full, and the policy is asked as the Batcher asks it.

    python -m benchmarks.scoring [--policies ledger,assist,...]
"""

import argparse
import os
import time

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))

import numpy as np
from rich.console import Console
from rich.table import Table

from batcher.config import POLICIES, BatcherConfig, PolicyConfig
from batcher.core import BatcherCore
from batcher.plugin import Data
from benchmarks.memory import CHUNK, INSTANCES, Huge
from benchmarks.report import finish
from proto.config import RunConfig

TOGETHER = 1024
SEED = 0


def made(policy: str) -> BatcherCore:
    """A core under `policy`, with features known and the mean of a full ledger."""
    core = BatcherCore(RunConfig(), BatcherConfig(), PolicyConfig(name=policy), Data(Huge()), "huge")
    every, rng = np.arange(INSTANCES), np.random.default_rng(SEED)
    selector = core.selector
    for start in range(0, INSTANCES, CHUNK):
        ids = every[start : start + CHUNK]
        core.store.get(ids)
        selector.ledger.fold(ids, rng.gamma(0.5, 1, len(ids)).astype(np.float32), 1)
    selector.mean_loss, selector.untrained_loss, selector.version_step, selector.selecting = 0.5, 7.0, 2, True
    return core


def cpu_s(core: BatcherCore) -> float:
    """CPU seconds of one pass."""
    order = np.random.default_rng(SEED).permutation(INSTANCES)
    began = time.process_time()
    for start in range(0, INSTANCES, TOGETHER):
        core.selector.select(order[start : start + TOGETHER], 1, 10 * INSTANCES, 1)
    return time.process_time() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policies", default="ledger,assist", help=f"of {', '.join(POLICIES)} (ledger,assist)")
    args = parser.parse_args()
    figures = {policy: round(cpu_s(made(policy)), 2) for policy in args.policies.split(",")}
    table = Table("policy", "CPU seconds a pass")
    for policy, seconds in figures.items():
        table.add_row(policy, f"{seconds:.2f}")
    Console().print(table)
    finish(**{f"{policy}_cpu_s": seconds for policy, seconds in figures.items()}, candidates=INSTANCES, seeds=[SEED])


if __name__ == "__main__":
    main()
