"""A loader belongs to one thread of one process, and says so."""

import copy
import pickle
import threading

import pytest

import autoassist


def test_a_second_thread_that_asks_for_a_batch_is_refused_and_starts_nothing(points, monkeypatch):
    starts, asked, go_on = [], threading.Event(), threading.Event()

    def made(*arguments):
        starts.append(threading.current_thread())
        asked.set()
        go_on.wait()
        raise OSError("nothing is started here")

    monkeypatch.setattr("autoassist.loader.Service", made)
    loader = autoassist.Loader(points, batch_size=10, budget=1)

    def first():
        with pytest.raises(OSError, match="nothing is started here"):
            next(iter(loader))

    thread = threading.Thread(target=first)
    thread.start()
    asked.wait()
    try:
        with pytest.raises(RuntimeError, match="two threads ask this loader for batches"):
            next(iter(loader))
    finally:
        go_on.set()
        thread.join()
    assert starts == [thread]
    first()  # the other one is done, so it is this one's turn
    loader.close()


@pytest.mark.parametrize("copied", [pickle.dumps, copy.copy, copy.deepcopy])
def test_it_cannot_be_pickled_or_copied(points, copied):
    with autoassist.Loader(points, batch_size=10, budget=1) as loader:
        with pytest.raises(TypeError, match=r"a Loader cannot be pickled or copied: keep its state_dict\(\) instead"):
            copied(loader)
