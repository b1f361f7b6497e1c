"""The tables of a comparison, and all its figures as JSON. Pure."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from autoassist.compare.arms import BASELINE
from autoassist.compare.notes import notes_of, warnings_of
from autoassist.compare.plan import Plan
from autoassist.compare.results import Results
from autoassist.report import Grid, Report

UNKNOWN = "not measured"


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
    return Report(title, facts, tables, [*notes_of(results), *warnings_of(results, rows)])


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


def _number(value: float | None, form: str, factor: float = 1.0) -> str:
    return UNKNOWN if value is None else format(value * factor, form)
