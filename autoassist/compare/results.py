"""What the runs of a comparison amount to: one row of figures for each arm. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from autoassist.compare.arms import BASELINE, PLAIN, Arm, Words
from autoassist.compare.plan import Plan
from autoassist.compare.verdict import (
    NOTHING,
    Estimate,
    Verdict,
    difference,
    geometric,
    judge,
    mean,
    needed,
    quotient,
)
from autoassist.sweep import Summary
from batcher.config import POLICIES


@dataclass(frozen=True)
class Results:
    """The summaries of the runs that count, of each arm one a seed and in the same order; what tuning chose, and which
    of its runs failed."""

    plan: Plan
    chosen: Mapping[Arm, Words]
    runs: Mapping[Arm, Sequence[Summary]]
    failed: Sequence[str] = ()

    @property
    def timed(self) -> bool:
        """Whether wall-clock, and CPU seconds of each process, mean something: serial runs have all three cores in one
        process."""
        return not self.plan.settings.run.serial

    def values(self, arm: Arm, key: str) -> list[float]:
        """`key` of each run of `arm`. Raises KeyError when one has not measured it."""
        found = [run[key] for run in self.runs[arm]]
        if any(value is None for value in found):
            raise KeyError(f"{arm.label}: {key}")
        return found

    def accuracies(self, arm: Arm) -> list[float]:
        """Test accuracy of each run of `arm`."""
        return self.values(arm, "test_accuracy")

    def accuracy(self, arm: Arm) -> Estimate:
        """Mean test accuracy of `arm`; few seeds that differ much have an interval that would go on beyond 1."""
        return mean(self.accuracies(arm)).within(0, 1)

    def idle(self, arm: Arm) -> bool:
        """Whether the policy of `arm` never selected: it kept every candidate, in all runs, at weight 1."""
        if arm.policy == BASELINE or any(run["kept_fraction"] < 1 for run in self.runs[arm]):
            return False
        # One of the user's may weigh what it keeps. The built-in ones do not weigh what they are sure to keep.
        built_in = arm.policy in POLICIES and POLICIES[arm.policy].origin == "built-in"
        return built_in or self.accuracies(arm) == self.accuracies(Arm(BASELINE, BASELINE, arm.budget))

    def curve(self, name: str) -> tuple[list[float], list[list[float]]]:
        """Budgets and accuracies [K][S] of the arms called `name`."""
        arms = self.plan.arms_called(name)
        return [arm.budget for arm in arms], [self.accuracies(arm) for arm in arms]

    def verdict(self, arm: Arm, baseline: str = BASELINE) -> Verdict:
        """How `arm` stands against the arms called `baseline`."""
        found = judge(*self.curve(baseline), arm.budget, self.accuracies(arm))
        return replace(found, outcome="never selected", why="as uniform") if self.idle(arm) else found

    def level(self, arm: Arm) -> Estimate:
        """Accuracy of `arm` minus that of the baseline at the same budget."""
        return difference(self.accuracies(arm), self.accuracies(Arm(BASELINE, BASELINE, arm.budget)))

    def wall(self, arm: Arm, baseline: str = BASELINE) -> Estimate:
        """Seconds of `arm` over those that `baseline` needs for its accuracy: the ratio of Boss epochs times that of
        the seconds each takes."""
        if not self.timed:
            return NOTHING
        mine = self._epoch_s([arm])
        theirs = self._epoch_s(self.plan.arms_called(baseline))
        speed = geometric([b / a for a, b in zip(mine, theirs, strict=True)])
        return quotient(self.verdict(arm, baseline).ratio, speed)

    def _epoch_s(self, arms: Sequence[Arm]) -> list[float]:
        """Seconds of a Boss epoch from first to last step, for each seed, over `arms`."""
        seconds = [self.values(arm, "train_s") for arm in arms]
        epochs = sum(arm.budget for arm in arms)
        return [sum(column) / epochs for column in zip(*seconds, strict=True)]

    def to_target(self, name: str, target: float) -> Estimate:
        """Boss epochs at which the arms called `name` reach the accuracy `target`."""
        budgets, accuracies = self.curve(name)
        return needed(budgets, accuracies, [target] * self.plan.seeds)

    def row(self, arm: Arm) -> dict[str, Any]:
        """All figures of `arm`, as JSON."""
        runs = self.runs[arm]
        row: dict[str, Any] = {
            "arm": arm.label,
            "policy": PLAIN if arm.name == PLAIN else arm.policy,
            "budget": arm.budget,
            "overrides": list(arm.words),
            "tuned": list(self.chosen.get(arm, ())),
            "accuracy": asdict(self.accuracy(arm)),
            "accuracies": self.accuracies(arm),
            "macro_f1": _mean(runs, "test_macro_f1"),
            "worst_class_accuracy": _mean(runs, "test_worst_class_accuracy"),
            "optimizer_steps": _mean(runs, "optimizer_steps"),
            "train_s": [run["train_s"] for run in runs] if self.timed else None,
            "kept_fraction": _mean(runs, "kept_fraction"),
            "kept_per_class": kept_per_class(runs),
            **{key: _mean(runs, key) for key in runs[0] if self.timed and key.startswith("cpu_s_")},
        }
        if arm.name != BASELINE:
            verdict = self.verdict(arm)
            row["minus_uniform"] = asdict(self.level(arm))
            row["ratio_boss_epochs"] = asdict(verdict.ratio)
            row["verdict"], row["why"] = verdict.outcome, verdict.why
            row["ratio_wall_clock"] = asdict(self.wall(arm))
        if self.plan.arms_called(PLAIN) and arm.name != PLAIN:
            row["ratio_wall_clock_dataloader"] = asdict(self.wall(arm, PLAIN))
        return row

    def targets(self, target: float) -> dict[str, dict[str, Any]]:
        """For the arms of each name: Boss epochs to `target`, and their ratio to the baseline's."""
        base = self.to_target(BASELINE, target)
        found = {}
        for name in dict.fromkeys(arm.name for arm in self.plan.arms):
            mine = self.to_target(name, target)
            ratio = NOTHING if name == BASELINE else quotient(mine, base)
            found[name] = {"boss_epochs": asdict(mine), "ratio_boss_epochs": asdict(ratio)}
        return found


def kept_per_class(runs: Sequence[Summary]) -> list[float | None]:
    """Kept fraction of each class, over all `runs` together; None where a class had no candidate."""
    trained = [sum(column) for column in zip(*(run["trained_per_class"] for run in runs), strict=True)]
    dropped = [sum(column) for column in zip(*(run["dropped_per_class"] for run in runs), strict=True)]
    pairs = zip(trained, dropped, strict=False)  # the last of the dropped are those of a class not known
    return [kept / (kept + lost) if kept + lost else None for kept, lost in pairs]


def _mean(runs: Sequence[Summary], key: str) -> float | None:
    values = [run[key] for run in runs if run.get(key) is not None]
    return sum(values) / len(values) if len(values) == len(runs) else None
