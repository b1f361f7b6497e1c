"""What every policy keeps to, and the formula of each."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toys import numbered

from batcher.cut import ByCount
from batcher.features import FeatureStore
from batcher.generator import Generator
from batcher.policies import (
    Assist,
    AutoAssist,
    Candidates,
    Curriculum,
    Importance,
    InfoBatch,
    Ledger,
    Policy,
    Progress,
    Random,
    SelectiveBackprop,
    SelfPaced,
    Uniform,
)
from batcher.source import Source
from proto import scorer
from proto.errors import ConfigError
from proto.ledger import Ledger as Records

SIZE, CLASSES = 9, 3
POLICIES: dict[str, Callable[[], Policy]] = {
    "uniform": Uniform,
    "autoassist": AutoAssist,
    "assist": Assist,
    "assist, unblended": lambda: Assist(blend=0.0, alpha=1.0),
    "ledger soft": Ledger,
    "ledger hard": lambda: Ledger(rule="hard"),
    "infobatch": InfoBatch,
    "selective_backprop": SelectiveBackprop,
    "importance": Importance,
    "self_paced": SelfPaced,
    "curriculum": Curriculum,
    "random": Random,
}
every_policy = pytest.mark.parametrize("make", POLICIES.values(), ids=POLICIES)
LOSSES: dict[str, Any] = {
    "none known": [math.nan] * SIZE,
    "all zero": [0.0] * SIZE,
    "all equal": [0.7] * SIZE,
    "one huge": [1e38, *[0.1] * (SIZE - 1)],
    "one tiny": [1e-38, *[0.1] * (SIZE - 1)],
    "one known": [0.5, *[math.nan] * (SIZE - 1)],
    "of all sizes": np.geomspace(1e-6, 1e2, SIZE),
}


def ledger_of(losses: Any, times: int = 1) -> Records:
    losses = np.asarray(losses, np.float32)
    ledger = Records(len(losses))
    ids = np.flatnonzero(np.isfinite(losses))
    for step in range(times):
        ledger.fold(ids, losses[ids], step + 1)
    return ledger


def trained(kind: Any, dim: int, seed: int = 0) -> dict[str, Any]:
    """Arrays of an Assistant that says something."""
    rng = np.random.default_rng(seed)
    return {
        name: array + rng.normal(0, 0.5, array.shape).astype(np.float32)
        if name not in ("scale", "calibration")
        else array
        for name, array in scorer.initial(kind, dim, CLASSES).items()
    }


def candidates(policy: Policy, ledger: Records | None = None, ids: Any = None, **progress: Any) -> Candidates:
    ledger = Records(SIZE) if ledger is None else ledger
    size = len(ledger)
    store = FeatureStore(Source(numbered(size).train, "toy"), 256, 0)
    known = ledger.last_loss[np.isfinite(ledger.last_loss)]
    fields: dict[str, Any] = {"trained": 0, "total": 10 * size, "passes": 1, "untrained_loss": 2.0, "step": 9}
    fields["mean_loss"] = float(known.mean(dtype=np.float64)) if len(known) else 0.0
    arrays = trained(getattr(policy, "assistant", "above"), store.dim)
    return Candidates(np.arange(size) if ids is None else ids, Progress(**fields | progress), store, ledger, arrays)


# -- all of them


@pytest.mark.filterwarnings("error")
@every_policy
@pytest.mark.parametrize("losses", LOSSES.values(), ids=LOSSES)
def test_p_is_a_probability_and_w_a_weight(make: Callable[[], Policy], losses: Any) -> None:
    policy = make()
    for passes in (0, 1):
        p, w = policy(candidates(policy, ledger_of(losses), passes=passes))
        assert p.dtype == w.dtype == np.float32
        assert p.shape == w.shape == (SIZE,)
        assert ((p >= 0) & (p <= 1)).all()
        assert (np.isfinite(w) & (w > 0)).all()


@settings(deadline=None, max_examples=25)
@given(
    st.lists(st.floats(0, 2.0**127, width=32) | st.just(math.nan), min_size=2, max_size=30),
    st.integers(0, 29),
    st.sampled_from(sorted(POLICIES)),
)
def test_an_instance_without_a_finite_loss_changes_nothing_for_the_others(
    losses: list[float], which: int, name: str
) -> None:
    # A loss that is NaN is kept out of the ledger, so the instance is as if it had not been trained.
    policy, which = POLICIES[name](), which % len(losses)
    others = np.delete(np.arange(len(losses)), which)
    without = ledger_of([math.nan if i == which else loss for i, loss in enumerate(losses)])
    fields = {"mean_loss": 0.5}
    p, w = policy(candidates(policy, without, **fields))
    if policy.__class__ is not Curriculum:  # which ranks candidates among one another
        p_alone, w_alone = policy(candidates(policy, without, others, **fields))
        np.testing.assert_allclose(p[others], p_alone, rtol=1e-5)
        np.testing.assert_allclose(w[others], w_alone, rtol=1e-5)
    if not isinstance(policy, AutoAssist | Assist | Random | Curriculum):
        assert (p[which], w[which]) == (1, 1), "what is not known of is kept"


@settings(deadline=None, max_examples=40)
@given(
    st.sampled_from(sorted(POLICIES)),
    st.sampled_from(sorted(LOSSES)),
    st.sampled_from([2, 4, 8]),
    st.floats(0.2, 3),
)
def test_no_policy_makes_an_empty_batch_or_an_endless_loop(name: str, losses: str, batch: int, budget: float) -> None:
    # SIZE is 1 modulo 2, 4 and 8.
    policy, ledger = POLICIES[name](), ledger_of(LOSSES[losses])
    total = max(1, round(budget * SIZE))

    def select(ids: Any, trained: int, total: int, passes: int) -> Any:
        return policy(candidates(policy, ledger, ids, trained=trained, total=total, passes=passes))

    generator = Generator(
        size=SIZE, splits={}, cuts={"train": ByCount(batch)}, total=total, eval_every=0, seed=0, select=select
    )
    sizes = []
    while (plan := generator.next()) is not None:
        sizes.append(len(plan.ids))
        assert len(plan.weights) == len(plan.ids) == len(plan.coins)
    assert min(sizes) > 0
    assert sum(sizes) == total


def known_losses(size: int) -> Records:
    return ledger_of(np.random.default_rng(3).gamma(0.5, 1, size))


UNBIASED = {"infobatch": InfoBatch(), "importance": Importance(), "assist": Assist(alpha=1.0, w_max=math.inf)}


@pytest.mark.parametrize("policy", UNBIASED.values(), ids=UNBIASED)
def test_what_is_kept_stands_for_all_without_bias(policy: Policy) -> None:
    size, draws = 50, 10_000
    p, w = (values.astype(float) for values in policy(candidates(policy, known_losses(size), trained=1)))
    assert p.min() < 0.6, "something is dropped"
    coins = np.random.default_rng(0).random((draws, size))
    means = ((coins < p) * w).mean(axis=1)
    assert abs(means.mean() - 1) < 3 * means.std() / draws**0.5


@pytest.mark.parametrize("policy", [InfoBatch(delta=0.71), Assist(alpha=0.5, delta=0.71)], ids=["infobatch", "assist"])
@pytest.mark.parametrize("size", [40, 41, 43, 47])
def test_the_end_of_the_budget_is_plain_training(policy: Policy, size: int) -> None:
    ledger, total = known_losses(size), 3 * size
    assert total * 0.71 != round(total * 0.71)
    weights: list[float] = []

    def select(ids: Any, trained: int, total: int, passes: int) -> Any:
        p, w = policy(candidates(policy, ledger, ids, trained=trained, total=total, passes=passes))
        if trained > 0.71 * total:
            assert (p == 1).all()
        return p, w

    generator = Generator(
        size=size, splits={}, cuts={"train": ByCount(8)}, total=total, eval_every=0, seed=0, select=select
    )
    while (plan := generator.next()) is not None:
        weights += plan.weights.tolist()
    assert set(weights[math.ceil(0.71 * total) :]) == {1.0}
    assert set(weights[: math.floor(0.71 * total) - 8]) != {1.0}


BAD_ARGUMENTS: list[tuple[Callable[[], Policy], str]] = [
    (lambda: Random(1.5), "fraction"),
    (lambda: InfoBatch(r=1.0), "r"),
    (lambda: Ledger(rule="medium"), "rule"),  # type: ignore[arg-type]
    (lambda: Assist(alpha=-0.1), "alpha"),
    (lambda: Assist(w_max=math.nan), "w_max"),
    (lambda: SelfPaced(start="0.5"), "start"),  # type: ignore[arg-type]
    (lambda: Curriculum("nowhere.npy"), "difficulty"),
]


@pytest.mark.parametrize(("make", "argument"), BAD_ARGUMENTS)
def test_an_argument_that_cannot_be_is_named(make: Callable[[], Policy], argument: str) -> None:
    with pytest.raises(ConfigError, match=rf"policy\.args\.{argument}"):
        make()


# -- each of them

TEN = np.arange(10, dtype=np.float32)
"""Losses with mean 4.5."""


def asked(policy: Policy, losses: Any = TEN, **progress: Any) -> tuple[list[float], list[float]]:
    p, w = policy(candidates(policy, ledger_of(losses), **progress))
    return p.tolist(), w.tolist()


def test_uniform_keeps_everything_at_weight_one() -> None:
    assert asked(Uniform()) == ([1.0] * 10, [1.0] * 10)


def test_random_keeps_a_share_of_whatever_comes() -> None:
    assert asked(Random(0.25)) == ([0.25] * 10, [1.0] * 10)


@pytest.mark.parametrize("gamma", [0.0, 0.1, 0.5, 1.0])
@pytest.mark.parametrize("confidence", [0.0, 0.3, 0.95, 1.0])
def test_autoassist_is_the_papers_formula(gamma: float, confidence: float) -> None:
    policy = AutoAssist(gamma)
    shown = candidates(policy, confidence=confidence)
    q = scorer.score(trained("above", 6), shown.features, shown.labels).astype(float)
    g = max(gamma, 1 - confidence)
    p, w = policy(shown)
    np.testing.assert_allclose(p, g + (1 - g) * q, rtol=0, atol=1e-6)
    assert w.tolist() == [1.0] * SIZE


def test_autoassist_keeps_everything_in_the_first_pass_only() -> None:
    policy = AutoAssist(0.0)
    assert policy(candidates(policy, passes=0, confidence=1.0))[0].tolist() == [1.0] * SIZE
    assert policy(candidates(policy, passes=1, confidence=1.0))[0].max() < 1


def test_ledger_soft_is_in_proportion_up_to_the_mean() -> None:
    p, w = asked(Ledger(0.2, beta=2.0, alpha=0.5, w_max=2.0))
    expected = 0.2 + 0.8 * np.minimum(1, (TEN / 4.5) ** 2)
    np.testing.assert_allclose(p, expected, rtol=1e-6)
    np.testing.assert_allclose(w, np.minimum(expected**-0.5, 2), rtol=1e-6)
    assert max(w) == 2


def test_ledger_hard_drops_what_is_not_above_the_mean() -> None:
    assert asked(Ledger(0.25, rule="hard")) == ([0.25] * 5 + [1.0] * 5, [1.0] * 10)


def test_infobatch_thins_out_what_is_below_the_mean_and_weighs_the_rest_of_it_more() -> None:
    assert asked(InfoBatch(r=0.75)) == ([0.25] * 5 + [1.0] * 5, [4.0] * 5 + [1.0] * 5)


def test_selective_backprop_ranks_losses() -> None:
    p, w = asked(SelectiveBackprop(0.1, beta=2.0))
    np.testing.assert_allclose(p, np.maximum(((TEN + 0.5) / 10) ** 2, 0.1), rtol=1e-6)
    assert w == [1.0] * 10
    assert asked(SelectiveBackprop(0.1), [0.7] * 5)[0] == [0.5] * 5


def test_importance_is_in_proportion_to_the_loss_and_weighs_its_inverse() -> None:
    p, w = asked(Importance(0.1, f=1.0))
    expected = np.clip(TEN / 4.5, 0.1, 1)
    np.testing.assert_allclose(p, expected, rtol=1e-6)
    np.testing.assert_allclose(w, 1 / expected, rtol=1e-6)
    assert max(asked(Importance(0.1, w_max=3.0))[1]) == 3


@pytest.mark.parametrize(("trained", "kept"), [(0, 3), (10, 6), (20, 10), (70, 10)])
def test_self_paced_takes_the_lowest_losses_first(trained: int, kept: int) -> None:
    p, w = asked(SelfPaced(start=0.25, epochs=2.0), trained=trained)
    assert p == [1.0] * kept + [0.0] * (10 - kept)
    assert w == [1.0] * 10


@pytest.mark.parametrize(("trained", "kept"), [(0, 3), (10, 6), (20, 10)])
def test_curriculum_goes_by_the_given_difficulty(trained: int, kept: int, tmp_path: Any) -> None:
    np.save(tmp_path / "d.npy", TEN[::-1])
    policy = Curriculum(str(tmp_path / "d.npy"), start=0.25, epochs=2.0)
    assert asked(policy, trained=trained)[0] == [0.0] * (10 - kept) + [1.0] * kept


def test_curriculum_sorts_a_given_difficulty_once(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    difficulty = np.random.default_rng(0).random(10).astype(np.float32)
    difficulty[3] = np.nan
    np.save(tmp_path / "d.npy", difficulty)
    policy = Curriculum(str(tmp_path / "d.npy"), start=0.1, epochs=2.0)
    monkeypatch.delattr(np, "quantile")  # which takes 0.1 s of 1.3 million instances, for each batch
    kept = [asked(policy, trained=trained)[0] for trained in range(20)]
    monkeypatch.undo()
    for trained, p in enumerate(kept):
        most = np.nanquantile(difficulty, 0.1 + 0.9 * trained / 20)
        assert p == (~(difficulty > most)).astype(float).tolist()


def test_curriculum_without_one_goes_by_the_prediction() -> None:
    policy = Curriculum(start=0.5)
    shown = candidates(policy, ledger_of(TEN), trained=0)
    assert policy(shown)[0].tolist() == (shown.predicted <= np.median(shown.predicted)).tolist()


def test_a_difficulty_for_another_data_set_is_refused(tmp_path: Any) -> None:
    np.save(tmp_path / "d.npy", TEN)
    policy = Curriculum(str(tmp_path / "d.npy"))
    with pytest.raises(ConfigError, match=r"10 numbers for 9"):
        policy(candidates(policy))


def test_assist_goes_by_the_prediction_where_there_is_no_last_loss() -> None:
    policy = Assist(0.1, beta=1.5, alpha=0.5, w_max=2.5)
    shown = candidates(policy, mean_loss=1.0, passes=0)
    expected = 0.1 + 0.9 * np.minimum(1, shown.predicted) ** 1.5
    p, w = policy(shown)
    assert shown.predicted.std() > 0
    np.testing.assert_allclose(p, expected, rtol=1e-5)
    np.testing.assert_allclose(w, np.minimum(expected**-0.5, 2.5), rtol=1e-5)


def test_assist_blends_last_loss_and_prediction() -> None:
    for blend in (0.0, 0.3, 1.0):
        policy = Assist(0.0, blend=blend)
        shown = candidates(policy, ledger_of(TEN + 1))
        relative = shown.predicted ** (1 - blend) * ((TEN + 1) / 5.5) ** blend
        np.testing.assert_allclose(policy(shown)[0], np.minimum(1, relative), rtol=1e-4)


def test_assist_keeps_what_it_cannot_tell() -> None:
    class Bare:
        """A split that offers neither labels nor features."""

        def __len__(self) -> int:
            return SIZE

        def __getitem__(self, index: int) -> tuple[np.ndarray, int]:
            return np.ones(6, np.float32), 0

    store = FeatureStore(Source(Bare(), "bare"), 256, 0)
    ids = np.array([4, 2])
    store.visit(ids, {"inputs": np.ones((2, 6), np.float32), "targets": np.zeros(2, np.int64)})
    arrays = trained("loss", 6)
    arrays["b3"] -= 5
    shown = Candidates(np.arange(SIZE), Progress(0, 90, 0, mean_loss=1.0), store, Records(SIZE), arrays)
    assert np.flatnonzero(~np.isnan(shown.predicted)).tolist() == [2, 4]
    assert np.flatnonzero(Assist()(shown)[0] < 1).tolist() == [2, 4]


def test_assist_does_not_chase_instances_whose_losses_stay_high() -> None:
    losses = [0.1] * 8 + [5.0, 1.5]
    fields = {"mean_loss": 0.5, "untrained_loss": 2.3}
    for times, suspected in [(2, False), (3, True)]:
        policy = Assist(0.2, alpha=0.5, suspect=0.3, blend=0.0)
        p, w = policy(candidates(policy, ledger_of(losses, times), **fields))
        assert (p[8] == np.float32(0.3)) == suspected
        assert (w[8] == 1) == suspected
    chasing = Assist(robust=False, blend=1.0)
    assert chasing(candidates(chasing, ledger_of(losses, 3), **fields))[0][8] == 1
    # While the mean is high nobody is suspected: it may be that nothing has been learned yet.
    policy = Assist(blend=1.0)
    assert policy(candidates(policy, ledger_of(losses, 3), mean_loss=1.5, untrained_loss=2.3))[0][8] == 1


def test_candidates_show_content_and_ledger() -> None:
    shown = candidates(Uniform(), ledger_of(LOSSES["one known"]))
    assert len(shown) == shown.size == SIZE
    assert shown.labels.tolist() == [i % 3 for i in range(SIZE)]
    assert shown.features.shape == (SIZE, 6)
    assert set(shown.ledger) == {"last_loss", "loss_before", "times_trained", "last_step"}
    assert shown.all_losses.tolist() == [0.5]
    assert np.isnan(shown.last_loss).sum() == SIZE - 1
