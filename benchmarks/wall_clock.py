"""MNIST: wall-clock to equal accuracy, a policy in three processes against the fastest plain PyTorch loop.

The loop is the best of tensors in memory and DataLoaders with 0, 1 and 2 workers, with as many threads in all, tuned
over the same rates; its budgets bracket what the policy reaches. The ratio is the policy's seconds from first to last
step over those the loop needs for the same accuracy, by interpolation between its budgets; three-process uniform stands
beside it, so that the service's own cost shows.

    python -m benchmarks.wall_clock data.root=FOLDER [--policy P] [--budget B] [--seeds N] [section.key=value ...]
"""

from typing import Any

from autoassist.compare.arms import PLAIN
from autoassist.compare.verdict import Estimate
from benchmarks.comparison import arm_of, make, parser, tuning
from benchmarks.report import finish

WORDS = [
    "data.name=mnist", "boss.model=small_cnn", "boss.args.batch_norm=true", "boss.schedule=one_cycle",
    "batcher.batch_size=128",
]  # fmt: skip
BAR = 0.8


def main() -> None:
    made = parser(__doc__, seeds=3, defaults=WORDS)
    tuning(made, "0.05,0.1,0.2")
    made.add_argument("--policy", default="assist", help="(assist)")
    made.add_argument("--budget", type=float, default=2.2, help="Boss epochs of the policy (2.2)")
    made.add_argument("--baseline", default="1.5,4.0,6.0", help="further Boss epochs of the baselines (1.5,4.0,6.0)")
    args = made.parse_intermixed_args()
    name = args.policy.rpartition(":")[2]
    further = ",".join(f"uniform@{budget}" for budget in args.baseline.split(","))
    results = make(
        f"wall-clock-{name}", f"{args.policy}@{args.budget!r},{further}", [], WORDS, args, plain=True
    ).results
    arm = arm_of(results, name, args.budget)
    uniform = arm_of(results, "uniform", args.budget)
    ratio = results.wall(arm, PLAIN)
    finish(
        ratio_wall_clock=_rounded(ratio.value),
        ratio_interval=_interval(ratio),
        bar=BAR,
        bar_met=ratio.value is not None and ratio.value <= BAR,
        ratio_wall_clock_to_uniform=_rounded(results.wall(arm).value),
        ratio_wall_clock_uniform_to_plain=_rounded(results.wall(uniform, PLAIN).value),
        ratio_boss_epochs=_rounded(results.verdict(arm).ratio.value),
        plain_loop=results.plan.launches[PLAIN][0],
        policy=args.policy,
        boss_epochs=args.budget,
        train_s={one.label: [round(value, 2) for value in results.values(one, "train_s")] for one in results.plan.arms},
        seeds=results.plan.final_seeds,
    )


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def _interval(estimate: Estimate) -> list[Any] | None:
    return None if estimate.low is None else [_rounded(estimate.low), _rounded(estimate.high)]


if __name__ == "__main__":
    main()
