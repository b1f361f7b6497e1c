"""What runs amount to, from summaries made up so that the answer is known."""

import io
from dataclasses import asdict, replace

import pytest
from rich.console import Console

from autoassist.compare.arms import PLAIN, Arm, parse_arms, parse_grid
from autoassist.compare.plan import Plan
from autoassist.compare.results import Results, kept_per_class
from autoassist.compare.tables import facts_of, figures, report, span
from autoassist.compare.verdict import Estimate
from autoassist.config import load

ERRORS = {1.0: 0.08, 2.0: 0.04, 4.0: 0.02}
"""Of the baseline; with half the work the arm `autoassist` has the same."""
NOISE = (0.0004, -0.0003, -0.0001)


def summary(error, seconds, seed):
    return {
        "test_accuracy": 1 - error + NOISE[seed], "test_macro_f1": 0.9, "test_worst_class_accuracy": 0.8,
        "optimizer_steps": 100, "train_s": seconds * (1 + 0.01 * seed), "kept_fraction": 0.5, "cpu_s_boss": 3.0,
        "trained_per_class": [30, 10], "dropped_per_class": [10, 30, 5],
    }  # fmt: skip


def results(*words, plain=False, tune=(), chosen=None):
    arms = parse_arms("autoassist@1,autoassist@2", [4])
    arms += [Arm(PLAIN, "uniform", budget) for budget in ERRORS] * plain
    plan = Plan(load(None, list(words)), arms, 3, parse_grid(tune), launches={PLAIN: ("tensors", None)})
    runs = {}
    for arm in arms:
        error = ERRORS[arm.budget * 2 if arm.name == "autoassist" else arm.budget]
        pace = {"uniform": 10.0, "autoassist": 11.0, PLAIN: 8.0}[arm.name]
        runs[arm] = [summary(error, pace * arm.budget, seed) for seed in range(3)]
    return Results(plan, chosen or {}, runs)


def arm(found, label):
    return next(one for one in found.plan.arms if one.label == label)


def test_half_the_work_for_the_same_accuracy_is_a_ratio_of_a_half():
    found = results()
    verdict = found.verdict(arm(found, "autoassist@2"))
    assert verdict.outcome == "gain"
    assert verdict.ratio.value == pytest.approx(0.5, rel=0.01)
    assert found.level(arm(found, "autoassist@2")).value == pytest.approx(0.02)


def test_wall_clock_is_the_ratio_times_what_a_boss_epoch_costs():
    found = results(plain=True)
    mine = arm(found, "autoassist@2")
    assert found.wall(mine).value == pytest.approx(0.5 * 11 / 10, rel=0.01)
    assert found.wall(mine, PLAIN).value == pytest.approx(0.5 * 11 / 8, rel=0.01)
    assert found.wall(arm(found, "uniform@2"), PLAIN).value == pytest.approx(10 / 8, rel=0.01)


def test_serial_runs_have_no_wall_clock():
    found = results("run.serial=true")
    assert found.wall(arm(found, "autoassist@2")).value is None
    text = report(found, figures(found, None), facts_of(found.plan, "cpu")).markdown()
    assert "seconds / uniform's" not in text
    assert "wall-clock, and CPU seconds of each process, are not measured" in text


def test_boss_epochs_to_a_target_are_those_of_each_curve():
    targets = results().targets(1 - 0.04)
    assert targets["uniform"]["boss_epochs"]["value"] == pytest.approx(2.0, rel=0.02)
    assert targets["autoassist"]["boss_epochs"]["value"] == pytest.approx(1.0, rel=0.02)
    assert targets["autoassist"]["ratio_boss_epochs"]["value"] == pytest.approx(0.5, rel=0.02)


def test_kept_per_class_leaves_out_those_of_a_class_not_known():
    runs = [{"trained_per_class": [30, 10, 0], "dropped_per_class": [10, 30, 0, 5]}] * 2
    assert kept_per_class(runs) == [0.75, 0.25, None]


