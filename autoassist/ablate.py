"""`autoassist ablate`: automatic mixed precision (AMP), gradient accumulation (GA) and pinned memory (PM), alone and
together, under one budget and one effective batch size.

The table is that of *Accelerating Neural Network Training: A Brief Review* (Nokhwal et al., 2023), section 4: accuracy,
F1 and time of each of the eight combinations, with the ratio of its time to that of the plain one. Where the labels are
no class numbers it has the loss in place of accuracy and F1.
"""

import itertools
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from autoassist.config import Settings
from autoassist.report import BLUE, GREY, Grid, Report, picture
from autoassist.rundir import sweep_folder
from autoassist.sweep import Run, Stopped, Summary, Sweep
from proto.errors import ConfigError

TECHNIQUES = ("AMP", "GA", "PM")
SCORES = {"test_accuracy": "accuracy", "test_macro_f1": "macro-F1", "test_loss": "test loss"}
"""What may be said of the final weights: keys of a summary, and what the table calls them."""


@dataclass(frozen=True)
class Arm:
    """One combination of the three techniques."""

    amp: bool
    accumulate: bool
    pin: bool

    @property
    def name(self) -> str:
        used = [name for name, on in zip(TECHNIQUES, (self.amp, self.accumulate, self.pin), strict=True) if on]
        return "+".join(used) or "plain"


ARMS = [Arm(*switches) for switches in itertools.product((False, True), repeat=3)]


def settings_of(arm: Arm, settings: Settings, amp: str, k: int) -> Settings:
    """`settings` with exactly the techniques of `arm`: `amp` as precision, k microbatches to a step."""
    size = settings.batcher.batch_size
    boss = settings.boss.model_copy(
        update={
            "amp": amp if arm.amp else "off",
            "accumulate": k if arm.accumulate else 1,
            "pin_memory": arm.pin,
        }
    )
    batcher = settings.batcher.model_copy(update={"batch_size": size // k if arm.accumulate else size})
    return settings.model_copy(update={"boss": boss, "batcher": batcher})


def ablate(settings: Settings, repeats: int, amp: str, k: int, console: Console) -> int:
    """Runs the eight combinations `repeats` times, interleaved, and writes ablate.json, ablate.md and ablate.png.

    Goes on where it was interrupted. Raises ConfigError when `k` does not divide the batch size.
    """
    if settings.batcher.batch_size % k or settings.batcher.batch_size // k < 2:
        raise ConfigError(
            "--accumulate", k, f"must divide batcher.batch_size = {settings.batcher.batch_size} into 2 or more"
        )
    folder = sweep_folder(settings, "ablate")
    results: dict[str, list[Summary]] = {arm.name: [] for arm in ARMS}
    with Sweep.open(folder, console) as sweep:
        for repeat, arm in itertools.product(range(repeats), ARMS):
            seeded = settings.run.model_copy(update={"seed": settings.run.seed + repeat})
            one = settings_of(arm, settings.model_copy(update={"run": seeded}), amp, k)
            try:
                results[arm.name].append(sweep.make(Run(f"{arm.name}-{repeat}", one)))
            except Stopped as stopped:
                console.print("the same command goes on from here", highlight=False)
                return stopped.code
    scores = _scores(results)
    table = [_row(name, runs, results["plain"], scores) for name, runs in results.items()]
    facts = {
        "data": settings.data.name,
        "model": settings.boss.model,
        "budget": settings.run.budget,
        "effective_batch_size": settings.batcher.batch_size,
        "amp": amp,
        "accumulate": k,
        "device": next(iter(results["plain"]))["device"],
        "repeats": repeats,
    }
    report = Report(
        f"{facts['model']} on {facts['data']}, {facts['device']}",
        facts,
        [
            Grid(
                ("techniques", *(SCORES[score] for score in scores), "time, s", "ratio to plain"),
                [(row["arm"], *_numbers(row, scores)) for row in table],
            )
        ],
        _notes(str(facts["device"])),
    )
    report.write(folder, "ablate", {"arms": table})
    plot(table, scores, facts, folder / "ablate.png")
    report.show(console)
    console.print(f"tables and plot: {folder}", highlight=False, soft_wrap=True)
    return 0


def _scores(results: dict[str, list[Summary]]) -> list[str]:
    """Those of `SCORES` that every run has: accuracy and F1, else the loss, which data without classes has alone."""
    measured = [score for score in SCORES if all(run[score] is not None for runs in results.values() for run in runs)]
    return [score for score in measured if score != "test_loss"] or measured


def _row(name: str, runs: list[Summary], plain: list[Summary], scores: list[str]) -> dict[str, Any]:
    seconds = [run["train_s"] for run in runs]
    return {
        "arm": name,
        **{score.removeprefix("test_"): statistics.mean(run[score] for run in runs) for score in scores},
        "seconds": statistics.median(seconds),
        "ratio_seconds_vs_plain": statistics.median(a / b["train_s"] for a, b in zip(seconds, plain, strict=True)),
        "steps": runs[0]["optimizer_steps"],
    }


def _notes(device: str) -> list[str]:
    if device != "cpu":
        return []
    return [
        "PM means nothing on the CPU: there is no copy to a device, its rows differ from the others by noise alone.",
        "AMP on the CPU is bfloat16 without special hardware in most machines; its time says nothing about a GPU.",
        "GA saves device memory, which the CPU does not run short of; on the GPU: not measured here.",
    ]


def _numbers(row: dict[str, Any], scores: list[str]) -> tuple[str, ...]:
    shown = [_score(row, score) for score in scores]
    return *shown, f"{row['seconds']:.2f}", f"{row['ratio_seconds_vs_plain']:.2f}"


def _score(row: dict[str, Any], score: str) -> str:
    return format(row[score.removeprefix("test_")], ".4g" if score == "test_loss" else ".4f")


def plot(table: list[dict[str, Any]], scores: list[str], facts: dict[str, Any], path: Path) -> None:
    """Time of each combination as bars, with the first of the `scores` beside it."""
    names, seconds = [row["arm"] for row in table], [row["seconds"] for row in table]
    title = f"{facts['model']} on {facts['data']}, {facts['budget']:g} Boss epochs, {facts['device']}"
    with picture(path, (8, 4), title) as (axes,):
        bars = axes.barh(names, seconds, color=[GREY if name == "plain" else BLUE for name in names])
        texts = [
            ", ".join(
                [f"{row['ratio_seconds_vs_plain']:.2f} x", *(f"{SCORES[s]} {_score(row, s)}" for s in scores[:1])]
            )
            for row in table
        ]
        axes.bar_label(bars, texts, padding=4)
        axes.set_xlim(0, max(seconds) * 1.45)
        axes.invert_yaxis()
        axes.set_xlabel("training time, s (evaluations apart)")
