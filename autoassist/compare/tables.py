"""The report of a comparison."""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from assistant.gate import BEGINS
from autoassist.compare.arms import BASELINE, OWN, PLAIN, Words
from autoassist.compare.plan import Plan
from autoassist.compare.results import Results
from autoassist.report import Grid, Report

UNKNOWN = "not measured"
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


def facts_of(plan: Plan, device: Any) -> dict[str, Any]:
    """What was compared, and on what."""
    settings = plan.settings
    return {
        "data": settings.data.name,
        "model": settings.boss.model,
        "optimizer": settings.boss.optimizer,
        "schedule": settings.boss.schedule,
        "batch_size": settings.batcher.batch_size * settings.boss.accumulate,
        "seeds": plan.final_seeds,
        "serial": settings.run.serial,
        "boss_threads": settings.boss.threads,
        "device": device,
    }


def figures(results: Results, target: float | None) -> dict[str, Any]:
    """All figures as JSON."""
    found: dict[str, Any] = {"arms": [results.row(arm) for arm in results.plan.arms]}
    if target is not None:
        found["target"] = {"accuracy": target, **results.targets(target)}
    return found


def report(results: Results, found: Mapping[str, Any], facts: Mapping[str, Any]) -> Report:
    """The report on `found`, the figures of `results`."""
    rows = found["arms"]
    tables = [_accuracy(rows), _classes(rows, results.plan.tuned)]
    if results.timed:
        tables += [_cost(rows), _cpu(rows)]
    if "target" in found:
        tables.append(_target(found["target"]))
    seeds = f"{len(facts['seeds'])} seed{'s' * (len(facts['seeds']) > 1)}"
    title = f"{facts['model']} on {facts['data']}, {seeds}, {facts['device']}"
    return Report(title, facts, tables, [*_notes(results), *_warnings(results, rows)])


def span(estimate: Mapping[str, Any] | None, form: str, factor: float = 1.0) -> str:
    """An estimate with its interval as text; an end that may lie beyond what was measured is left out."""
    if estimate is None or (estimate["value"] is None and estimate["low"] is None):
        return UNKNOWN
    low, high = (None if estimate[end] is None else format(estimate[end] * factor, form) for end in ("low", "high"))
    value = UNKNOWN if estimate["value"] is None else format(estimate["value"] * factor, form)
    if low is None or high is None:
        return value
    bounds = {
        (False, False): f"{low} to {high}",
        (False, True): f"{low} or more",
        (True, False): f"{high} or less",
        (True, True): "no bound",
    }
    return f"{value} ({bounds[estimate['low_cut'], estimate['high_cut']]})"


Column = Callable[[Mapping[str, Any]], str]


def _grid(rows: Sequence[Mapping[str, Any]], columns: Mapping[str, Column]) -> Grid:
    return Grid(
        ["arm @ Boss epochs", *columns], [[row["arm"], *(cell(row) for cell in columns.values())] for row in rows]
    )


def _accuracy(rows: Sequence[Mapping[str, Any]]) -> Grid:
    return _grid(
        rows,
        {
            "accuracy, %": lambda row: span(row["accuracy"], ".2f", 100),
            "minus uniform, points": lambda row: (
                span(row["minus_uniform"], "+.2f", 100) if "minus_uniform" in row else "-"
            ),
            "Boss epochs / uniform's": lambda row: _ratio(row, "ratio_boss_epochs"),
            "verdict": lambda row: row.get("verdict", "-"),
        },
    )


def _classes(rows: Sequence[Mapping[str, Any]], tuned: bool) -> Grid:
    columns: dict[str, Column] = {
        "tuned": lambda row: ", ".join(word.partition(".")[2] for word in row["tuned"]) or "-",
        "macro-F1": lambda row: _number(row["macro_f1"], ".4f"),
        "worst class, %": lambda row: _number(row["worst_class_accuracy"], ".2f", 100),
        "kept fraction": lambda row: _number(row["kept_fraction"], ".2f"),
        "least to most kept class": _kept,
        "optimizer steps": lambda row: _number(row["optimizer_steps"], ",.0f"),
    }
    if not tuned:
        del columns["tuned"]
    return _grid(rows, columns)


def _cost(rows: Sequence[Mapping[str, Any]]) -> Grid:
    columns: dict[str, Column] = {
        "first to last step, s": lambda row: f"{statistics.mean(row['train_s']):.1f}",
        "seconds / uniform's": lambda row: _ratio(row, "ratio_wall_clock"),
    }
    if any("ratio_wall_clock_dataloader" in row for row in rows):
        columns["seconds / dataloader's"] = lambda row: _ratio(row, "ratio_wall_clock_dataloader")
    return _grid(rows, columns)


def _cpu(rows: Sequence[Mapping[str, Any]]) -> Grid:
    """CPU seconds of each process."""
    keys = [key for key in dict.fromkeys(key for row in rows for key in row) if key.startswith("cpu_s_")]
    keys = [key for key in keys if any(row.get(key) is not None for row in rows)]
    heads = ["CPU seconds", *(key.removeprefix("cpu_s_") for key in keys)]
    return Grid(
        heads, [[row["arm"], *(_number(row[key], ".1f") if key in row else "-" for key in keys)] for row in rows]
    )


def _ratio(row: Mapping[str, Any], key: str) -> str:
    return span(row[key], ".2f") if key in row else "-"


def _kept(row: Mapping[str, Any]) -> str:
    kept = [share for share in row["kept_per_class"] if share is not None]
    return f"{min(kept):.2f} to {max(kept):.2f}" if kept else UNKNOWN


def _target(target: Mapping[str, Any]) -> Grid:
    heads = ("arm", f"Boss epochs to {target['accuracy']:.2%}", "ratio to uniform's")
    rows = [
        (name, span(one["boss_epochs"], ".2f"), "-" if name == BASELINE else span(one["ratio_boss_epochs"], ".2f"))
        for name, one in target.items()
        if name != "accuracy"
    ]
    return Grid(heads, rows)


def _notes(results: Results) -> list[str]:
    """How the runs were made, and how to read what came of them."""
    plan = results.plan
    notes = [INTERVALS if plan.seeds > 1 else "One seed has no interval, and so no verdict.", RATIOS]
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


def _warnings(results: Results, rows: Sequence[Mapping[str, Any]]) -> list[str]:
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
    axes: dict[str, list[str]] = {}
    for words in results.plan.grid:
        for word in words:
            key, _, value = word.partition("=")
            axes.setdefault(key, []).append(value)
    edges = []
    for arm, words in results.chosen.items():
        for word in words:
            key, _, value = word.partition("=")
            values = sorted(set(axes[key]), key=_as_number)
            if len(values) > 2 and value in (values[0], values[-1]):
                edges.append(f"{arm.label} {word}")
    return [f"At the edge of their grid: {', '.join(edges)}."] if edges else []


def _as_number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.inf


def _grid_text(grid: Sequence[Words]) -> str:
    return "; ".join(" ".join(words) for words in grid)


def _number(value: float | None, form: str, factor: float = 1.0) -> str:
    return UNKNOWN if value is None else format(value * factor, form)