def test_a_choice_at_the_edge_of_its_grid_is_pointed_out():
    found = results(tune=["boss.lr=0.05,0.1,0.2"])
    chosen = {one: (f"boss.lr={0.2 if one.label == 'uniform@4' else 0.1}",) for one in found.plan.arms}
    found = results(tune=["boss.lr=0.05,0.1,0.2"], chosen=chosen)
    notes = report(found, figures(found, 0.96), facts_of(found.plan, "cpu")).notes
    assert "At the edge of their grid: uniform@4 boss.lr=0.2. A wider one may suit these better." in notes
    assert any("10% of the training split, cut off for these runs only" in note for note in notes)


def test_what_is_no_number_has_no_edge():
    tune = ["policy.args.rule=a,b,c"]
    found = results(tune=tune, chosen={arm(results(), "autoassist@2"): ("policy.args.rule=a",)})
    assert not any("edge of their grid" in note for note in notes(found))


def test_the_table_says_what_was_not_measured():
    found = results()
    rows = {row["arm"]: row for row in figures(found, None)["arms"]}
    assert rows["autoassist@2"]["verdict"] == "gain"
    better = {**found.runs, arm(found, "autoassist@2"): [summary(0.001, 20.0, seed) for seed in range(3)]}
    found = Results(found.plan, {}, better)
    row = next(row for row in figures(found, None)["arms"] if row["arm"] == "autoassist@2")
    assert (row["verdict"], row["ratio_boss_epochs"]["value"]) == ("not measured", None)
    text = report(found, figures(found, None), facts_of(found.plan, "cpu")).markdown()
    assert "No ratio for autoassist@2: more accurate than the baseline at any of its budgets; add a" in text


def never_selecting(found, name="autoassist"):
    """`found`, but for the arms called `name`: they kept everything, so they are the baseline's."""
    runs = {
        one: [{**run, "kept_fraction": 1.0} for run in found.runs[arm(found, f"uniform@{one.budget:g}")]]
        if one.name == name
        else found.runs[one]
        for one in found.plan.arms
    }
    return Results(found.plan, {}, runs)


def test_a_policy_that_never_selected_is_neither_gain_nor_failure():
    found = never_selecting(results())
    rows = {row["arm"]: row for row in figures(found, None)["arms"]}
    assert rows["autoassist@2"]["verdict"] == "never selected"
    text = report(found, figures(found, None), facts_of(found.plan, "cpu")).markdown()
    assert "| never selected |" in text
    assert "Never selected: autoassist@1, autoassist@2. All candidates were kept" in text
    assert "Try a larger budget." in text


def test_a_policy_that_weighs_all_and_drops_none_has_a_verdict():
    arms = parse_arms("w=./mine.py:Weighs@2", [1, 4])
    runs = {one: [summary(ERRORS[one.budget], 1.0, seed) for seed in range(3)] for one in arms}
    mine = next(one for one in arms if one.name == "w")
    runs[mine] = [{**run, "kept_fraction": 1.0} for run in runs[mine]]
    found = Results(Plan(load(None, []), arms, 3), {}, runs)
    assert found.verdict(mine).outcome == "never selected", "the very same accuracies"
    runs[mine] = [{**run, "test_accuracy": run["test_accuracy"] + 0.01} for run in runs[mine]]
    assert found.verdict(mine).outcome == "gain"


def test_plain_training_has_nothing_to_select_with():
    found = never_selecting(results(plain=True), PLAIN)
    assert [found.idle(one) for one in found.plan.arms] == [False] * len(found.plan.arms)
    assert found.verdict(next(one for one in found.plan.arms if one.name == PLAIN)).outcome == "no gain"


def test_one_run_that_selected_is_enough_for_a_verdict():
    found = never_selecting(results())
    mine = arm(found, "autoassist@2")
    found.runs[mine][1]["kept_fraction"] = 0.99
    assert found.verdict(mine).outcome == "no gain"
    text = report(found, figures(found, None), facts_of(found.plan, "cpu")).markdown()
    assert "Never selected: autoassist@1. All" in text


def test_the_interval_of_an_accuracy_ends_at_one():
    found = results()
    mine = arm(found, "autoassist@2")
    found.runs[mine][0]["test_accuracy"] = 0.8
    found.runs[mine][1]["test_accuracy"] = 1.0
    assert found.accuracy(mine).high == 1.0
    assert 0 < found.accuracy(mine).low < 0.8


