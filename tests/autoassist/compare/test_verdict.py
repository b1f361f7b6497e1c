"""The statistics of a comparison, on learners whose truth is known."""

import numpy as np
import pytest

from autoassist.compare.verdict import Estimate, difference, geometric, judge, mean, needed, quotient

BUDGETS = (1.0, 2.0, 4.0)


class Learner:
    """Accuracy 1 - (floor + 0.03 / budget^power) plus noise: some that arms share by seed, some of each run."""

    def __init__(self, seed, seeds, own, floor=0.006, power=0.9):
        self.draw = np.random.default_rng(seed)
        self.own, self.floor, self.power = own, floor, power
        self.shared = self.draw.normal(0, 0.0006, seeds)

    def accuracies(self, budget):
        error = self.floor + 0.03 * budget**-self.power
        return (1 - error + self.shared + self.draw.normal(0, self.own, len(self.shared))).tolist()

    def verdict(self, ratio, budget=2.0, budgets=BUDGETS):
        """On an arm that does with `budget` what the baseline does with `budget` / `ratio`."""
        baseline = [self.accuracies(one) for one in budgets]
        return judge(budgets, baseline, budget, self.accuracies(budget / ratio))


def covers(estimate, truth):
    return estimate.low is not None and estimate.low <= truth <= estimate.high


@pytest.mark.parametrize("own", [0.0003, 0.0006, 0.0015])
@pytest.mark.parametrize("seeds", [3, 5])
@pytest.mark.parametrize("shape", [{"floor": 0.0, "power": 0.5}, {"floor": 0.006, "power": 0.9}])
def test_the_ratio_s_interval_covers_the_truth_in_85_of_100_comparisons(seeds, own, shape):
    found = [Learner(k, seeds, own, **shape).verdict(0.65).ratio for k in range(100)]
    assert sum(covers(ratio, 0.65) for ratio in found) >= 85


def test_two_budgets_are_enough():
    found = [Learner(k, 5, 0.0006).verdict(0.7, budgets=(2.0, 4.0)).ratio for k in range(100)]
    assert sum(covers(ratio, 0.7) for ratio in found) >= 85


def test_an_arm_that_is_truly_better_is_a_gain_and_a_worse_one_a_loss():
    better = [Learner(k, 5, 0.0006).verdict(0.6) for k in range(100)]
    assert sum(verdict.outcome == "gain" for verdict in better) >= 95
    assert np.median([verdict.ratio.value for verdict in better]) == pytest.approx(0.6, rel=0.05)
    worse = [Learner(k, 5, 0.0006).verdict(1.6) for k in range(100)]
    assert sum(verdict.outcome == "loss" for verdict in worse) >= 95


def test_an_arm_that_is_no_better_is_rarely_taken_for_one():
    found = [Learner(k, 5, 0.0006).verdict(1.0).outcome for k in range(200)]
    assert found.count("no gain") >= 170


def test_the_very_same_runs_under_another_name_are_no_gain():
    baseline = [Learner(0, 3, 0.0006).accuracies(one) for one in BUDGETS]
    for budget, accuracies in zip(BUDGETS, baseline, strict=True):
        verdict = judge(BUDGETS, baseline, budget, accuracies)
        assert (verdict.outcome, verdict.ratio.value) == ("no gain", pytest.approx(1.0))


def test_the_same_runs_are_no_gain_where_more_budget_gave_less_accuracy():
    baseline = [[0.90, 0.91], [0.95, 0.96], [0.94, 0.95]]
    assert judge(BUDGETS, baseline, 2.0, baseline[1]).outcome == "no gain"


@pytest.mark.parametrize(("level", "word"), [(0.99, "more accurate"), (0.90, "less accurate")])
def test_what_the_baseline_s_budgets_do_not_bracket_is_not_measured(level, word):
    baseline = [[0.95, 0.951, 0.949], [0.96, 0.961, 0.959], [0.97, 0.971, 0.969]]
    verdict = judge(BUDGETS, baseline, 2.0, [level, level + 0.001, level - 0.001])
    assert (verdict.outcome, verdict.ratio.value) == ("not measured", None)
    assert word in verdict.why


