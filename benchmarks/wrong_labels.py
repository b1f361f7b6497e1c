"""MNIST with 20 % wrong labels: accuracy of `assist` minus that of `uniform` at equal Boss epochs, paired by seed, and
how many of the 600 first suspects trained at least 6 times truly bear a wrong label.

    python -m benchmarks.wrong_labels --mnist FOLDER [--seeds N] [--budget B] [section.key=value ...]

Wrong labels are drawn once, uniformly among the other nine classes, in the training split only.
"""

import csv
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from batcher.datasets.arrays import ArraySplit
from batcher.datasets.idx import mnist
from batcher.plugin import Data
from benchmarks.comparison import ONE_CYCLE, arm_of, make, parser, points
from benchmarks.report import finish
from proto.types import Bools, Int64s

SHARE, FIRST, VISITS = 0.2, 600, 6


def spoiled(labels: Int64s) -> tuple[Int64s, Bools]:
    """Labels of which a fifth is wrong, and which."""
    rng = np.random.default_rng(0)
    wrong = rng.random(len(labels)) < SHARE
    return np.where(wrong, (labels + rng.integers(1, 10, len(labels))) % 10, labels), wrong


class Spoiled(ArraySplit):
    """A split that says which of its labels are wrong."""

    def __init__(self, split: Any) -> None:
        labels, self.wrong = spoiled(split.targets)
        super().__init__(split.inputs, labels)

    def describe(self, index: int) -> str:
        return "wrong" if self.wrong[index] else "right"


def data(root: str) -> Data:
    """MNIST with wrong labels."""
    clean = mnist(root)
    return Data(Spoiled(clean.train), clean.test, class_names=clean.class_names, mean=clean.mean, std=clean.std)


def listed(folder: Path) -> tuple[int, int, int]:
    """Of the run in `folder`: suspects, those of the first that were trained often enough, and how many of these truly
    bear a wrong label."""
    with (folder / "suspects.csv").open(newline="") as file:
        suspects = list(csv.DictReader(file))
    first = [row for row in suspects if int(row["times_trained"]) >= VISITS][:FIRST]
    return len(suspects), len(first), sum(row["description"] == "wrong" for row in first)


def main() -> None:
    made = parser(__doc__, seeds=5, defaults=ONE_CYCLE)
    made.add_argument("--mnist", required=True, help="folder that holds MNIST/raw")
    made.add_argument("--budget", type=float, default=4.0, help="Boss epochs (4)")
    args = made.parse_intermixed_args()
    words = [*ONE_CYCLE, "data.name=benchmarks.wrong_labels:data", f"data.root={args.mnist}", "boss.lr=0.1"]
    found = make("wrong-labels", "assist", [args.budget], words, args)
    results, arm = found.results, arm_of(found.results, "assist", args.budget)
    counts = [listed(folder) for folder in found.folders[arm]]
    table = Table("seed", "suspects", "listed", "wrong", title=f"suspects trained at least {VISITS} times")
    for seed, row in zip(results.plan.final_seeds, counts, strict=True):
        table.add_row(str(seed), *map(str, row))
    Console().print(table)
    gain = results.level(arm)
    finish(
        accuracy_gain_points=None if gain.value is None else 100 * gain.value,
        interval_points=points(gain),
        truly_wrong_share=min(wrong / max(first, 1) for _, first, wrong in counts),
        budget_boss_epochs=args.budget,
        seeds=results.plan.final_seeds,
    )


if __name__ == "__main__":
    main()
