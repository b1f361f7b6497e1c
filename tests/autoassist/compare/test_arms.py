"""What is compared, as words on the command line."""

import pytest

from autoassist.compare.arms import Arm, grid_of, parse_arms, parse_budgets, parse_grid
from proto.errors import ConfigError


def labels(text, budgets):
    return [arm.label for arm in parse_arms(text, budgets)]


def test_uniform_is_there_at_every_budget_that_occurs():
    assert labels("autoassist", [2, 4]) == ["uniform@2", "uniform@4", "autoassist@2", "autoassist@4"]
    assert labels("autoassist@2.2,uniform@4", []) == ["uniform@2.2", "uniform@4", "autoassist@2.2"]
    assert labels("", [1]) == ["uniform@1"]


@pytest.mark.parametrize(
    ("text", "arm"),
    [
        ("soft=autoassist:policy.gamma=0.05", Arm("soft", "autoassist", 2, ("policy.gamma=0.05",))),
        ("autoassist@3:policy.gamma=0.2:assistant.lr=2.0",
         Arm("autoassist", "autoassist", 3, ("policy.gamma=0.2", "assistant.lr=2.0"))),
        ("./own.py:Mine", Arm("Mine", "./own.py:Mine", 2)),
        ("x=a.b:Mine@1:policy.args.k=[1,2]", Arm("x", "a.b:Mine", 1, ("policy.args.k=[1,2]",))),
        ("two=uniform", Arm("two", "uniform", 2)),
        ("a=x:policy.args={v=1,w=[2,3]}", Arm("a", "x", 2, ("policy.args={v=1,w=[2,3]}",))),
        ('a=x:policy.args.rule="b,c"', Arm("a", "x", 2, ('policy.args.rule="b,c"',))),
        ('a=x@3:policy.args.file="b:c.npy"', Arm("a", "x", 3, ('policy.args.file="b:c.npy"',))),
        ("./a@b/p.py:X", Arm("X", "./a@b/p.py:X", 2)),
    ],
)  # fmt: skip
def test_an_arm_has_a_name_a_policy_a_budget_and_overrides(text, arm):
    assert parse_arms(text, [2])[-1] == arm


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("autoassist:boss.lr=0.1", "arms may differ in these keys only: policy.*, assistant.*"),
        ("autoassist:batcher.batch_size=64", "arms may differ in these keys only"),
        ("autoassist,autoassist:policy.gamma=0.2", "two arms are called autoassist@2"),
        ("uniform:policy.gamma=0.2", "uniform is the baseline's name"),
        ("dataloader=autoassist", "dataloader is the baseline's name"),
        ("assist:policy.name=uniform", "arms may differ in these keys only"),
        ("autoassist@-1", "must be positive"),
        ("=x", "is not [NAME=]POLICY[@BUDGET]"),
        ("a/b=autoassist", "is not [NAME=]POLICY[@BUDGET]"),
    ],
)
def test_an_arm_that_would_not_be_comparable_is_refused(text, problem):
    with pytest.raises(ConfigError) as error:
        parse_arms(text, [2])
    assert problem in str(error.value)


def test_an_arm_without_a_budget_is_refused():
    with pytest.raises(ConfigError, match="add @BUDGET"):
        parse_arms("autoassist", [])


@pytest.mark.parametrize("text", ["2,x", "0", "-1", "inf"])
def test_budgets_are_positive_numbers(text):
    with pytest.raises(ConfigError, match="must be positive"):
        parse_budgets(text)


def test_a_grid_is_every_combination():
    assert parse_grid([]) == [()]
    assert parse_grid(["boss.lr=0.1,0.2", "policy.gamma=0.3,0.4"]) == [
        ("boss.lr=0.1", "policy.gamma=0.3"), ("boss.lr=0.1", "policy.gamma=0.4"),
        ("boss.lr=0.2", "policy.gamma=0.3"), ("boss.lr=0.2", "policy.gamma=0.4"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "key", ["batcher.batch_size", "boss.threads", "run.budget", "data.val_fraction", "boss.mixup", "policy.name"]
)
def test_what_must_be_equal_in_all_arms_cannot_be_tuned(key):
    with pytest.raises(ConfigError, match="must be the same in all arms"):
        parse_grid([f"{key}=1,2"])


def test_the_baseline_tries_each_rate_once_whatever_policies_have_to_tune():
    grid = parse_grid(["boss.lr=0.1,0.2", "policy.gamma=0.3,0.4"])
    assert grid_of(Arm("uniform", "uniform", 1), grid) == [("boss.lr=0.1",), ("boss.lr=0.2",)]
    assert grid_of(Arm("a", "autoassist", 1), grid) == grid


def test_what_an_arm_sets_itself_is_not_tuned():
    grid = parse_grid(["boss.lr=0.1,0.2", "policy.gamma=0.3,0.4"])
    assert grid_of(Arm("a", "autoassist", 1, ("policy.gamma=0.5",)), grid) == [("boss.lr=0.1",), ("boss.lr=0.2",)]


def test_values_in_brackets_are_one():
    assert parse_grid(["policy.args.by=[1,2],[3]"]) == [("policy.args.by=[1,2]",), ("policy.args.by=[3]",)]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["boss.lr=0.1"], "one value is no choice"),
        (["boss.lr=0.1,0.1"], "one value is no choice"),
        (["boss.lr=0.1,0.2", "boss.lr=0.4,0.8"], "boss.lr is there twice"),
        (["boss.lr=0.1,"], "is not section.key=value,value"),
    ],
)
def test_a_choice_of_nothing_is_refused(options, problem):
    with pytest.raises(ConfigError, match=problem):
        parse_grid(options)


def test_budgets_rise_and_come_once():
    assert parse_budgets("4,2,4.0") == [2, 4]
