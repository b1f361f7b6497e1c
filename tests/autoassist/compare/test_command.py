"""Whole comparisons, in one process, of a linear model on toy data."""

import errno
import json

import pytest

from autoassist import launch as launching
from autoassist.compare.arms import parse_arms, parse_grid
from autoassist.compare.command import best, compare, tune_fraction
from autoassist.compare.plan import Plan
from autoassist.config import load
from autoassist.report import Report
from autoassist.rundir import sweep_folder
from autoassist.sweep import Stopped
from proto.errors import ConfigError


@pytest.fixture
def settings(toy_settings):
    return toy_settings


def plan_of(settings, policies="one=uniform,two=uniform,autoassist", budgets=(1, 2), tune=(), seeds=2):
    return Plan(settings, parse_arms(policies, budgets), seeds, parse_grid(tune))


def found(settings):
    return json.loads((sweep_folder(settings, "compare") / "compare.json").read_text())


def test_two_identical_arms_under_two_names_are_no_gain(settings, console):
    assert compare(plan_of(settings), 0.6, console) == 0
    arms = {row["arm"]: row for row in found(settings)["arms"]}
    assert len(arms) == 8
    for name in ("one@1", "two@1", "one@2", "two@2"):
        assert arms[name]["verdict"] == "no gain"
        assert arms[name]["accuracies"] == arms[f"uniform@{name[-1]}"]["accuracies"]
    assert arms["autoassist@2"]["kept_fraction"] < 1
    assert len(arms["autoassist@2"]["kept_per_class"]) == 3
    assert arms["uniform@2"]["train_s"] is None, "serial runs have no wall-clock"
    text = (sweep_folder(settings, "compare") / "compare.md").read_text()
    assert "| one@1 | " in text
    assert "no gain" in console.file.getvalue()
    assert {path.name for path in sweep_folder(settings, "compare").glob("*.png")} == {
        "accuracy.png",
        "kept.png",
        "classes.png",
    }


def test_it_is_tuned_without_the_test_split_which_is_seen_once_at_the_end(settings, console):
    one = plan_of(settings, "autoassist", tune=["boss.lr=0.001,0.2"], seeds=1)
    assert compare(one, None, console) == 0
    folder = sweep_folder(settings, "compare")
    for run_dir in (path for path in folder.iterdir() if path.is_dir()):
        lines = [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]
        tests = [line for line in lines if "test_accuracy" in line]
        assert [line["boss_epochs"] for line in tests] == (
            [] if run_dir.name.startswith("tune-") else [pytest.approx(load(run_dir / "config.toml", []).run.budget)]
        )
        summary = json.loads((run_dir / "summary.json").read_text())
        assert (summary["validation_accuracy"] is None) == bool(tests)
    assert {tuple(row["tuned"]) for row in found(settings)["arms"]} == {("boss.lr=0.2",)}
    assert "No tuning run saw the test split" in console.file.getvalue()


LOGGED = """
import numpy as np

class Logged:
    targets = np.arange(60) % 3

    def __init__(self, split, log):
        self.split, self.log = split, log
    def __len__(self):
        return 60
    def __getitem__(self, index):
        with open(self.log, "a") as file:
            print(self.split, index, file=file)
        return np.eye(3, 4)[index % 3].astype(np.float32), index % 3

def data(log):
    return Logged("train", log), Logged("test", log)
"""


def test_no_item_of_the_test_split_is_read_before_training_has_ended(settings, console, monkeypatch, tmp_path):
    (tmp_path / "logged.py").write_text(LOGGED)
    log, launch = tmp_path / "log", launching.launch

    def noted(settings, console):
        with log.open("a") as file:
            print("run", settings.run.name, file=file)
        return launch(settings, console)

    monkeypatch.setattr(launching, "launch", noted)
    words = {"name": "./logged.py:data", "args": {"log": str(log)}}
    settings = settings.model_copy(update={"data": settings.data.model_copy(update=words)})
    assert compare(plan_of(settings, "random", tune=["boss.lr=0.1,0.2"], seeds=1), None, console) == 0
    _, *runs = log.read_text().split("run ")
    assert len(runs) == 8 + 4
    for text in runs:
        name, *lines = text.splitlines()
        trained = max(k for k, line in enumerate(lines) if line.startswith("train "))
        tested = [(k, int(line.split()[1])) for k, line in enumerate(lines) if line.startswith("test ")]
        # What items are like is told from the first few.
        assert {number for k, number in tested if k < trained} <= set(range(4)), name
        whole = set() if name.startswith("tune-") else set(range(60))
        assert {number for k, number in tested if k > trained} == whole, name


