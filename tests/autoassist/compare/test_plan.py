"""Which runs a comparison takes: what they share, and what no arm may have to itself."""

import pytest

from autoassist.compare.arms import parse_arms, parse_grid
from autoassist.compare.plan import Plan
from autoassist.config import load
from proto.errors import ConfigError

RATES = ["boss.lr=0.1,0.2,0.4"]


def plan(*words, policies="autoassist", budgets=(2, 4), tune=RATES, **changes):
    settings = load(None, ["boss.checkpoint_every=1.0", *words])
    return Plan(settings, parse_arms(policies, budgets), **{"seeds": 3, "grid": parse_grid(tune), **changes})


def names(runs):
    return [run.name for *_, run in runs]


def test_arms_of_one_seed_differ_in_policy_and_budget_alone():
    for seed in range(3):
        same = {
            run.settings.model_copy(
                update={"policy": None, "run": run.settings.run.model_copy(update={"budget": 1.0})}
            ).model_dump_json()
            for arm, run in plan().final({})
            if run.settings.run.seed == seed
        }
        assert len(same) == 1


def test_each_arm_has_each_seed_and_its_own_budget():
    found = [(arm.label, run.settings.run.budget, run.settings.run.seed) for arm, run in plan("run.seed=7").final({})]
    assert len(set(found)) == len(found) == 4 * 3
    assert {(label, budget) for label, budget, _ in found} == {
        ("uniform@2", 2), ("uniform@4", 4), ("autoassist@2", 2), ("autoassist@4", 4),
    }  # fmt: skip
    assert {seed for *_, seed in found} == {7, 8, 9}


def test_arms_take_turns_and_each_time_another_one_is_first():
    found = [arm.label for arm, _ in plan().final({})]
    rounds = [found[k : k + 4] for k in range(0, 12, 4)]
    assert all(len(set(one)) == 4 for one in rounds)
    assert len({one[0] for one in rounds}) == 3


def test_all_arms_are_tuned_alike_the_baseline_too():
    tried = {}
    for arm, words, run in plan().tuning():
        tried.setdefault(arm.label, []).append((words, run.settings.boss.lr))
    assert len(tried) == 4
    assert set(map(tuple, tried.values())) == {
        ((("boss.lr=0.1",), 0.1), (("boss.lr=0.2",), 0.2), (("boss.lr=0.4",), 0.4))
    }


def test_an_arm_without_a_choice_has_nothing_to_tune():
    found = plan(tune=["policy.gamma=0.1,0.3"], policies="autoassist,a=assist:policy.gamma=0.2").tuning()
    assert {arm.label for arm, _, _ in found} == {"autoassist@2", "autoassist@4"}


def test_tuning_sees_no_test_split_and_no_seed_that_counts():
    tuning, final = plan().tuning(), plan().final({})
    assert {run.settings.data.test for *_, run in tuning} == {"never"}
    assert {run.settings.data.val_fraction for *_, run in tuning} == {0.1}
    assert {run.settings.data.test for *_, run in final} == {"end"}
    assert {run.settings.data.val_fraction for *_, run in final} == {0.0}
    assert not {run.settings.run.seed for *_, run in tuning} & {run.settings.run.seed for *_, run in final}


def test_what_was_chosen_for_an_arm_is_what_it_runs_with():
    one = plan()
    chosen = {arm: (f"boss.lr={0.1 * (k + 1)}",) for k, arm in enumerate(one.arms)}
    for arm, run in one.final(chosen):
        assert run.settings.boss.lr == pytest.approx(0.1 * (one.arms.index(arm) + 1))


def test_the_policy_section_is_for_the_policy_it_names():
    one = plan("policy.name=autoassist", "policy.gamma=0.3", policies="autoassist,low=autoassist:policy.gamma=0.01")
    gammas = {arm.name: run.settings.policy.gamma for arm, run in one.final({})}
    assert gammas == {"uniform": 0.1, "autoassist": 0.3, "low": 0.01}


def test_more_seeds_add_runs_and_change_none():
    few, many = plan(seeds=2).final({}), plan(seeds=4).final({})
    assert set(names(few)) < set(names(many))


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"policies": "autoasist"}, "--policies = 'autoasist': unknown; did you mean 'autoassist'?"),
        ({"policies": "x=autoassist:policy.gama=0.1"}, "policy.gama"),
        ({"tune": ["boss.lr=0.1,-1"]}, "boss.lr = -1"),
    ],
)
def test_what_cannot_be_is_found_before_any_run(changes, problem):
    with pytest.raises(ConfigError) as error:
        plan(**changes).check()
    assert problem in str(error.value)
