"""One Boss epoch: what selecting within the first pass is worth, when no last loss is known of any instance.

Test loss under `uniform` minus test loss under `assist` (above 0: `assist` is better), paired by seed.

    python -m benchmarks.first_pass --mnist FOLDER --cifar10 FOLDER [--seeds 5] [section.key=value ...]

The folders hold MNIST/raw and cifar-10-batches-py.
"""

import argparse

from rich.console import Console
from rich.table import Table

from autoassist.compare.verdict import mean
from benchmarks.paired import run
from benchmarks.report import finish


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mnist", help="folder that holds MNIST/raw")
    parser.add_argument("--cifar10", help="folder that holds cifar-10-batches-py")
    parser.add_argument("--seeds", type=int, default=5, help="paired seeds (5)")
    parser.add_argument("words", nargs="*", help="section.key=value")
    args = parser.parse_args()
    data = {}
    if args.mnist:
        data["mnist"] = ["data.name=mnist", f"data.root={args.mnist}", "boss.lr=0.2"]
    if args.cifar10:
        data["cifar10"] = ["data.name=cifar10", f"data.root={args.cifar10}", "boss.lr=0.1"]
    figures: dict[str, float | list[float | None] | None] = {}
    table = Table("data set", "seed", "uniform", "assist", "kept fraction", title="test loss")
    for name, words in data.items():
        gains = []
        for seed in range(args.seeds):
            losses = {}
            for policy in ("uniform", "assist"):
                summary, _ = run(seed, *words, "run.budget=1", f"policy.name={policy}", *args.words)
                losses[policy] = summary["test_loss"]
            gains.append(losses["uniform"] - losses["assist"])
            kept = f"{summary['kept_fraction']:.3f}"
            table.add_row(name, str(seed), *(f"{loss:.4f}" for loss in losses.values()), kept)
        gain = mean(gains)
        figures |= {f"{name}_test_loss_gain": gain.value, f"{name}_interval": [gain.low, gain.high]}
    Console().print(table)
    finish(**figures, seeds=list(range(args.seeds)))


if __name__ == "__main__":
    main()
