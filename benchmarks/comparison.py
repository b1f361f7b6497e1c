"""What the benchmarks of policies share: a comparison made by the machinery of `autoassist compare`, as its user would.

Its runs are kept in a folder (--folder), and the same command goes on with those that are missing.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from autoassist.compare.arms import Arm, parse_arms, parse_grid
from autoassist.compare.command import Made, run, tune_fraction, write
from autoassist.compare.plan import Plan
from autoassist.compare.results import Results
from autoassist.compare.verdict import Estimate, difference
from autoassist.config import load
from autoassist.sweep import Stopped
from benchmarks.report import finish
from proto.errors import ConfigError

ONE_CYCLE = (
    "run.serial=true", "batcher.batch_size=128", "boss.model=small_cnn", "boss.args={batch_norm=true}",
    "boss.schedule=one_cycle", "boss.momentum=0.9", "boss.nesterov=true", "boss.weight_decay=5e-4",
)  # fmt: skip
"""Small CNN with batch norm, one-cycle, Nesterov's momentum: what a benchmark without a grid trains with."""


def parser(doc: str | None, *, seeds: int, defaults: Sequence[str]) -> argparse.ArgumentParser:
    """Options that all have; `defaults` are overrides that come before the user's."""
    made = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--seeds", type=int, default=seeds, help=f"paired seeds ({seeds})")
    made.add_argument("--folder", default="runs", help="where the comparison's folder is made (runs)")
    shown = " ".join(defaults)
    made.add_argument("words", nargs="*", metavar="section.key=value", help=f"overrides, after: {shown}")
    return made


def tuning(made: argparse.ArgumentParser, rates: str) -> None:
    made.add_argument(
        "--rates", default=rates, help=f"values of boss.lr that all arms are tuned over ({rates}); one: all's"
    )
    made.add_argument("--tune-seeds", type=int, default=1, help="tuning runs of each rate (1)")


def make(
    name: str, policies: str, budgets: Sequence[float], words: Sequence[str], args: Any, *, plain: bool = False,
    **changes: Any,
) -> Made:  # fmt: skip
    """Makes the comparison `name` and shows its tables. Ends the process for what the user can mend or has stopped."""
    console = Console()
    try:
        rates = [f"boss.lr={args.rates}"] if "rates" in args else []
        grid = parse_grid(rates)
        fixed = grid[0] if len(grid) == 1 else ()
        settings = load(None, [*words, *fixed, *args.words, f"run.dir={args.folder}", f"run.name={name}"])
        plan = Plan(settings, parse_arms(policies, list(budgets)), args.seeds, grid, **changes)
        if plan.tuned:
            fraction = tune_fraction(settings)
            plan = replace(plan, tune_seeds=args.tune_seeds, tune_val_fraction=fraction)
        folder = Path(args.folder) / name
        made = run(plan, folder, console, plain)
    except ConfigError as error:
        print(f"{name}: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    except Stopped as stopped:
        raise SystemExit(stopped.code) from None
    write(made, folder, None, console)
    return made


def arm_of(results: Results, name: str, budget: float) -> Arm:
    return next(arm for arm in results.plan.arms if (arm.name, arm.budget) == (name, budget))


def points(estimate: Estimate) -> list[float] | None:
    """The interval in percentage points."""
    if estimate.low is None or estimate.high is None:
        return None
    return [round(100 * estimate.low, 3), round(100 * estimate.high, 3)]


def against_more_budget(doc: str | None, name: str, words: Sequence[str], options: dict[str, Any]) -> None:
    """A benchmark of a policy with a share of the budget against uniform with all of it.

    `options`: defaults of `seeds`, `budget`, `share`, `rates`, and the `bar` of the lower bound, in points.
    """
    made = parser(doc, seeds=options["seeds"], defaults=words)
    tuning(made, options["rates"])
    made.add_argument("--policy", default="assist", help="(assist)")
    made.add_argument(
        "--budget", type=float, default=options["budget"], help=f"Boss epochs of uniform ({options['budget']:g})"
    )
    made.add_argument(
        "--share", type=float, default=options["share"], help=f"of it that the policy has ({options['share']:g})"
    )
    args = made.parse_intermixed_args()
    less = round(args.budget * args.share, 6)
    arms = f"{args.policy}@{less!r},uniform@{args.budget!r}"
    results = make(f"{name}-{args.policy.rpartition(':')[2]}", arms, [], words, args).results
    policy = args.policy.rpartition(":")[2]
    mine = results.accuracies(arm_of(results, policy, less))
    level = difference(mine, results.accuracies(arm_of(results, "uniform", less)))
    apart = difference(mine, results.accuracies(arm_of(results, "uniform", args.budget)))
    interval = points(apart)
    above = None if level.value is None else round(100 * level.value, 3)
    finish(
        lower_bound_points=None if interval is None else interval[0],
        mean_above_uniform_points=above,
        minus_uniform_at_full_budget_points=None if apart.value is None else round(100 * apart.value, 3),
        interval_points=interval,
        above_uniform_interval_points=points(level),
        bar=options["bar"],
        bar_met=interval is not None and interval[0] >= options["bar"] and above is not None and above > 0,
        policy=args.policy,
        boss_epochs_policy=less,
        boss_epochs_uniform=args.budget,
        chosen={arm.label: list(words) for arm, words in results.chosen.items()},
        seeds=results.plan.final_seeds,
    )
