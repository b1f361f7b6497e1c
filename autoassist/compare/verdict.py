"""What a comparison shows: means with intervals, and the work that `uniform` needs for another arm's accuracy. Pure.

All intervals are paired over seeds and use Student's t, whose quantiles are wide where seeds are few, as they are here.
That of a ratio is found by inverting a test (Fieller 1954): it holds every ratio that the paired t-test does not
reject. So it needs no linearisation, which with three seeds would be too sure of itself.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

CONFIDENCE = 0.9
FLOOR = 1e-6
"""Errors below are taken for this one, so that they have a logarithm."""
STEPS = 400
"""Points at which the test is made between two budgets: a factor of 2 is cut into steps of 0.2 %."""

Outcome = Literal["gain", "no gain", "loss", "not measured", "never selected"]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Estimate:
    """A number and its interval; None is what was not measured.

    `low_cut`, `high_cut`: the interval may go on beyond what was measured on that side.
    """

    value: float | None
    low: float | None
    high: float | None
    low_cut: bool = False
    high_cut: bool = False

    def within(self, low: float, high: float) -> "Estimate":
        """The same of a number that cannot be below `low` or above `high`."""
        one, other = (None if end is None else min(max(end, low), high) for end in (self.low, self.high))
        return replace(self, low=one, high=other)


NOTHING = Estimate(None, None, None)


@dataclass(frozen=True)
class Verdict:
    """How an arm stands against the baseline. `ratio` is its work over the baseline's at equal accuracy: below 1 is a
    gain. `why` says what keeps it from being measured. "never selected": the arm kept every candidate."""

    outcome: Outcome
    ratio: Estimate
    why: str = ""


def mean(values: Sequence[float], confidence: float = CONFIDENCE) -> Estimate:
    """Mean of `values`, one a seed, with Student's interval; one value has none."""
    if len(values) == 0:
        return NOTHING
    middle = float(np.mean(values))
    if len(values) == 1:
        return Estimate(middle, None, None)
    half = _quantile(len(values), confidence) * float(np.std(values, ddof=1)) / math.sqrt(len(values))
    return Estimate(middle, middle - half, middle + half)


def difference(one: Sequence[float], other: Sequence[float], confidence: float = CONFIDENCE) -> Estimate:
    """Mean of `one` - `other`, paired by seed. Raises ValueError when the lengths differ."""
    return mean([a - b for a, b in zip(one, other, strict=True)], confidence)


def needed(
    budgets: Sequence[float],
    accuracies: Sequence[Sequence[float]],
    goal: Sequence[float],
    confidence: float = CONFIDENCE,
    near: float = 0.0,
) -> Estimate:
    """The budget at which a baseline reaches the accuracy `goal`; of several, the one that is nearest to `near`.

    `accuracies` [K][S] are the baseline's at the rising `budgets` [K], `goal` [S] is the accuracy of another arm, with
    the same seeds. Where more budget has given less accuracy both are replaced by their mean (isotonic regression).
    Between two budgets the error falls as a power of the budget (log error linear in log budget), or as a constant
    plus one over the budget: learning curves lie between the two. The value takes the middle; the interval holds every
    budget at which the paired t-test does not tell the two arms apart under one of them. The value is None where the
    budgets do not bracket the mean of `goal`.
    """
    curve, target = _isotonic(np.asarray(accuracies, float)), np.asarray(goal, float)
    means, middle = curve.mean(axis=1), float(target.mean())
    xs, values, straighter = _walk(np.asarray(budgets, float), curve, means)
    one, other = (target - values).mean(axis=1), (target - straighter).mean(axis=1)
    off = np.abs(one + other)
    equal = np.flatnonzero(off <= off.min() + 1e-12)
    nearest = int(equal[np.argmin(np.abs(xs[equal] - near))])
    bracketed = bool(means[0] - 1e-12 <= middle <= means[-1] + 1e-12)
    value = float(xs[nearest]) if bracketed else None
    if len(target) == 1:
        return Estimate(value, None, None)
    error = (target - values).std(axis=1, ddof=1) / math.sqrt(len(target))
    # Nothing is told apart where the two rules disagree on which is the better one.
    apart = np.where(one * other < 0, 0, np.minimum(np.abs(one), np.abs(other)))
    held = apart <= _quantile(len(target), confidence) * error + 1e-12
    inside = np.flatnonzero(held).tolist() + [nearest] * bracketed
    if not inside:
        return NOTHING
    # To the next points outside: the ends lie between two.
    low, high = max(min(inside) - 1, 0), min(max(inside) + 1, len(xs) - 1)
    return Estimate(value, float(xs[low]), float(xs[high]), bool(held[0]), bool(held[-1]))