def test_where_no_budget_of_the_baseline_is_like_the_arm_the_ratio_has_no_interval_either():
    wide, narrow = (0.70, 0.80, 0.90), (0.7001, 0.7002, 0.7003)
    verdict = judge([4.0, 8.0], [wide, narrow], 4.0, (0.81, 0.90, 0.85))
    assert verdict.outcome == "no gain"
    assert verdict.why == "more accurate than the baseline at any of its budgets"
    assert (verdict.ratio.value, verdict.ratio.low, verdict.ratio.high) == (None, None, None)


def test_where_more_budget_gave_no_more_accuracy_the_same_runs_are_a_ratio_of_1():
    flat = [[0.94, 0.95], [0.94, 0.95], [0.96, 0.97]]
    for budget, accuracies in zip(BUDGETS, flat, strict=True):
        assert judge(BUDGETS, flat, budget, accuracies).ratio.value == pytest.approx(1.0)
    assert needed(BUDGETS, flat, flat[1]).value == pytest.approx(BUDGETS[0])


def test_one_seed_has_no_interval_and_no_verdict():
    verdict = judge(BUDGETS, [[0.9], [0.95], [0.97]], 2.0, [0.96])
    assert (verdict.outcome, verdict.ratio.low) == ("not measured", None)
    assert verdict.ratio.value == pytest.approx(2 / 2.8, rel=0.1)


def test_at_its_own_budgets_a_curve_is_exact():
    accuracies = [[0.90, 0.92], [0.95, 0.96], [0.97, 0.98]]
    for budget, goal in zip(BUDGETS, accuracies, strict=True):
        assert needed(BUDGETS, accuracies, goal).value == pytest.approx(budget)


def test_between_its_budgets_a_power_law_is_met_within_its_interval():
    accuracies = [[1 - 0.1 * budget**-0.5] * 2 for budget in BUDGETS]
    found = needed(BUDGETS, accuracies, [1 - 0.1 * 3**-0.5] * 2)
    assert found.low <= 3 <= found.high
    assert found.value == pytest.approx(3, rel=0.03)


def test_an_interval_that_reaches_the_ends_of_what_was_measured_says_so():
    found = needed(BUDGETS, [[0.9, 0.99], [0.91, 0.97], [0.99, 0.92]], [0.99, 0.9])
    assert (found.low, found.high, found.low_cut, found.high_cut) == (1.0, 4.0, True, True)


def test_student_s_interval_is_the_one_in_the_tables():
    found = mean([1.0, 2.0, 3.0, 4.0, 5.0])
    half = 2.132 * np.sqrt(2.5 / 5)  # t of 0.95 with 4 degrees of freedom
    assert (found.value, found.low, found.high) == pytest.approx((3.0, 3 - half, 3 + half), abs=1e-3)
    assert mean([2.0]) == Estimate(2.0, None, None)
    assert mean([]) == Estimate(None, None, None)


def test_pairing_takes_out_what_the_seeds_share():
    one, other = [0.90, 0.95, 0.99], [0.89, 0.94, 0.98]
    found = difference(one, other)
    assert (found.value, found.low, found.high) == pytest.approx((0.01, 0.01, 0.01))
    with pytest.raises(ValueError, match="shorter"):
        difference(one, other[:2])


def test_a_quotient_is_as_wide_as_both_and_equal_to_one_where_the_other_is_sure():
    sure = Estimate(2.0, 2.0, 2.0)
    assert quotient(Estimate(1.0, 0.8, 1.5), sure) == Estimate(0.5, pytest.approx(0.4), pytest.approx(0.75))
    both = quotient(Estimate(1.0, 0.8, 1.25), Estimate(1.0, 0.8, 1.25))
    assert (both.low, both.high) == pytest.approx((0.8 ** np.sqrt(2), 1.25 ** np.sqrt(2)))
    assert quotient(Estimate(None, 1.0, 2.0), sure).value is None


def test_a_quotient_of_lengths_covers_the_truth():
    draw, hits = np.random.default_rng(0), 0
    for _ in range(200):
        one, other = (geometric(np.exp(draw.normal(np.log(m), 0.1, 5)).tolist()) for m in (3.0, 2.0))
        hits += covers(quotient(one, other), 1.5)
    assert hits >= 170