def test_it_goes_on_where_it_was_interrupted_and_adds_seeds(settings, console, monkeypatch):
    made, launch = [], launching.launch

    def counted(settings, console):
        if len(made) == 3:
            raise KeyboardInterrupt
        made.append(settings.run.name)
        return launch(settings, console)

    monkeypatch.setattr(launching, "launch", counted)
    with pytest.raises(KeyboardInterrupt):
        compare(plan_of(settings, "autoassist", seeds=1), None, console)
    monkeypatch.setattr(launching, "launch", lambda *args: made.append(args[0].run.name) or launch(*args))
    assert compare(plan_of(settings, "autoassist", seeds=1), None, console) == 0
    assert compare(plan_of(settings, "autoassist", seeds=2), None, console) == 0
    assert len(made) == len(set(made)) == 8
    assert [len(row["accuracies"]) for row in found(settings)["arms"]] == [2] * 4
    assert "autoassist@1-1 ... (3 left)" in console.file.getvalue()


def test_another_configuration_is_not_mixed_in(settings, console):
    assert compare(plan_of(settings, "uniform", budgets=(1,), seeds=1), None, console) == 0
    other = settings.model_copy(update={"boss": settings.boss.model_copy(update={"lr": 0.3})})
    with pytest.raises(ConfigError, match="of another configuration"):
        compare(plan_of(other, "uniform", budgets=(1,), seeds=1), None, console)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("trained_only", "has no test split; policies are compared by test accuracy"),
        ("numbers", "its labels are no class numbers; policies are compared by test accuracy"),
    ],
)
def test_data_without_a_test_accuracy_are_refused_before_any_run(settings, console, name, problem):
    data = settings.data.model_copy(update={"name": f"./toy.py:{name}"})
    with pytest.raises(ConfigError, match=f"data.name = './toy.py:{name}': {problem}"):
        compare(plan_of(settings.model_copy(update={"data": data})), None, console)
    assert not sweep_folder(settings, "compare").exists()


def test_tuning_takes_the_validation_split_there_is(settings):
    data = settings.data
    assert tune_fraction(settings) == 0.1
    own = data.model_copy(update={"name": "./toy.py:validated"})
    assert tune_fraction(settings.model_copy(update={"data": own})) == 0.0
    cut = data.model_copy(update={"val_fraction": 0.3})
    assert tune_fraction(settings.model_copy(update={"data": cut})) == 0.3


def test_a_stream_has_nothing_to_cut_a_validation_split_from(settings, tmp_path):
    (tmp_path / "walked.py").write_text("def data():\n    return map(lambda k: ([0.0], k % 2), range(9))\n")
    data = settings.data.model_copy(update={"name": "./walked.py:data", "epoch_size": 9})
    with pytest.raises(ConfigError, match="is a stream without a validation split, which --tune needs"):
        tune_fraction(settings.model_copy(update={"data": data}))


def test_the_best_on_validation_is_chosen_and_what_failed_is_not(settings):
    tuned = plan_of(settings, "autoassist", budgets=(1,), tune=["boss.lr=0.1,0.2,0.4"]).tuning()

    def make(run):
        if run.settings.boss.lr == 0.4:
            raise Stopped(1)
        return {"validation_accuracy": 0.9 if run.settings.boss.lr == 0.2 else 0.8}

    assert set(best(tuned, make).values()) == {("boss.lr=0.2",)}
    with pytest.raises(Stopped):
        best([one for one in tuned if one[1] == ("boss.lr=0.4",)], make)


def test_a_rate_that_ruins_a_serial_run_is_not_chosen(settings, console):
    plan = plan_of(settings, "uniform", budgets=(1,), tune=["boss.lr=1e30,0.1"], seeds=1)
    assert compare(plan, None, console) == 0
    assert [row["tuned"] for row in found(settings)["arms"]] == [["boss.lr=0.1"]]
    assert "tune-uniform@1-0-0: RuntimeError: step 3: 3 batches in a row had no finite loss" in console.file.getvalue()
    assert "Failed in tuning, and so not chosen: tune-uniform@1-0-0." in found(settings)["notes"]


def test_a_policy_that_does_not_take_a_value_is_refused_before_any_run(settings, console):
    plan = plan_of(settings, "random", tune=["policy.args.fraction=0.5,half"])
    with pytest.raises(ConfigError, match=r"^policy\.args\.fraction = 'half': wrong type; needed: a number$"):
        compare(plan, None, console)
    assert not sweep_folder(settings, "compare").exists()


def test_a_full_disk_is_one_line_and_what_was_made_is_kept(settings, console, monkeypatch):
    def full(*args):
        raise OSError(errno.ENOSPC, "No space left on device")

    plan = plan_of(settings, "uniform", budgets=(1,), seeds=1)
    with monkeypatch.context() as patched:
        patched.setattr(Report, "write", full)
        with pytest.raises(ConfigError, match="No space left on device; the same command goes on"):
            compare(plan, None, console)
    assert compare(plan, None, console) == 0
    assert "1 runs of 1 arms, 0 still to be made" in console.file.getvalue()


def test_ctrl_c_in_tuning_is_no_failed_rate(settings):
    def make(run):
        raise Stopped(130)

    with pytest.raises(Stopped) as stopped:
        best(plan_of(settings, tune=["boss.lr=0.1,0.2"]).tuning(), make)
    assert stopped.value.code == 130
