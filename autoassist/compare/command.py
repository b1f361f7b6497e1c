"""`autoassist compare`: makes the runs of a plan, and writes what came of them."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from autoassist.compare.arms import Arm, Words
from autoassist.compare.plan import VAL_FRACTION, Plan
from autoassist.compare.results import Results
from autoassist.compare.tables import facts_of, figures, report
from autoassist.config import Settings
from autoassist.rundir import sweep_folder
from autoassist.sweep import FAILED, Run, Stopped, Summary, Sweep
from batcher.policies import make_policy
from proto.errors import ConfigError


@dataclass(frozen=True)
class Made:
    """The runs of a comparison. `lines(arm, event)` are those of metrics.jsonl, of each run of an arm; `folders` are
    the run directories, of each arm one a seed."""

    results: Results
    lines: Callable[[Arm, str], list[list[dict[str, Any]]]]
    folders: Mapping[Arm, Sequence[Path]]


def compare(plan: Plan, target: float | None, console: Console, against_plain: bool = False) -> int:
    """Makes what is missing of the plan's runs and writes compare.json, compare.md and the plots; the exit code.

    Goes on where it was interrupted. Raises ConfigError before any run for what cannot be.
    """
    folder = sweep_folder(plan.settings, "compare")
    try:
        write(run(plan, folder, console, against_plain), folder, target, console)
    except Stopped as stopped:
        others = "; without the arm of the run that failed it compares the others" if stopped.code == FAILED else ""
        console.print(f"the same command goes on from here{others}", highlight=False)
        return stopped.code
    except OSError as error:
        raise ConfigError("run.dir", str(folder), f"{error}; the same command goes on once that is mended") from error
    return 0


def write(made: Made, folder: Path, target: float | None, console: Console) -> None:
    """Writes tables and plots of what was made into `folder`, and shows the tables."""
    from autoassist.compare import plots

    results = made.results
    device = results.runs[results.plan.arms[0]][0]["device"]
    found, facts = figures(results, target), facts_of(results.plan, device)
    written = report(results, found, facts)
    written.write(folder, "compare", found)
    plots.draw(results, made.lines, folder, target)
    written.show(console)
    console.print(f"tables and plots: {folder}", highlight=False, soft_wrap=True)


def tune_fraction(settings: Settings) -> float:
    """`data.val_fraction` for tuning: as configured; where that gives no validation split, a tenth.

    Raises ConfigError for a stream without a validation split, of which none can be cut off.
    """
    from batcher import plugin

    data = plugin.load(settings.data)
    if data.validation is not None:
        return settings.data.val_fraction
    if plugin.is_stream(data.train):
        problem = "is a stream without a validation split, which --tune needs; give it one"
        raise ConfigError("data.name", settings.data.name, problem)
    return VAL_FRACTION


def check_data(settings: Settings) -> None:
    """Raises ConfigError where no test accuracy can be measured, by which arms are compared."""
    from batcher import plugin
    from batcher.look import look

    name, needs = settings.data.name, "policies are compared by test accuracy"
    data = plugin.load(settings.data.model_copy(update={"test": "end"}))
    if data.test is None:
        raise ConfigError("data.name", name, f"has no test split; {needs}: give it one")
    if not look(data.test, name).numbered:
        raise ConfigError("data.name", name, f"its labels are no class numbers; {needs}, and this has none")


def check_policies(plan: Plan) -> None:
    """Raises ConfigError for a policy of `plan` that does not take the arguments it would be given."""
    runs = [run for *_, run in plan.tuning()] + [run for _, run in plan.final({})]
    made = {run.settings.policy.model_dump_json(): run.settings.policy for run in runs}
    for policy in made.values():
        make_policy(policy)


def run(plan: Plan, folder: Path, console: Console, against_plain: bool = False) -> Made:
    """Makes what is missing of the plan's runs: tuning, then those that count. Raises Stopped, ConfigError."""
    plan.check()
    check_data(plan.settings)
    check_policies(plan)
    with Sweep.open(folder, console) as sweep:
        if against_plain:
            from autoassist.compare.plain import with_plain

            plan = with_plain(plan, sweep)
        tuned = plan.tuning() if plan.tuned else []
        counting = plan.final({})
        known = [one for _, _, one in tuned] or [one for _, one in counting]
        # Those that count are known by name alone before tuning has chosen.
        sweep.left = sum(
            [not sweep.done(one) for one in known] + [not sweep.has(one.name) for _, one in counting if tuned]
        )
        tuning = f" and {len(tuned)} to tune them" if tuned else ""
        text = f"{len(counting)} runs of {len(plan.arms)} arms{tuning}, {sweep.left} still to be made: {folder}"
        console.print(text, highlight=False, soft_wrap=True)
        chosen = best(tuned, sweep.make)
        made: dict[Arm, list[Run]] = {arm: [] for arm in plan.arms}
        for arm, one in plan.final(chosen):
            sweep.make(one)
            made[arm].append(one)
        runs = {arm: [sweep.make(one) for one in ones] for arm, ones in made.items()}

        def lines(arm: Arm, event: str) -> list[list[dict[str, Any]]]:
            return [sweep.metrics(one, event) for one in made[arm]]

        folders = {arm: [folder / one.name for one in ones] for arm, ones in made.items()}
        failed = [one.name for _, _, one in tuned if not sweep.has(one.name)]
        return Made(Results(plan, chosen, runs, failed), lines, folders)


def best(tuned: Sequence[tuple[Arm, Words, Run]], make: Callable[[Run], Summary]) -> dict[Arm, Words]:
    """The combination with the best mean validation accuracy for each arm; of equal ones the first.

    A run that fails, as one with too large a rate does, has none. Raises Stopped when all of an arm do.
    """
    scores: dict[Arm, dict[Words, float]] = {}
    for arm, words, one in tuned:
        try:
            accuracy = float(make(one)["validation_accuracy"])
        except Stopped as stopped:
            if stopped.code != FAILED:
                raise
            accuracy = -math.inf
        found = scores.setdefault(arm, {})
        found[words] = found.get(words, 0.0) + accuracy
    chosen = {arm: max(found, key=lambda words: found[words]) for arm, found in scores.items()}
    if any(scores[arm][words] == -math.inf for arm, words in chosen.items()):
        raise Stopped(FAILED)
    return chosen
