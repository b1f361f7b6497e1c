"""The command line. Imports no torch: help, lists of names and configuration errors answer at once."""

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from autoassist import ablate as ablating
from autoassist import launch as launching
from autoassist import status as seen
from autoassist.config import change, documented, load
from batcher.config import DATASETS, POLICIES
from boss.config import MODELS
from proto.errors import ConfigError
from proto.messages import ROLES
from proto.resolver import Builtin

app = typer.Typer(
    help="Train to the same accuracy for less GPU time: an Assistant drops the instances that no longer matter.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Words = Annotated[list[str] | None, typer.Argument(metavar="[CONFIG.toml] [section.key=value]...", show_default=False)]
RunDir = Annotated[Path, typer.Option("--run-dir", help="Run directory that `autoassist launch` made.")]


def _load(words: list[str] | None) -> tuple[Path | None, list[str]]:
    """The configuration file, if the first word is one, and the overrides."""
    first, *rest = words or [""]
    return (None, words or []) if "=" in first or not first else (Path(first), rest)


def _or_exit(action: Callable[[], int]) -> None:
    """Runs `action` and exits with its code; what the user can mend is one line and exit code 2."""
    try:
        code = action()
    except ConfigError as error:
        print(f"autoassist: {error}", file=sys.stderr)
        code = 2
    raise typer.Exit(code)


@app.command()
def launch(
    words: Words = None,
    resume: Annotated[
        Path | None, typer.Option(help="Go on with the run in this directory.", show_default=False)
    ] = None,
) -> None:
    """Train: start Batcher, Boss and Assistant, watch them, and show what came of it.

    Without arguments it trains a small CNN on scikit-learn's handwritten digits.
    """

    def run() -> int:
        if resume is None:
            return launching.launch(load(*_load(words)), Console())
        if words:
            raise ConfigError(
                "--resume", str(resume), f"takes no {words[0]!r}: a run goes on with its own configuration"
            )
        return launching.resume(resume, Console())

    _or_exit(run)


@app.command()
def ablate(
    words: Words = None,
    repeats: Annotated[int, typer.Option(min=1, help="Runs of each combination, with seeds of their own.")] = 1,
    amp: Annotated[str, typer.Option(help="Precision of the runs with AMP: bf16 or fp16.")] = "bf16",
    accumulate: Annotated[int, typer.Option(min=2, help="Microbatches to a step in the runs with GA.")] = 4,
) -> None:
    """Compare mixed precision, gradient accumulation and pinned memory, alone and together."""

    def run() -> int:
        if amp not in ("bf16", "fp16"):
            raise ConfigError("--amp", amp, "allowed: bf16, fp16")
        return ablating.ablate(load(*_load(words)), repeats, amp, accumulate, Console())

    _or_exit(run)


@app.command()
def compare(
    words: Words = None,
    policies: Annotated[
        str,
        typer.Option(
            help="Arms, as [NAME=]POLICY[@BUDGET][:section.key=value]..., separated by commas. uniform is always there."
        ),
    ] = "assist",
    budgets: Annotated[
        str, typer.Option(help="Boss epochs of each arm that has none of its own, separated by commas.")
    ] = "2,4",
    seeds: Annotated[int, typer.Option(min=1, help="Runs of each arm, paired by seed; from run.seed on.")] = 5,
    tune: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=V,V,...",
            help="Choose from these values for each arm, uniform too, on a validation split; may be repeated.",
            show_default=False,
        ),
    ] = None,
    tune_seeds: Annotated[int, typer.Option(min=1, help="Tuning runs of each combination, on other seeds.")] = 1,
    target: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Also say how many Boss epochs each policy needs for this test accuracy."),
    ] = None,
    serial: Annotated[
        bool, typer.Option("--serial", help="Each run in one process: quick, but wall-clock means nothing.")
    ] = False,
    against: Annotated[
        str | None,
        typer.Option(metavar="dataloader", help="Add a plain PyTorch loop, in its fastest form.", show_default=False),
    ] = None,
) -> None:
    """Compare policies with plain training (uniform) at equal accuracy, over several seeds, with intervals.

    Makes one run after another in runs/compare-DATA-MODEL (run.dir, run.name); the same command goes on with what is
    missing, and adds seeds.
    """

    def run() -> int:
        from autoassist.compare.arms import PLAIN, parse_arms, parse_budgets, parse_grid
        from autoassist.compare.command import compare, tune_fraction
        from autoassist.compare.plan import Plan

        settings = load(*_load(words))
        if serial:
            settings = change(settings, ["run.serial=true"])
        if against not in (None, PLAIN):
            raise ConfigError("--against", against, f"allowed: {PLAIN}")
        if against and settings.run.serial:
            raise ConfigError("--against", against, "serial runs have no wall-clock; leave out --serial")
        grid = parse_grid(tune or [])
        plan = Plan(settings, parse_arms(policies, parse_budgets(budgets)), seeds, grid, tune_seeds)
        plan.check()
        if plan.tuned:
            plan = replace(plan, tune_val_fraction=tune_fraction(settings))
        return compare(plan, target, Console(), against_plain=against is not None)

    _or_exit(run)


@app.command()
def status(run: Annotated[Path, typer.Argument(help="Run directory, as runs/NAME.")]) -> None:
    """Say what a run in another terminal is doing."""
    _or_exit(lambda: seen.show(run, Console()))


@app.command()
def doctor() -> None:
    """Check that this machine has what a run needs."""
    from autoassist.doctor import examine  # needs torch, which no other command imports here

    _or_exit(lambda: examine(Console()))


@app.command()
def config(words: Words = None) -> None:
    """Show every configuration key with its meaning and value, as TOML to start from."""

    def show() -> int:
        print(documented(load(*_load(words))))
        return 0

    _or_exit(show)


@app.command("check-data")
def check_data(words: Words = None) -> None:
    """Load the data set of a configuration, show what it is like, and find what will not work; exit code 2 if any."""

    def check() -> int:
        from autoassist.check_data import show
        from batcher.check import check

        settings = load(*_load(words))
        os.environ["PYTHONSAFEPATH"] = "1"  # of the process it starts: the user's folder must not hide our packages
        found = check(settings.data, settings.batcher.batch_size, settings.run.seed)
        show(found, Console())
        return 2 if found.mistakes else 0

    _or_exit(check)


def _worker_command(role: str) -> None:
    @app.command(role, help=f'Start the {role} of a run by hand; launch it with run.by_hand=["{role}"].')
    def start(run_dir: RunDir) -> None:
        # In place of this process, so that a debugger's or a terminal's signals reach the worker itself.
        os.execve(
            sys.executable,
            [sys.executable, "-m", role, "--run-dir", str(run_dir)],
            {**os.environ, "PYTHONSAFEPATH": "1"},
        )


def _names_command(name: str, what: str, builtins: Mapping[str, Builtin]) -> None:
    @app.command(name, help=f"List the {what}, built in and of installed packages.")
    def names() -> None:
        table = Table.grid(padding=(0, 2))
        table.add_column(style="bold", no_wrap=True)
        table.add_column()
        table.add_column(style="dim")
        for key, builtin in builtins.items():
            table.add_row(Text(key), Text(builtin.summary), Text(builtin.origin))
        Console().print(table)
        print("Your own: package.module:callable or ./file.py:callable")


for _role in ROLES:
    _worker_command(_role)
_names_command("datasets", "data sets (data.name)", DATASETS)
_names_command("models", "models (boss.model)", MODELS)
_names_command("policies", "policies (policy.name)", POLICIES)
