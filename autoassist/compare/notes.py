"""What is said below the tables of a comparison: how runs were made, how to read them, and what went wrong. Pure."""

import itertools
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from assistant.gate import BEGINS
from autoassist.compare.arms import BASELINE, OWN, PLAIN, Words
from autoassist.compare.results import Results
from batcher.config import PolicyConfig

FEW_CLASSES = 20
"""Among more, a class that is never told right is nothing unusual."""
MANY = 4
"""Arms of which one may well show a gain by chance."""
INTERVALS = (
    "In brackets: 90 % intervals, paired by seed (Student's t). They say what other seeds would give on this test "
    "split; another test split may say something else, above all a small one."
)
RATIOS = (
    "Boss epochs / uniform's: the arm's budget over what uniform needs for the same accuracy. Below 1 is a gain; where "
    "the interval contains 1 there is no gain; where uniform's budgets do not bracket the accuracy it is not measured."
)
MISHAPS = {
    "restarts": "Workers were restarted in",
    "instances_skipped": "Instances were skipped, since they could not be read, in",
    "losses_quarantined": "Losses were not finite, and left out, in",
    "batches_uniform": "Batches had everything kept, since the Assistant was too late, in",
}
"""Keys of a summary, and what they mean for a comparison."""


def notes_of(results: Results) -> list[str]:
    """How the runs were made, and how to read what came of them."""
    plan = results.plan
    notes = [INTERVALS if plan.seeds > 1 else "One seed has no interval, and so no verdict.", RATIOS]
    if plan.test == "end":
        notes.append("The test split was evaluated once a run, at its end.")
    if plan.tuned:
        split = "the validation split"
        if plan.tune_val_fraction != plan.settings.data.val_fraction:
            split = (
                f"{plan.tune_val_fraction:.0%} of the training split, cut off for these runs only: those that count "
                "train on all of it"
            )
        own = any(word.startswith(OWN) for words in plan.grid for word in words)
        where = ", where it has such keys and does not set them itself," if own else ""
        seeds = "a seed of its own" if plan.tune_seeds == 1 else f"{plan.tune_seeds} seeds of its own"
        notes.append(
            f"Tuning: each arm at each budget tried {_grid_text(plan.grid)}{where} with {seeds} and took the best "
            f"accuracy on {split}. No tuning run saw the test split."
        )
    else:
        notes.append("Nothing was tuned: what suits one arm may not suit another.")
    theirs = plan.settings.policy
    if theirs != PolicyConfig(name=theirs.name) and all(arm.policy != theirs.name for arm in plan.arms):
        notes.append(
            f"The [policy] section of the configuration is for {theirs.name}, which is no arm here: it had no effect."
        )
    judged = sum(arm.name not in (BASELINE, PLAIN) for arm in plan.arms)
    if judged >= MANY and plan.seeds > 1:
        notes.append(
            f"{judged} arms were judged. Of arms that are no better than uniform one in twenty, or so, shows a gain by "
            "chance: where one of many does, try it again with other seeds (run.seed, run.name)."
        )
    if not results.timed:
        notes.append("Serial runs, all in one process: wall-clock, and CPU seconds of each process, are not measured.")
    if plan.arms_called(PLAIN):
        form = plan.launches[PLAIN][0]
        notes.append(f"dataloader: a plain PyTorch loop, {form}, the fastest of those that were tried.")
    return notes


def warnings_of(results: Results, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """What keeps these runs from showing more, or should be looked into."""
    return [
        *_unbracketed(rows) * (results.plan.seeds > 1),
        *_edges(results),
        *_idle(results),
        *_blind(rows),
        *_mishaps(results),
    ]


def _unbracketed(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Which arms have no ratio, and what would give them one."""
    found: dict[str, list[str]] = {}
    for row in rows:
        if row.get("why") and row["verdict"] != "never selected":
            found.setdefault(row["why"], []).append(row["arm"])
    return [f"No ratio for {', '.join(arms)}: {why}; add a smaller or a larger one." for why, arms in found.items()]


def _blind(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Arms that have not learned to tell a class at all, where classes are few."""
    blind = [
        row["arm"] for row in rows if row["worst_class_accuracy"] == 0 and len(row["kept_per_class"]) <= FEW_CLASSES
    ]
    if not blind:
        return []
    return [
        f"Some class was never told right by {', '.join(blind)}: an accuracy that answering with the most frequent "
        "class has too shows nothing. Try larger budgets, or other rates."
    ]


def _mishaps(results: Results) -> list[str]:
    """What happened in the runs that count and does not happen in a plain comparison; which tuning runs failed."""
    notes = [f"Failed in tuning, and so not chosen: {', '.join(results.failed)}."] if results.failed else []
    for key, what in MISHAPS.items():
        counts = {arm.label: sum(_count(run.get(key)) for run in results.runs[arm]) for arm in results.plan.arms}
        hit = ", ".join(f"{label} {count:,}" for label, count in counts.items() if count)
        notes += [f"{what}: {hit}."] if hit else []
    return notes


def _count(value: Any) -> int:
    return len(value) if isinstance(value, list) else int(value or 0)


def _idle(results: Results) -> list[str]:
    """Why policies that never selected did not, and what to do."""
    idle = ", ".join(arm.label for arm in results.plan.arms if results.idle(arm))
    if not idle:
        return []
    return [
        f"Never selected: {idle}. All candidates were kept, which is plain training and says nothing about the policy. "
        f"The gate of assist opens after {BEGINS} Boss steps at the earliest, once selecting surely gains something; "
        "policies that go by past losses keep all of the first pass. Try a larger budget."
    ]


def _edges(results: Results) -> list[str]:
    """Which choices are at the end of their grid, where a wider one might suit the arm better."""
    axes: dict[str, set[str]] = {}
    for word in itertools.chain.from_iterable(results.plan.grid):
        key, _, value = word.partition("=")
        axes.setdefault(key, set()).add(value)
    ends = {f"{key}={value}" for key, values in axes.items() if len(values) > 2 for value in _ends(values)}
    edges = [f"{arm.label} {word}" for arm, words in results.chosen.items() for word in words if word in ends]
    return [f"At the edge of their grid: {', '.join(edges)}. A wider one may suit these better."] if edges else []


def _ends(values: Collection[str]) -> tuple[str, ...]:
    """The smallest and the largest of `values`; of what are no numbers, none."""
    try:
        return min(values, key=float), max(values, key=float)
    except ValueError:
        return ()


def _grid_text(grid: Sequence[Words]) -> str:
    return "; ".join(" ".join(words) for words in grid)
