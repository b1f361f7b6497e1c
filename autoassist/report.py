"""Reports on several runs: for people, as Markdown, as JSON; and the one place where plots begin and end."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

BLUE, GREY, INK = "#0969da", "#8c959f", "#24292f"
COLOURS = (BLUE, "#bf3989", "#1a7f37", "#bc4c00", "#8250df", "#9a6700", "#0a7ea4")

WIDE = 10_000
"""A terminal in which nothing wraps."""


@dataclass(frozen=True)
class Grid:
    """A table of texts: one row an arm."""

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]

    def markdown(self) -> list[str]:
        lines = [f"| {' | '.join(self.heads)} |", "|" + "---|" * len(self.heads)]
        return [*lines, *(f"| {' | '.join(row)} |" for row in self.rows), ""]


@dataclass(frozen=True)
class Report:
    """Facts on what was measured, tables, and notes on how to read them."""

    title: str
    facts: Mapping[str, Any]
    tables: Sequence[Grid]
    notes: Sequence[str]

    def markdown(self) -> str:
        facts = ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in self.facts.items())
        tables = [line for table in self.tables for line in table.markdown()]
        return "\n".join([facts, "", *tables, *(f"- {note}" for note in self.notes)]) + "\n"

    def show(self, console: Console) -> None:
        for k, grid in enumerate(self.tables):
            table = _table(grid, "" if k else self.title, " ")
            if table.__rich_measure__(console, console.options.update(max_width=WIDE)).maximum > console.width:
                table = _table(grid, "" if k else self.title, "\n")
            console.print(table)
        for note in self.notes:
            console.print(f"- {note}", style="dim", highlight=False, markup=False)

    def write(self, folder: Path, stem: str, figures: Mapping[str, Any]) -> None:
        """STEM.json with facts, `figures` and notes, and STEM.md."""
        everything = {**self.facts, **figures, "notes": list(self.notes)}
        (folder / f"{stem}.json").write_text(json.dumps(everything, indent=2, allow_nan=False) + "\n")
        (folder / f"{stem}.md").write_text(self.markdown())


def _table(grid: Grid, title: str, space: str) -> Table:
    """`grid` with `space` before what stands in brackets, which is not broken itself while there is other room."""
    table = Table(title=Text(title) if title else None, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    rows = [[cell.replace(" (", f"{space}(") for cell in row] for row in grid.rows]
    for column, head in enumerate(grid.heads):
        cells = [row[column] for row in rows]
        width = max(len(line) for cell in cells for line in cell.splitlines())
        whole = not column or any("(" in cell or " to " in cell for cell in cells)
        text = fill(head, max(width, *map(len, head.split()))) if whole else head
        # Folded where there is no room at all: a name that is cut short could be taken for another one's.
        table.add_column(text, justify="right" if column else "left", no_wrap=whole, overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    return table


@contextmanager
def picture(path: Path, size: tuple[float, float], title: str, columns: int = 1) -> Iterator[list[Any]]:
    """The axes to draw on, one a column; saved to `path` in the end, with one legend for all below them."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, _ = pyplot.subplots(1, columns, figsize=size, layout="constrained")
    for axes in figure.axes:
        axes.spines[["top", "right"]].set_visible(False)
    try:
        yield figure.axes
        figure.suptitle(title, x=0.01, ha="left", fontsize=11)
        handles, labels = figure.axes[0].get_legend_handles_labels()
        if handles:
            figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
        figure.savefig(path, dpi=130)
    finally:
        pyplot.close(figure)
