import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from toys import batch

from boss.outlet import LossOutlet
from proto.learning import Losses


class Peer:
    """Takes reports while it is open."""

    def __init__(self, is_open: bool = True) -> None:
        self.is_open = is_open
        self.got: list[Losses] = []

    def __call__(self, report: Losses) -> bool:
        if self.is_open:
            self.got.append(report)
        return self.is_open


def make(outlet: LossOutlet, seq: int) -> None:
    outlet.report(batch([seq, seq + 1], seq=seq, incarnation=3), seq + 1, torch.tensor([0.5, float(seq)]))


def test_a_report_names_batch_step_incarnation_ids_and_losses() -> None:
    peer = Peer()
    make(LossOutlet(peer, 4), 7)
    [report] = peer.got
    assert (report.batch_id, report.step, report.incarnation) == (7, 8, 3)
    assert report.ids.tolist() == [7, 8]
    assert report.losses.tolist() == [0.5, 7.0]


def test_a_full_queue_drops_its_head_and_counts_it() -> None:
    peer = Peer(is_open=False)
    outlet = LossOutlet(peer, 3)
    for seq in range(5):
        make(outlet, seq)
    assert not outlet.flush()
    peer.is_open = True
    assert outlet.flush()
    assert [report.batch_id for report in peer.got] == [2, 3, 4]
    assert (outlet.made, outlet.sent, outlet.dropped) == (5, 3, 2)


@settings(deadline=None)
@given(st.integers(1, 5), st.lists(st.booleans(), max_size=40))
def test_every_report_is_sent_dropped_or_left_and_order_is_kept(limit: int, opens: list[bool]) -> None:
    peer = Peer()
    outlet = LossOutlet(peer, limit)
    for seq, is_open in enumerate(opens):
        peer.is_open = is_open
        make(outlet, seq)
        assert len(outlet._queue) <= limit
        assert outlet.made == outlet.sent + outlet.dropped + len(outlet._queue)
    sent = [report.batch_id for report in peer.got]
    assert sent == sorted(set(sent))
    assert len(sent) == outlet.sent


def test_it_keeps_no_hold_on_the_arrays_of_the_batch() -> None:
    # They belong to a slot that the next batch is written into.
    ids, losses = np.array([1, 2]), torch.tensor([0.5, 0.5])
    peer = Peer(is_open=False)
    outlet = LossOutlet(peer, 4)
    outlet.report(batch([0, 0]).model_copy(update={"ids": ids}), 1, losses)
    ids[:] = 99
    peer.is_open = True
    outlet.flush()
    assert peer.got[0].ids.tolist() == [1, 2]


def test_half_precision_losses_leave_as_float32() -> None:
    peer = Peer()
    LossOutlet(peer, 1).report(batch([1, 2]), 1, torch.tensor([0.5, 1.5], dtype=torch.bfloat16, requires_grad=True))
    assert peer.got[0].losses.dtype == np.float32
    assert peer.got[0].losses.tolist() == [0.5, 1.5]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_losses_on_a_gpu_leave_through_a_copy_that_nobody_waits_for() -> None:
    peer = Peer()
    outlet = LossOutlet(peer, 64)
    for seq in range(50):
        outlet.report(batch([seq], seq=seq), seq, torch.full((1,), float(seq), device="cuda"))
    assert outlet.flush(wait=True)
    assert [report.losses.tolist() for report in peer.got] == [[float(seq)] for seq in range(50)]
