"""Who waits for whom, in numbers."""

import pytest

from batcher.flow import Flow


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
