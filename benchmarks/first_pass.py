"""One Boss epoch: what selecting within the first pass is worth, when no last loss is known of any instance.

Test loss under `uniform` minus test loss under `assist` (above 0: `assist` is better), paired by seed, with the 90 %
interval of their mean.

    python -m benchmarks.first_pass --mnist FOLDER --cifar10 FOLDER [--seeds N] [section.key=value ...]

The folders hold MNIST/raw and cifar-10-batches-py.
"""

from typing import Any

from rich.console import Console
from rich.table import Table

from autoassist.compare.verdict import difference
from benchmarks.comparison import ONE_CYCLE, arm_of, make, parser
from benchmarks.report import finish

WORDS = {"mnist": ("boss.lr=0.1",), "cifar10": ("boss.lr=0.1", "boss.flip=true", "boss.crop=4")}


def main() -> None:
    made = parser(__doc__, seeds=5, defaults=ONE_CYCLE)
    made.add_argument("--mnist", help="folder that holds MNIST/raw")
    made.add_argument("--cifar10", help="folder that holds cifar-10-batches-py")
    args = made.parse_intermixed_args()
    roots = {name: getattr(args, name) for name in WORDS if getattr(args, name)}
    if not roots:
        made.error("name a folder: --mnist FOLDER, --cifar10 FOLDER, or both")
    table = Table("data set", "seed", "uniform", "assist", "kept fraction", title="test loss")
    figures: dict[str, Any] = {}
    for name, root in roots.items():
        words = [*ONE_CYCLE, f"data.name={name}", f"data.root={root}", *WORDS[name]]
        results = make(f"first-pass-{name}", "assist", [1.0], words, args).results
        uniform, assist = (results.values(arm_of(results, arm, 1.0), "test_loss") for arm in ("uniform", "assist"))
        kept = results.values(arm_of(results, "assist", 1.0), "kept_fraction")
        for seed, *row in zip(results.plan.final_seeds, uniform, assist, kept, strict=True):
            table.add_row(name, str(seed), *(f"{value:.4f}" for value in row))
        gain = difference(uniform, assist)
        figures |= {f"{name}_test_loss_gain": gain.value, f"{name}_interval": [gain.low, gain.high]}
    Console().print(table)
    finish(**figures, seeds=results.plan.final_seeds)


if __name__ == "__main__":
    main()
