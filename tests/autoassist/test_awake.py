"""The supervisor's clock: what it slept through does not count."""

from autoassist.awake import GAP_S, AwakeClock


def test_short_gaps_count_and_long_ones_do_not():
    times = iter([100.0, 100.1, 101.5, 101.5 + GAP_S, 200.0, 200.1])
    clock = AwakeClock(lambda: next(times))
    assert [round(clock.now() - 100, 3) for _ in range(5)] == [0.1, 1.5, 3.5, 3.5, 3.6]
    assert clock.slept_s == 200 - 103.5
