"""How often and how soon dead workers are started again, and what is told of it. No clock: times are given."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from proto.config import RunConfig
from proto.messages import Role, Value

HEALTHY_S = 60.0
"""A worker that has lived for so long is started again at once; one that dies sooner waits, twice as long each time."""
FIRST_WAIT_S, LONGEST_WAIT_S = 0.5, 30.0

ADDED = frozenset({
    "cpu_s", "status_dropped", "features_dropped", "credit_wait_s", "bytes_sent", "weights_refused", "forced",
    "batches_without_news", "batches_uniform", "reports_refused", "reports_unlearned", "features_refused",
    "losses_quarantined", "versions_published", "versions_postponed", "messages_received", "strays",
})  # fmt: skip
"""Metrics that each worker process counts for itself; of all others the newest value is that of the run."""


@dataclass
class Restart:
    """One worker that was started again: what happened, at which Boss step, and how long it was away."""

    role: Role
    reason: str
    step: int
    lost_at: float
    back_at: float | None = None
    cold_s: float | None = None
    """How long the first worker of this role took from its start to its HELLO."""

    def plain(self) -> dict[str, Value | None]:
        away = None if self.back_at is None else round(self.back_at - self.lost_at, 3)
        return {
            "role": self.role,
            "reason": self.reason,
            "step": self.step,
            "away_s": away,
            "cold_start_s": self.cold_s,
        }


class Restarts:
    """The restarts of a run so far, and whether and when there may be another."""

    def __init__(self, run: RunConfig, before: Sequence[Restart] = ()) -> None:
        """`before`: those of the same run before it went back to a checkpoint."""
        self._run, self.most, self.all = run, run.max_restarts, list(before)
        self._cold_s = {restart.role: restart.cold_s for restart in before if restart.cold_s is not None}
        self._row: dict[Role, tuple[int, float]] = {}
        """Role -> how often it died in a row without having been healthy, and when it did last."""

    @property
    def used_up(self) -> bool:
        return len(self.all) >= self.most

    def ends_with(self, role: Role, *, killed: bool, started: bool) -> bool:
        """Whether the run ends with `role`, which is lost; `killed` by something outside it, not by its own error, in a
        run in which training has `started`."""
        if role in self._run.by_hand or self.used_up or (role == "boss" and not self._run.restart_boss):
            return True
        # In start-up what failed by itself would fail again, and there is nothing to go back to.
        return not started and (not killed or role == "boss")

    def goes_back(self, role: Role, *, started: bool) -> bool:
        """Whether all three must go back to a checkpoint because `role` was lost."""
        return started and (role == "boss" or self._run.deterministic)

    def said_of_the_last(self, role: Role) -> str:
        """Said of a failure that one more restart might have mended."""
        one = role != "boss" or self._run.restart_boss
        return " (run.max_restarts is used up)" if self.used_up and self.all and one else ""

    def add(self, role: Role, reason: str, step: int, now: float) -> float:
        """`role` was lost at `now` and is to be started again; returns the seconds to wait before."""
        self.all.append(Restart(role, reason, step, now, cold_s=self._cold_s.get(role)))
        times, last = self._row.get(role, (0, float("-inf")))
        times = 1 if now - last > HEALTHY_S else times + 1
        self._row[role] = times, now
        return 0.0 if times == 1 else min(FIRST_WAIT_S * 2 ** (times - 2), LONGEST_WAIT_S)

    def came(self, role: Role, after_s: float, now: float) -> None:
        """Worker `role` has said HELLO, `after_s` after it was started."""
        self._cold_s.setdefault(role, round(after_s, 3))
        for restart in reversed(self.all):
            if restart.role == role and restart.back_at is None:
                restart.back_at = now
                return


def added_up(dead: Sequence[Mapping[str, Value]], newest: Mapping[str, Value]) -> dict[str, Value]:
    """The metrics of a role from those of its dead processes and of its newest one."""
    found: dict[str, Value] = {}
    for values in (*dead, newest):
        for key, value in values.items():
            before = found.get(key, 0)
            adds = key in ADDED or key.startswith("refused_")
            if adds and isinstance(value, int | float) and isinstance(before, int | float):
                found[key] = before + value
            else:
                found[key] = value
    return found
