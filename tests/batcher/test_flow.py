"""Who waits for whom, in numbers."""

import pytest

from batcher.flow import LOOK, REST, Flow


def test_nothing_was_sent():
    assert Flow().metrics() == {"credit_wait_s": 0.0, "queue_depth": 0.0, "bytes_sent": 0, "bytes_per_s": 0.0}


def test_rate_depth_and_waiting():
    now = iter([0.0, 1.0, 5.0, 5.0, 8.0])
    flow = Flow(lambda: next(now))
    flow.sent(0, 100)
    flow.sent(1, 300)
    with flow.waiting():
        pass
    flow.sent(3, 400)
    metrics = flow.metrics()
    assert metrics["credit_wait_s"] == 0.0
    assert metrics["queue_depth"] == pytest.approx(4 / 3)
    assert metrics["bytes_sent"] == 400
    assert metrics["bytes_per_s"] == pytest.approx(50)


def test_waiting_adds_up():
    now = iter([0.0, 2.0, 10.0, 13.0])
    flow = Flow(lambda: next(now))
    for _ in range(2):
        with flow.waiting():
            pass
    assert flow.waited_s == 5.0


def flow_with(choosing: float, depth: int, batches: int, flow: Flow | None = None, clock: list[float] | None = None):
    """A flow whose policy takes `choosing` of each second, with `depth` batches under way."""
    clock = [0.0] if clock is None else clock
    flow = Flow(lambda: clock[0]) if flow is None else flow

    def policy(candidates):
        clock[0] += choosing
        return candidates, candidates

    timed = flow.timed(policy)
    for _ in range(batches):
        if not flow.starved:
            assert timed(7) == (7, 7)
        clock[0] += 1 - choosing
        flow.sent(depth, 0)
    return flow, clock


@pytest.mark.parametrize(("choosing", "depth", "starved"), [(0.8, 0, True), (0.8, 1, False), (0.3, 0, False)])
def test_the_boss_starves_when_it_waits_for_the_choosing(choosing, depth, starved):
    assert not flow_with(choosing, depth, LOOK - 1)[0].starved
    assert flow_with(choosing, depth, LOOK)[0].starved == starved


def test_rests_all_night_give_few_lines():
    flow, clock = flow_with(0.8, 0, LOOK - 1)
    told, before = [], flow.starved
    for _ in range(100 * (LOOK + REST)):
        flow_with(0.8, 0, 1, flow, clock)
        if flow.starved != before and flow.noteworthy:
            told.append(flow.why())
        before = flow.starved
    assert sum("choosing takes" in line for line in told) == 7, "the 1st, 2nd, 4th, ... 64th"
    assert told.count("batches are chosen again") == 7
    assert told[0].endswith("keep everything")
    assert told[-2].endswith("keep everything (rest 64)")


def test_after_a_rest_batches_are_chosen_again_and_looked_at_anew():
    flow, clock = flow_with(0.8, 0, LOOK)
    assert "choosing takes 8" in flow.why()
    flow_with(0.8, 0, REST - 1, flow, clock)
    assert flow.starved
    flow_with(0.8, 0, 1, flow, clock)
    assert not flow.starved
    flow_with(0.8, 0, LOOK, flow, clock)
    assert flow.starved
