"""The pictures of a comparison, as large as a README shows them."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from autoassist.compare.arms import BASELINE, PLAIN, Arm
from autoassist.compare.results import Results, kept_per_class
from autoassist.report import COLOURS, INK, picture
from autoassist.rundir import short_name

WIDTH = 7.5
"""Inches; at 130 dots an inch a README shows it unscaled."""
BINS = 40
"""Points of a curve over time."""
APART = 0.015
"""Share of the picture's width between the marks of two arms at one budget, which may be at one height too."""
ALONE = 2.0
"""The axis of a single budget goes from its ALONE-th part to ALONE times it."""
NAMED = 20
"""Classes that still can be told apart as bars."""

Lines = Callable[[Arm, str], Sequence[Sequence[Mapping[str, Any]]]]


def draw(results: Results, lines: Lines, folder: Path, target: float | None) -> None:
    """accuracy.png, kept.png and classes.png in `folder`."""
    accuracy(results, folder / "accuracy.png", target)
    kept(results, lines, folder / "kept.png")
    classes(results, folder / "classes.png")


def colours(results: Results) -> dict[str, str]:
    """A colour for each name; nearly black for the baseline, whose dashes lie on top of what is at the same place."""
    names = list(dict.fromkeys(arm.name for arm in results.plan.arms))
    others = [name for name in names if name != BASELINE]
    return {BASELINE: INK} | {name: COLOURS[k % len(COLOURS)] for k, name in enumerate(others)}


def accuracy(results: Results, path: Path, target: float | None) -> None:
    """Test accuracy against Boss epochs and, where it was measured, against seconds; bars are 90 % intervals."""
    columns = 2 if results.timed else 1
    with picture(path, (WIDTH, 3.8), _title(results), columns) as panels:
        for axes, timed in zip(panels, (False, True), strict=False):
            for k, (name, colour) in enumerate(colours(results).items()):
                _line(axes, results, name, colour, _seconds if timed else partial(_budget, k * columns * APART))
            if target is not None:
                axes.axhline(100 * target, color="#d0d7de", linewidth=1, zorder=0)
            axes.set_xscale("log")
            _plain_ticks(axes, results, timed)
            axes.set_xlabel("first to last step, s" if timed else "Boss epochs")
            axes.set_ylim(*_limits(results))
        panels[0].set_ylabel("test accuracy, %")


def _limits(results: Results) -> tuple[float, float]:
    """Of the accuracies shown: around the means, since intervals over few seeds can be wider than all that counts."""
    means = [100 * float(np.mean(results.accuracies(arm))) for arm in results.plan.arms]
    room = max(max(means) - min(means), 0.2)
    return min(means) - room, min(max(means) + room, 100.0)


def _seconds(results: Results, arm: Arm) -> float:
    return float(np.mean(results.values(arm, "train_s")))


def _budget(beside: float, results: Results, arm: Arm) -> float:
    """The budget of `arm`, moved right by the share `beside` of a logarithmic axis."""
    budgets = _budgets(results)
    width = budgets[-1] / budgets[0] if len(budgets) > 1 else ALONE**2
    return float(arm.budget * width**beside)


def _budgets(results: Results) -> list[float]:
    return sorted({arm.budget for arm in results.plan.arms})


def _line(axes: Any, results: Results, name: str, colour: str, place: Callable[[Results, Arm], float]) -> None:
    arms = results.plan.arms_called(name)
    found = [results.accuracy(arm) for arm in arms]
    at = [place(results, arm) for arm in arms]
    middle, low, high = (
        [100 * (one.value if end is None else end) for one, end in zip(found, ends, strict=True)]  # type: ignore[operator]
        for ends in ([one.value for one in found], [one.low for one in found], [one.high for one in found])
    )
    looks = {"color": colour, "zorder": _layer(name)}
    # A mark at 100 % is whole, though the axis ends there.
    axes.plot(at, middle, _style(name), marker="o", markersize=4, label=name, clip_on=False, **looks)
    axes.vlines(at, low, high, alpha=0.6, **looks)


def _style(name: str) -> str:
    return "--" if name == BASELINE else "-"


def _layer(name: str) -> int:
    return 4 if name == BASELINE else 3


def _plain_ticks(axes: Any, results: Results, timed: bool) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

    if timed:
        axes.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
    else:
        budgets = _budgets(results)
        axes.xaxis.set_major_locator(FixedLocator(budgets))
        if len(budgets) == 1:
            axes.set_xlim(budgets[0] / ALONE, budgets[0] * ALONE)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))


def kept(results: Results, lines: Lines, path: Path) -> None:
    """The share of candidates kept as training goes on, of each name at its largest budget; bands span the seeds."""
    with picture(path, (WIDTH, 3.4), f"Kept fraction over time: {_title(results)}") as (axes,):
        for name, colour in colours(results).items():
            if name == PLAIN:
                continue
            arm = results.plan.arms_called(name)[-1]
            at = np.linspace(0, arm.budget, BINS + 1)
            shares = np.array([_shares(records, at) for records in lines(arm, "progress")])
            middle = (at[1:] + at[:-1]) / 2
            looks = {"color": colour, "zorder": _layer(name), "clip_on": False}
            axes.plot(middle, shares.mean(axis=0), _style(name), label=arm.label, **looks)
            axes.fill_between(middle, shares.min(axis=0), shares.max(axis=0), color=colour, alpha=0.15, linewidth=0)
        axes.set_ylim(0, 1.05)
        axes.set_xlim(left=0)
        axes.set_xlabel("Boss epochs")
        axes.set_ylabel("kept fraction")


def _shares(records: Sequence[Mapping[str, Any]], at: Any) -> Any:
    """Kept fraction float [BINS] between the Boss epochs `at` [BINS + 1], from what was counted on the way."""
    epochs = [0.0, *(record["boss_epochs"] for record in records)]
    trained = np.interp(at, epochs, [0, *(record["trained"] for record in records)])
    candidates = np.interp(at, epochs, [0, *(record["candidates"] for record in records)])
    return np.diff(trained) / np.maximum(np.diff(candidates), 1e-9)


def classes(results: Results, path: Path) -> None:
    """Kept fraction of each class, of each name at its largest budget: bars, or sorted lines where classes are many."""
    arms = [results.plan.arms_called(name)[-1] for name in colours(results) if name not in (BASELINE, PLAIN)]
    with picture(path, (WIDTH, 3.4), f"Kept fraction of each class: {_title(results)}") as (axes,):
        paint = colours(results)
        for k, arm in enumerate(arms):
            shares = np.array([np.nan if one is None else one for one in kept_per_class(results.runs[arm])])
            if len(shares) > NAMED:
                axes.plot(np.sort(shares)[::-1], color=paint[arm.name], label=arm.label)
                continue
            width = 0.8 / len(arms)
            at = np.arange(len(shares)) - 0.4 + width * (k + 0.5)
            axes.bar(at, shares, width, color=paint[arm.name], label=arm.label)
            axes.set_xticks(range(len(shares)))
        axes.axhline(1, color=INK, linestyle="--", linewidth=1)
        axes.set_ylim(0, 1.05)
        axes.set_yticks([0, 0.25, 0.5, 0.75, 1])
        axes.set_xlabel("class")
        axes.set_ylabel("kept fraction")


def _title(results: Results) -> str:
    settings = results.plan.settings
    data, model = (short_name(name) for name in (settings.data.name, settings.boss.model))
    return f"{model} on {data}, {results.plan.seeds} seed{'s' * (results.plan.seeds > 1)}"
