from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from toys import features, losses, numbered, opened, spec

from assistant.config import AssistantConfig
from assistant.inlet import Inlet
from assistant.learner import Learner
from assistant.outlet import Outlet
from batcher.core import BatcherCore
from proto.control import Ready
from proto.learning import Mark, Weights
from proto.messages import Message


class Line:
    """Stands for a port: what has arrived, what was sent, and whether there is room."""

    def __init__(self) -> None:
        self.arrived: list[Message] = []
        self.sent: list[Any] = []
        self.room = True

    def receive(self) -> Iterator[tuple[str, Message]]:
        while self.arrived:
            yield "", self.arrived.pop(0)

    def send(self, message: Message, to: str = "") -> bool:
        if self.room:
            self.sent.append(message)
        return self.room


class Lines:
    """Stands for a worker."""

    def __init__(self) -> None:
        self.lines: dict[str, Line] = {}

    def port(self, channel: str) -> Line:
        return self.lines.setdefault(channel, Line())

    def sender(self, port: Line, to: str = "") -> Callable[[Message], bool]:
        return lambda message: port.send(message, to)


class Assistant:
    """Learner, inlet and outlet, as the worker's loop puts them together."""

    def __init__(self) -> None:
        worker: Any = Lines()
        self.learner = Learner(spec(), AssistantConfig())
        self.marks: list[Mark] = []
        self.inlet = Inlet(worker, self.learner, self.marks.append)
        self.outlet = Outlet(worker, self.learner, None)
        self.lines = worker.lines

    def hear(self, channel: str, *messages: Message) -> None:
        self.lines[channel].arrived += messages
        if self.inlet.pump():
            self.outlet.publish()

    @property
    def published(self) -> list[Weights]:
        return self.lines["weights"].sent


@pytest.fixture
def assistant() -> Assistant:
    return Assistant()


@pytest.fixture
def batcher() -> BatcherCore:
    return opened(numbered(100), policy="autoassist")


def test_each_report_makes_a_version(assistant: Assistant) -> None:
    assistant.hear("features", features(0, [1, 2], np.ones((2, 6)), [0, 1]))
    assert assistant.published == []
    assistant.hear("losses", losses(0, [1, 2], [0.5, 2.0]))
    [weights] = assistant.published
    assert weights.delta["ids"].tolist() == [1, 2]
    assert assistant.inlet.received == 1


def test_a_version_that_does_not_fit_joins_the_next(assistant: Assistant, batcher: BatcherCore) -> None:
    assistant.lines["weights"].room = False
    assistant.hear("losses", losses(0, [1], [0.5]))
    assistant.lines["weights"].room = True
    assistant.hear("losses", losses(1, [2], [0.5]))
    [weights] = assistant.published
    assert weights.delta["ids"].tolist() == [1, 2]
    assert assistant.outlet.postponed == 1
    batcher.fold(weights)
    assert batcher.metrics()["weights_refused"] == 0


def test_a_mark_is_obeyed_after_the_reports_before_it(assistant: Assistant) -> None:
    mark = Mark(name="batch-1", batches=1)
    assistant.hear("losses", losses(0, [1], [0.5]), mark)
    assert assistant.marks == [mark]
    assert assistant.learner.version == 1
    assert assistant.inlet.strays == 0


def test_messages_of_another_kind_are_counted(assistant: Assistant) -> None:
    assistant.hear("losses", Ready(), features(0, [1], np.ones((1, 6)), [0]))
    assistant.hear("features", losses(0, [1], [0.5]))
    assert assistant.inlet.strays == 3
    assert assistant.published == []


def test_a_refused_report_does_not_cut_the_batcher_off(assistant: Assistant, batcher: BatcherCore) -> None:
    for batch_id, instance in enumerate([3, 2**40, 4]):
        assistant.hear("losses", losses(batch_id, [instance], [0.5]))
    for weights in assistant.published:
        batcher.fold(weights)
    assert batcher.selector.version == assistant.learner.version
    assert batcher.selector.ledger.last_loss[[3, 4]].tolist() == [0.5, 0.5]