def judge(
    budgets: Sequence[float],
    accuracies: Sequence[Sequence[float]],
    budget: float,
    goal: Sequence[float],
    confidence: float = CONFIDENCE,
) -> Verdict:
    """The verdict on an arm that reached `goal` [S] with `budget`, against a baseline (see `needed`).

    "no gain" where the ratio's interval contains 1, or the two cannot be told apart at an equal budget.
    """
    epochs = needed(budgets, accuracies, goal, confidence, near=budget)
    ratio = _over(budget, epochs)
    if len(goal) == 1:
        return Verdict("not measured", ratio, "one seed has no interval")
    equal = [list(found) for at, found in zip(budgets, accuracies, strict=True) if at == budget]
    level = difference(goal, equal[0], confidence) if equal else NOTHING
    if level.low is not None and level.high is not None and level.low <= 1e-12 and level.high >= -1e-12:
        return Verdict("no gain", _with_one(ratio), "" if ratio.value is not None else _outside(accuracies, goal))
    if ratio.value is None or ratio.low is None or ratio.high is None:
        return Verdict("not measured", ratio, _outside(accuracies, goal))
    if ratio.low <= 1 <= ratio.high:
        return Verdict("no gain", ratio)
    return Verdict("gain" if ratio.high < 1 else "loss", ratio)


def quotient(one: Estimate, other: Estimate) -> Estimate:
    """`one` / `other` with an interval from theirs on the log scale, by the method of variance estimates recovery
    (Zou and Donner 2008), which takes them for independent. All must be positive."""
    if one.value is None or other.value is None:
        return NOTHING
    value = one.value / other.value
    if one.low is None or one.high is None or other.low is None or other.high is None:
        return Estimate(value, None, None)
    below = math.hypot(math.log(one.value / one.low), math.log(other.high / other.value))
    above = math.hypot(math.log(one.high / one.value), math.log(other.value / other.low))
    low_cut, high_cut = one.low_cut or other.high_cut, one.high_cut or other.low_cut
    return Estimate(value, value * math.exp(-below), value * math.exp(above), low_cut, high_cut)


def geometric(values: Sequence[float], confidence: float = CONFIDENCE) -> Estimate:
    """Geometric mean of positive `values`, with Student's interval of their logarithms."""
    logs = mean([math.log(value) for value in values], confidence)
    if logs.value is None or logs.low is None or logs.high is None:
        return replace(logs, value=None if logs.value is None else math.exp(logs.value))
    return Estimate(math.exp(logs.value), math.exp(logs.low), math.exp(logs.high))


def _quantile(n: int, confidence: float) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(n - 1, 0.5 + confidence / 2))


def _isotonic(curve: Floats) -> Floats:
    """`curve` [K, S] with neighbours pooled until the means over S do not fall (pool adjacent violators)."""
    blocks: list[list[int]] = []
    for k in range(len(curve)):
        blocks.append([k])
        while len(blocks) > 1 and curve[blocks[-2]].mean() > curve[blocks[-1]].mean():
            last = blocks.pop()
            blocks[-1] += last
    pooled = curve.copy()
    for block in blocks:
        pooled[block] = curve[block].mean(axis=0)
    return pooled


def _walk(budgets: Floats, curve: Floats, means: Floats) -> tuple[Floats, Floats, Floats]:
    """Budgets [P] from the first to the last, and the accuracies [P, S] of each seed there, under both rules."""
    if len(budgets) == 1:
        return budgets, curve, curve
    xs, powers, inverses = [budgets[:1]], [curve[:1]], [curve[:1]]
    part = np.arange(1, STEPS + 1) / STEPS
    for k in range(len(budgets) - 1):
        x = budgets[k] ** (1 - part) * budgets[k + 1] ** part
        x[-1] = budgets[k + 1]
        xs.append(x)
        low, high = max(1 - means[k], FLOOR), max(1 - means[k + 1], FLOOR)
        # How far between the two budgets the mean is: the same for each seed, so that the test stays linear in them.
        power = part if low == high else (low - low ** (1 - part) * high**part) / (low - high)
        inverse = (1 / budgets[k] - 1 / x) / (1 / budgets[k] - 1 / budgets[k + 1])
        for share, into in ((power, powers), (inverse, inverses)):
            into.append((1 - share)[:, None] * curve[k] + share[:, None] * curve[k + 1])
    return np.concatenate(xs), np.concatenate(powers), np.concatenate(inverses)


def _over(budget: float, epochs: Estimate) -> Estimate:
    value, low, high = (None if x is None else budget / x for x in (epochs.value, epochs.high, epochs.low))
    return Estimate(value, low, high, epochs.high_cut, epochs.low_cut)


def _with_one(ratio: Estimate) -> Estimate:
    """Pooling may have moved the baseline at an equal budget; what the test there does not reject belongs to it."""
    if ratio.low is None or ratio.high is None:
        return ratio
    return replace(ratio, low=min(ratio.low, 1.0), high=max(ratio.high, 1.0))


def _outside(accuracies: Sequence[Sequence[float]], goal: Sequence[float]) -> str:
    middle, means = float(np.mean(goal)), [float(np.mean(found)) for found in accuracies]
    if middle > max(means):
        return "more accurate than the baseline at any of its budgets"
    if middle < min(means):
        return "less accurate than the baseline at any of its budgets"
    return "the baseline's budgets do not bracket it"
