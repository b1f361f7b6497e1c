"""What the unbiased sample says of all candidates, and what the gate makes of it."""

import numpy as np
import pytest

from assistant.gate import BEGINS, ENOUGH, RISE, Gate
from assistant.sample import SIZE, Sample

RNG = np.random.default_rng(0)


def sample(wanted: np.ndarray, losses: np.ndarray) -> Sample:
    made = Sample()
    made.add(*(values.astype(np.float32) for values in (wanted, losses, losses)))
    return made


def test_only_those_of_the_sample_count_and_only_the_last() -> None:
    made = Sample()
    made.add(*(np.full(3, value, np.float32) for value in (0.5, 9.0, 9.0)))
    wanted = np.where(np.arange(2 * SIZE) % 2, np.nan, 0.5).astype(np.float32)
    made.add(wanted, np.where(np.isnan(wanted), 5, 1).astype(np.float32), np.full(2 * SIZE, 2, np.float32))
    assert len(made) == SIZE
    assert made.mean_loss == 1
    assert made.calibration == 0.5


def test_gain_is_the_share_of_loss_kept_beyond_that_of_instances() -> None:
    gain = sample(np.array([1.0, 0.5, 0.2, 0.1]), np.array([4.0, 2.0, 1.0, 1.0])).gain
    assert gain.value == pytest.approx((4 + 1 + 0.2 + 0.1) / 8 - 1.8 / 4)
    assert gain.low < gain.value < gain.high


def test_the_interval_covers_the_truth_in_nine_of_ten_samples() -> None:
    covered = 0
    for _ in range(400):
        losses = RNG.gamma(0.5, 1, 1000)
        p = np.minimum(1, 0.1 + RNG.random(1000) * losses / (1 + losses))
        gain = sample(p, losses).gain
        covered += gain.low <= TRUTH <= gain.high
    assert 0.85 <= covered / 400 <= 0.95


_LOSSES = np.random.default_rng(1).gamma(0.5, 1, 1_000_000)
_P = np.minimum(1, 0.1 + np.random.default_rng(2).random(1_000_000) * _LOSSES / (1 + _LOSSES))
TRUTH = float((_P * _LOSSES).sum() / _LOSSES.sum() - _P.mean())


@pytest.mark.parametrize("losses", [np.zeros(1000), np.ones(1000), np.full(1000, 1e30)])
def test_losses_that_are_all_the_same_gain_nothing(losses: np.ndarray) -> None:
    assert sample(RNG.random(1000), losses).gain.value == pytest.approx(0, abs=1e-6)


def fold(gate: Gate, made: Sample, useful: bool, batches: int) -> list[bool]:
    """Lets `gate` look at batches in which p goes with the loss, or not; whether it was open after each."""
    seen = []
    for _ in range(batches):
        losses = RNG.gamma(0.5, 1, 128).astype(np.float32)
        wanted = np.minimum(1, 0.1 + (losses if useful else RNG.permutation(losses))).astype(np.float32)
        made.add(wanted, losses, losses)
        gate.judge(made.gain, BEGINS)
        seen.append(gate.open)
    return seen


def test_it_opens_closes_and_opens_again_with_what_selecting_gains() -> None:
    gate, made = Gate(), Sample()
    assert not any(fold(gate, made, False, 60)), "labels that are random at each visit"
    assert fold(gate, made, True, 40)[-1]
    assert not fold(gate, made, False, 60)[-1]
    assert fold(gate, made, True, 40)[-1]


def test_it_waits_until_enough_is_known() -> None:
    gate, made = Gate(), Sample()
    assert fold(gate, made, True, 8).index(True) == ENOUGH // 128 - 1


def test_it_tells_of_changes_only_and_stays_between_the_two_limits() -> None:
    gate, made = Gate(), Sample()
    fold(gate, made, True, 20)
    assert gate.open
    assert not gate.judge(made.gain, BEGINS)
    small = sample(np.r_[np.full(1000, 0.5), np.full(1000, 0.51)], np.r_[np.full(1000, 1.0), np.full(1000, 1.5)]).gain
    assert 0 < small.low < 0.01
    assert not gate.judge(small, BEGINS)
    assert gate.open
    assert not Gate().judge(small, BEGINS)


def test_it_opens_slowly_and_closes_at_once() -> None:
    gate, made = Gate(), Sample()
    shares = []
    for _ in range(RISE + 20):
        fold(gate, made, True, 1)
        shares.append(gate.share)
    opening = [share for share in shares if 0 < share < 1]
    np.testing.assert_allclose(np.diff(opening), 1 / RISE)
    assert RISE - 2 <= len(opening) <= RISE
    assert shares[-1] == 1
    fold(gate, made, False, 60)
    assert gate.share == 0


def test_it_does_not_open_before_a_model_has_learned_something() -> None:
    made, losses = Sample(), RNG.gamma(0.5, 1, SIZE).astype(np.float32)
    made.add(np.minimum(1, 0.1 + losses).astype(np.float32), losses, losses)
    gate = Gate()
    assert not gate.judge(made.gain, BEGINS - 1)
    assert gate.judge(made.gain, BEGINS)
