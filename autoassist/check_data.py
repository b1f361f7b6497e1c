"""What `autoassist check-data` shows of `batcher.check.Findings`."""

from collections.abc import Callable

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from batcher.check import Findings, SplitFacts

CLASSES = 20
"""Classes that are shown one by one."""
BAR = 30
"""Characters of the longest bar."""


def show(found: Findings, console: Console) -> None:
    """Prints the data set, its splits and classes, and every mistake with how to mend it."""
    console.print(Text.assemble((found.name, "bold"), f"  {found.origin}, loaded in {found.load_s:.2f} s"))
    console.print(_splits(found.splits))
    if len(found.mean):
        moments = (" ".join(f"{value:.4g}" for value in values) for values in (found.mean, found.std))
        console.print("mean {} and deviation {} of the channels".format(*moments), style="dim", highlight=False)
    _show_classes(found, console)
    for facts in found.splits:
        if facts.example:
            line = f"{facts.name}[0]: {facts.example}"
            console.print(Text(line[:200] + ("..." if len(line) > 200 else ""), style="dim"))
    remarks = Table.grid(padding=(0, 1))
    for note in found.notes:
        remarks.add_row("[yellow]note[/]", Text(note))
    for number, mistake in enumerate(found.mistakes, 1):
        remarks.add_row(f"[bold red]{number}.[/]", Text(f"{mistake.split} split: {mistake.problem}"))
        remarks.add_row("", Text.assemble(("mend: ", "green"), mistake.mend))
    console.print(remarks)
    if found.mistakes:
        console.print(f"[bold red]{len(found.mistakes)} to mend[/]")
    else:
        console.print("[bold green]no mistakes found[/]")


def _stream(shards: int) -> str:
    return "a stream" + (f" of {shards} shard{'s' * (shards > 1)}" if shards else "")


def _splits(splits: list[SplitFacts]) -> Table:
    """A column for each split."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("split", style="dim")
    for facts in splits:
        table.add_column(facts.name, header_style="bold")
    rows: dict[str, Callable[[SplitFacts], str]] = {
        "instances": lambda f: _stream(f.shards) if f.size is None else f"{f.size:,}",
        "input": lambda f: f.inputs,
        "label": lambda f: f.labels,
        "features": lambda f: f.features,
        "batches": lambda f: (
            "not drawn"
            if f.instances_per_s is None
            else f"{f.instances_per_s:,.0f} instances/s, {f.megabytes_per_s:,.0f} MB/s"
        ),
        "offers": lambda f: ", ".join(f.offers) or "items only",
    }
    for label, value in rows.items():
        table.add_row(label, *(Text(value(facts)) for facts in splits))
    return table


def _show_classes(found: Findings, console: Console) -> None:
    """Instances by class, with a bar for the training split."""
    counted = [facts for facts in found.splits if facts.counts is not None]
    classes = max([len(found.class_names), *(len(facts.counts) for facts in counted if facts.counts is not None)])
    if not counted or not classes:
        return
    by_split = [np.bincount(np.arange(len(f.counts)), f.counts, classes) for f in counted if f.counts is not None]
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("class")
    for facts in counted:
        some = facts.size is None or facts.counted < facts.size
        table.add_column(f"{facts.name} (of {facts.counted} looked at)" if some else facts.name, justify="right")
    table.add_column("")
    largest = max(by_split[0].max(), 1)
    for number in range(min(classes, CLASSES)):
        name = found.class_names[number] if number < len(found.class_names) else str(number)
        bar = "█" * max(round(BAR * by_split[0][number] / largest), int(by_split[0][number] > 0))
        table.add_row(Text(name), *(f"{counts[number]:,.0f}" for counts in by_split), Text(bar, style="cyan"))
    console.print(table)
    if classes > CLASSES:
        first = by_split[0]
        text = f"... {classes - CLASSES} more; smallest class {first.min():,.0f}, largest {first.max():,.0f} instances"
        console.print(text, style="dim", highlight=False)
