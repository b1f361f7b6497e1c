"""MNIST with 20 % wrong labels: accuracy of `assist` minus that of `uniform` at equal Boss epochs, paired by seed, and
how many of the 600 first suspects trained at least 6 times truly bear a wrong label.

    python -m benchmarks.wrong_labels --mnist FOLDER [--seeds 5] [--budget 4] [section.key=value ...]

Wrong labels are drawn once, uniformly among the other nine classes, in the training split only.
"""

import argparse
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from autoassist.compare.verdict import mean
from batcher.datasets.arrays import ArraySplit
from batcher.datasets.idx import mnist
from batcher.plugin import Data
from benchmarks.paired import run
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mnist", required=True, help="folder that holds MNIST/raw")
    parser.add_argument("--seeds", type=int, default=5, help="paired seeds (5)")
    parser.add_argument("--budget", type=float, default=4, help="Boss epochs (4)")
    parser.add_argument("words", nargs="*", help="section.key=value")
    args = parser.parse_args()
    words = ["data.name=benchmarks.wrong_labels:data", f"data.root={args.mnist}", "boss.lr=0.1"]
    table = Table("seed", "uniform", "assist", "kept fraction", "suspects", "listed", "wrong", title="test accuracy")
    points, shares = [], []
    for seed in range(args.seeds):
        accuracies = {}
        for policy in ("uniform", "assist"):
            words_here = [*words, f"run.budget={args.budget}", f"policy.name={policy}", *args.words]
            summary, suspects = run(seed, *words_here)
            accuracies[policy] = summary["test_accuracy"]
        points.append(100 * (accuracies["assist"] - accuracies["uniform"]))
        listed = [row for row in suspects if int(row["times_trained"]) >= VISITS][:FIRST]
        wrong = sum(row["description"] == "wrong" for row in listed)
        shares.append(wrong / max(len(listed), 1))
        kept = f"{summary['kept_fraction']:.3f}"
        counts = (str(count) for count in (len(suspects), len(listed), wrong))
        table.add_row(str(seed), *(f"{value:.4f}" for value in accuracies.values()), kept, *counts)
    Console().print(table)
    gain = mean(points)
    finish(
        accuracy_gain_points=gain.value,
        interval_points=[gain.low, gain.high],
        truly_wrong_share=min(shares),
        budget_boss_epochs=args.budget,
        seeds=list(range(args.seeds)),
    )


if __name__ == "__main__":
    main()
