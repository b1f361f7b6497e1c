"""What a person sees while a run is under way: one line per worker in a terminal, plain lines elsewhere."""

import math
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from autoassist.state import WorkerState
from proto.messages import ROLES, Role, Value

PLAIN_EVERY_S, PLAIN_LATER_S = 5.0, 60.0
"""Between plain lines: a tenth of the time shown so far, within these. The log of a night is not read line by line."""

ALL_SHOWN = 1000
"""Lines of a kind that may come without end are all shown up to this one; of later ones, one a minute."""

Workers = Mapping[Role, WorkerState]


class View:
    """Shows the workers of a run with a budget of `budget` Boss epochs."""

    def __init__(self, console: Console, budget: float) -> None:
        self.console, self.budget = console, budget
        self._live = Live(console=console, auto_refresh=False, transient=True) if console.is_terminal else None
        self._shown_at = float("-inf")
        self._said_running = False
        self._began = time.monotonic()
        self._kinds: dict[str, tuple[int, float]] = {}
        """Kind -> how many of its lines there were, and when the last one was shown."""

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def say(self, line: str, style: str = "") -> None:
        """Prints a line that stays, as it is."""
        self.console.print(line, style=style, highlight=False, soft_wrap=True, markup=False)

    def say_of(self, kind: str, line: str, style: str = "") -> None:
        """Prints a line of a `kind` of which there may be very many; not all of them then."""
        count, shown_at = self._kinds.get(kind, (0, float("-inf")))
        now = time.monotonic()
        if count < ALL_SHOWN or now - shown_at >= PLAIN_LATER_S:
            shown_at = now
            self.say(line, style)
        self._kinds[kind] = count + 1, shown_at

    def evaluated(self, values: Mapping[str, Value]) -> None:
        """Prints a line on an evaluation; those of each split are a kind."""
        self.say_of(f"evaluation: {', '.join(values)}", evaluation_line(values))

    def gate(self, values: Mapping[str, Value]) -> None:
        """Prints a line on the gate, which opened or closed."""
        self.say_of("gate", gate_line(values))

    def update(self, workers: Workers) -> None:
        """Shows where the workers stand now."""
        now = time.monotonic()
        if self._live is not None:
            if now - self._shown_at >= 0.2:
                self._shown_at = now
                self._live.update(self._table(workers), refresh=True)
            return
        if not self._said_running and all(state.phase == "running" for state in workers.values()):
            self._said_running = True
            self.say("running: " + ", ".join(f"{role} (pid {state.pid})" for role, state in workers.items()))
        every = min(max((now - self._began) / 10, PLAIN_EVERY_S), PLAIN_LATER_S)
        if now - self._shown_at >= every and workers["boss"].phase == "running":
            self._shown_at = now
            self.say("; ".join(f"{role}: {describe(role, workers[role], self.budget)}" for role in ROLES))

    def _table(self, workers: Workers) -> Table:
        table = Table.grid(padding=(0, 2))
        for role in ROLES:
            state = workers[role]
            done = _float(state.values, "boss_epochs") if role == "boss" else 0.0
            bar = ProgressBar(total=self.budget, completed=done, width=24) if role == "boss" else ""
            table.add_row(f"[bold]{role}[/]", f"[dim]{state.pid or '-'}[/]", bar, describe(role, state, self.budget))
        return table


def describe(role: Role, state: WorkerState, budget: float) -> str:
    """One line on a worker."""
    values = state.values
    if state.phase != "running" or not values:
        return state.phase
    if role == "batcher":
        seen = f"{_int(values, 'candidates'):,} candidates, kept {_float(values, 'kept_fraction'):.0%}"
        line = f"{seen}, version {_int(values, 'version')}"
        if "bytes_per_s" not in values:
            return line
        way = f"{_float(values, 'bytes_per_s') / 1e6:.3g} MB/s, {_float(values, 'queue_depth'):.1f} under way"
        return f"{line}, {way}, waited {_float(values, 'credit_wait_s'):.0f} s"
    if role == "boss":
        line = f"{_float(values, 'boss_epochs'):.2f} of {budget:g} Boss epochs"
        loss = _float({"loss": math.nan, **values}, "loss")
        line += f", loss {loss:.4f}" if math.isfinite(loss) else ""  # there is none before the first step
        line += f", test accuracy {_float(values, 'test_accuracy'):.4f}" if "test_accuracy" in values else ""
        return line + (f", waited {_float(values, 'waited_s'):.0f} s" if "waited_s" in values else "")
    scores = "".join(
        f", {name} {_float(values, key):.3f}"
        for name, key in (("accuracy", "accuracy"), ("AUC", "auc"))
        if key in values
    )
    if "gain" in values:
        scores += ", selecting" if _int(values, "selecting") else ", not selecting"
        scores += f" (gain {_float(values, 'gain'):.2f})"
    return f"version {_int(values, 'version')}, mean loss {_float(values, 'mean_loss'):.4f}{scores}"


def gate_line(values: Mapping[str, Value]) -> str:
    """One line on the gate, which opened or closed."""
    gain, low, high = (_float(values, key) for key in ("gain", "gain_low", "gain_high"))
    now = "selects from now on" if _int(values, "selecting") else "keeps everything, since selecting gains nothing"
    measured = f"gain {gain:.3f} (90 %: {low:.3f} to {high:.3f}) on {_int(values, 'gain_sample'):,} candidates"
    return f"step {_int(values, 'step'):,}: the Batcher {now}; {measured}"


def _float(values: Mapping[str, Value], key: str) -> float:
    value = values.get(key, 0.0)
    return float(value) if isinstance(value, int | float) else 0.0


def _int(values: Mapping[str, Value], key: str) -> int:
    return int(_float(values, key))


def evaluation_line(values: Mapping[str, Value]) -> str:
    """One line on an evaluation."""
    where = ("trained", "step", "boss_epochs")
    scores = [f"{name.replace('_', ' ')} {value:.4f}" for name, value in values.items() if name not in where]
    return f"{_float(values, 'boss_epochs'):.2f} Boss epochs: {', '.join(scores)}"
