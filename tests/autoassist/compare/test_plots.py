"""What the pictures show, read from their axes."""

from contextlib import contextmanager

import pytest

from autoassist.compare import plots
from autoassist.compare.arms import parse_arms
from autoassist.compare.plan import Plan
from autoassist.compare.results import Results
from autoassist.config import load


@pytest.fixture
def axes(fonts, monkeypatch):
    """The axes that a picture is drawn on, which is not saved."""
    from matplotlib.figure import Figure

    drawn = Figure().subplots(1, 2)

    @contextmanager
    def picture(path, size, title, columns=1):
        yield list(drawn[:columns])

    monkeypatch.setattr(plots, "picture", picture)
    return drawn


def results(*words, budgets=(1, 2, 4)):
    """Two arms that are as accurate as the baseline, nearly always right."""
    arms = parse_arms("one=assist,two=assist", budgets)
    runs = {arm: [{"test_accuracy": accuracy, "train_s": 10 * arm.budget} for accuracy in (0.98, 1.0)] for arm in arms}
    return Results(Plan(load(None, list(words)), arms, 2), {}, runs)


def lines(axes):
    return {line.get_label(): line for line in axes.get_lines()}


def test_arms_of_equal_accuracy_stand_side_by_side(axes):
    plots.accuracy(results("run.serial=true"), None, None)
    places = [line.get_xdata()[1] for line in lines(axes[0]).values()]
    assert places[0] == 2
    assert len(set(places)) == 3
    assert max(places) < 2.2


def test_arms_of_a_single_budget_stand_together_too(axes):
    plots.accuracy(results("run.serial=true", budgets=[2]), None, None)
    places = [line.get_xdata()[0] for line in lines(axes[0]).values()]
    assert len(set(places)) == 3
    assert max(places) < 2.2
    low, high = axes[0].get_xlim()
    assert low < 1.5 < 3 < high


def test_the_baseline_is_dashed_and_lies_on_top(axes):
    plots.accuracy(results(), None, None)
    for panel in axes:
        found = lines(panel)
        assert found["uniform"].get_linestyle() == "--"
        assert found["uniform"].get_zorder() > max(found["one"].get_zorder(), found["two"].get_zorder())


def test_no_accuracy_above_100_percent_is_shown(axes):
    plots.accuracy(results("run.serial=true"), None, None)
    assert axes[0].get_ylim()[1] <= 100
    tops = [segment[:, 1].max() for bars in axes[0].collections for segment in bars.get_segments()]
    assert len(tops) == 9
    assert max(tops) == 100