@pytest.mark.parametrize(
    ("low_cut", "high_cut", "text"),
    [
        (False, False, "1.00 (0.90 to 1.20)"),
        (False, True, "1.00 (0.90 or more)"),
        (True, False, "1.00 (1.20 or less)"),
        (True, True, "1.00 (no bound)"),
    ],
)
def test_an_end_beyond_what_was_measured_is_no_number(low_cut, high_cut, text):
    assert span(asdict(Estimate(1.0, 0.9, 1.2, low_cut, high_cut)), ".2f") == text


def notes(found):
    return report(found, figures(found, None), facts_of(found.plan, "cpu")).notes


def test_what_went_wrong_in_a_run_that_counts_is_told():
    assert not any("Workers" in note or "Failed" in note for note in notes(results()))
    found = replace(results(), failed=["tune-uniform@1-2-0"])
    found.runs[arm(found, "autoassist@2")][1] |= {"restarts": [{}, {}], "instances_skipped": 0, "batches_uniform": 7}
    assert "Workers were restarted in: autoassist@2 2." in notes(found)
    assert "Batches had everything kept, since the Assistant was too late, in: autoassist@2 7." in notes(found)
    assert not any("skipped, since" in note for note in notes(found))
    assert "Failed in tuning, and so not chosen: tune-uniform@1-2-0." in notes(found)


def test_an_arm_that_never_tells_a_class_right_is_named():
    found = results()
    for run in found.runs[arm(found, "uniform@1")]:
        run["test_worst_class_accuracy"] = 0.0
    assert any(note.startswith("Some class was never told right by uniform@1: ") for note in notes(found))


def test_a_policy_section_that_no_arm_has_is_told():
    text = "The [policy] section of the configuration is for assist, which is no arm here: it had no effect."
    assert text in notes(results("policy.args.beta=2"))
    assert text not in notes(results())
    assert text not in notes(results("policy.name=autoassist", "policy.gamma=0.2"))


def test_of_many_arms_one_may_show_a_gain_by_chance():
    arms = parse_arms("random@1,random@2,ledger@1,ledger@2", [4])
    runs = {one: [summary(ERRORS[one.budget], 1.0, seed) for seed in range(3)] for one in arms}
    found = Results(Plan(load(None, []), arms, 3), {}, runs)
    assert any(note.startswith("4 arms were judged.") for note in notes(found))
    assert not any("were judged" in note for note in notes(results()))


def test_one_seed_promises_no_interval():
    found = results()
    one = Results(replace(found.plan, seeds=1), {}, {each: runs[:1] for each, runs in found.runs.items()})
    assert "One seed has no interval, and so no verdict." in notes(one)
    assert not any("In brackets" in note or "No ratio" in note for note in notes(one))


def test_in_80_columns_nothing_is_cut_and_no_interval_is_broken():
    arms = parse_arms("selective=random@1,selective=random@2", [4])
    plan = Plan(load(None, []), arms, 3, parse_grid(["boss.lr=0.05,0.1,0.2"]))
    runs = {one: [summary(ERRORS[one.budget], 1e4, seed) for seed in range(3)] for one in arms}
    found = Results(plan, dict.fromkeys(arms, ("boss.lr=0.05",)), runs)
    console = Console(file=io.StringIO(), width=80)
    report(found, figures(found, 0.95), facts_of(plan, "cpu")).show(console)
    text = console.file.getvalue()
    assert max(map(len, text.splitlines())) <= 80
    table = text[: text.index("- In brackets")]
    assert "…" not in table
    for words in ("selective@1", "lr=0.05", "0.25 to 0.75", "no gain", "100", "-"):
        assert words in table
    assert all(line.count("(") == line.count(")") for line in table.splitlines())


def heads(found):
    return [table.heads for table in report(found, figures(found, None), facts_of(found.plan, "cpu")).tables]


def test_only_what_ran_as_processes_has_tables_of_time():
    serial, processes = heads(results("run.serial=true")), heads(results())
    assert len(serial) == 2
    assert len(processes) == 4
    assert processes[:2] == serial
    assert "optimizer steps" in serial[1]
    assert ["CPU seconds", "boss"] in processes
