"""`autoassist ablate`: automatic mixed precision (AMP), gradient accumulation (GA) and pinned memory (PM), alone and
together, under one budget and one effective batch size.

The table is that of *Accelerating Neural Network Training: A Brief Review* (Nokhwal et al., 2023), section 4: accuracy,
F1 and time of each of the eight combinations, with the ratio of its time to that of the plain one.
"""

import itertools
import json
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from autoassist import launch as launching
from autoassist.config import Settings
from proto.errors import ConfigError

TECHNIQUES = ("AMP", "GA", "PM")


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
    folder = Path(settings.run.dir) / (settings.run.name or f"ablate-{settings.data.name}-{settings.boss.model}")
    results: dict[str, list[dict[str, Any]]] = {arm.name: [] for arm in ARMS}
    for repeat, arm in itertools.product(range(repeats), ARMS):
        summary = _run(settings_of(arm, settings, amp, k), folder, f"{arm.name}-{repeat}", repeat, console)
        if summary["exit_code"]:
            return int(summary["exit_code"])
        results[arm.name].append(summary)
    table = [_row(name, runs, results["plain"]) for name, runs in results.items()]
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
    notes = _notes(str(facts["device"]))
    (folder / "ablate.json").write_text(json.dumps({**facts, "arms": table, "notes": notes}, indent=2) + "\n")
    (folder / "ablate.md").write_text(markdown(table, facts, notes))
    plot(table, facts, folder / "ablate.png")
    show(table, facts, notes, console)
    console.print(f"tables and plot: {folder}", highlight=False, soft_wrap=True)
    return 0


def _run(settings: Settings, folder: Path, name: str, repeat: int, console: Console) -> dict[str, Any]:
    path = folder / name / "summary.json"
    if not path.exists() or json.loads(path.read_text())["exit_code"]:
        console.print(f"{name} ...", highlight=False)
        update = {"dir": str(folder), "name": name, "seed": settings.run.seed + repeat}
        settings = settings.model_copy(update={"run": settings.run.model_copy(update=update)})
        launching.launch(settings, Console(quiet=True))
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def _row(name: str, runs: list[dict[str, Any]], plain: list[dict[str, Any]]) -> dict[str, Any]:
    seconds = [run["train_s"] for run in runs]
    return {
        "arm": name,
        "accuracy": statistics.mean(run["test_accuracy"] for run in runs),
        "f1": statistics.mean(run["test_macro_f1"] for run in runs),
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


def _numbers(row: dict[str, Any]) -> tuple[str, str, str, str]:
    forms = {"accuracy": ".4f", "f1": ".4f", "seconds": ".2f", "ratio_seconds_vs_plain": ".2f"}
    accuracy, f1, seconds, ratio = (format(row[key], form) for key, form in forms.items())
    return accuracy, f1, seconds, ratio


def markdown(table: list[dict[str, Any]], facts: dict[str, Any], notes: list[str]) -> str:
    """The table as Markdown, with what it was measured on."""
    head = ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in facts.items())
    lines = [head, "", "| techniques | accuracy | macro-F1 | time, s | ratio to plain |", "|---|---|---|---|---|"]
    lines += [f"| {row['arm']} | {' | '.join(_numbers(row))} |" for row in table]
    return "\n".join([*lines, "", *(f"- {note}" for note in notes)]) + "\n"


def show(table: list[dict[str, Any]], facts: dict[str, Any], notes: list[str], console: Console) -> None:
    """The table for people."""
    shown = Table("techniques", title=f"{facts['model']} on {facts['data']}, {facts['device']}", title_justify="left")
    for column in ("accuracy", "macro-F1", "time, s", "ratio to plain"):
        shown.add_column(column, justify="right")
    for row in table:
        shown.add_row(row["arm"], *_numbers(row))
    console.print(shown)
    for note in notes:
        console.print(f"- {note}", style="dim", highlight=False)


def plot(table: list[dict[str, Any]], facts: dict[str, Any], path: Path) -> None:
    """Time of each combination as bars, with its accuracy beside it."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    names, seconds = [row["arm"] for row in table], [row["seconds"] for row in table]
    figure, axes = pyplot.subplots(figsize=(8, 4), layout="constrained")
    bars = axes.barh(names, seconds, color=["#8c959f" if name == "plain" else "#0969da" for name in names])
    axes.bar_label(
        bars, [f"{row['ratio_seconds_vs_plain']:.2f} x, accuracy {row['accuracy']:.4f}" for row in table], padding=4
    )
    axes.set_xlim(0, max(seconds) * 1.45)
    axes.invert_yaxis()
    axes.set_xlabel("training time, s (evaluations apart)")
    axes.set_title(
        f"{facts['model']} on {facts['data']}, {facts['budget']:g} Boss epochs, {facts['device']}", loc="left"
    )
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=130)
    pyplot.close(figure)
