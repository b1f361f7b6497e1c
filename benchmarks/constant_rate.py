"""MNIST at a constant rate: Boss epochs until the first of three successive evaluations above an accuracy.

Two goals: `assist` to 99.0 % and the paper's `autoassist` to 98.8 %, each against uniform to the same. Ratios are
geometric means over paired seeds, with Student's 90 % interval of their logarithms. The test split is evaluated all
along: this draws a curve and chooses nothing. A run that does not get there in its budget leaves the ratio unmeasured.

    python -m benchmarks.constant_rate data.root=FOLDER [--budget B] [--seeds N] [--goals POLICY=ACCURACY,...]
"""

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from autoassist.compare.verdict import NOTHING, geometric
from benchmarks.comparison import arm_of, make, parser
from benchmarks.report import finish

WORDS = [
    "data.name=mnist", "boss.model=small_cnn", "boss.args.batch_norm=true", "boss.schedule=constant", "boss.lr=0.01",
    "batcher.batch_size=64", "boss.eval_every=0.1", "run.serial=true",
]  # fmt: skip
BARS = {"assist": 0.65, "autoassist": 0.9}
IN_A_ROW = 3


def reached(evaluations: Sequence[dict[str, Any]], goal: float) -> float | None:
    """Boss epochs at the first of `IN_A_ROW` successive evaluations with a test accuracy above `goal`, or None."""
    above = [one["test_accuracy"] > goal for one in evaluations]
    for k in range(len(above) - IN_A_ROW + 1):
        if all(above[k : k + IN_A_ROW]):
            return float(evaluations[k]["boss_epochs"])
    return None


def main() -> None:
    made = parser(__doc__, seeds=5, defaults=WORDS)
    made.add_argument("--budget", type=float, default=8.0, help="Boss epochs of each run (8)")
    made.add_argument("--goals", default="assist=0.99,autoassist=0.988", help="(assist=0.99,autoassist=0.988)")
    args = made.parse_intermixed_args()
    goals = {policy: float(goal) for policy, _, goal in (text.partition("=") for text in args.goals.split(","))}
    found = make("constant-rate", ",".join(goals), [args.budget], WORDS, args, test="always")
    table = Table("policy", "accuracy above", "Boss epochs", "of uniform", "ratio", "90 % interval")
    figures: dict[str, Any] = {}
    for policy, goal in goals.items():
        lines = [found.lines(arm_of(found.results, name, args.budget), "eval") for name in (policy, "uniform")]
        mine, theirs = ([reached(run, goal) for run in runs] for runs in lines)
        pairs = [(a, b) for a, b in zip(mine, theirs, strict=True) if a is not None and b is not None]
        ratio = geometric([a / b for a, b in pairs]) if len(pairs) == len(mine) else NOTHING
        interval = None if ratio.low is None or ratio.high is None else [round(ratio.low, 4), round(ratio.high, 4)]
        value = None if ratio.value is None else round(ratio.value, 4)
        table.add_row(policy, f"{goal:.2%}", _shown(mine), _shown(theirs), str(value), str(interval))
        figures |= {
            f"ratio_boss_epochs_{policy}": value,
            f"ratio_interval_{policy}": interval,
            f"accuracy_{policy}": goal,
            f"boss_epochs_{policy}": mine,
            f"boss_epochs_uniform_to_{goal}": theirs,
        }
        if policy in BARS:
            figures |= {
                f"bar_{policy}": BARS[policy],
                f"bar_met_{policy}": value is not None and value <= BARS[policy],
            }
    Console().print(table)
    finish(**figures, budget=args.budget, seeds=found.results.plan.final_seeds)


def _shown(epochs: Sequence[float | None]) -> str:
    return ", ".join("never" if one is None else f"{one:.1f}" for one in epochs)


if __name__ == "__main__":
    main()
