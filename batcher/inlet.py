"""What the Batcher hears: weights from the Assistant, opens and credits from the Boss."""

from collections import deque

from batcher.core import BatcherCore
from proto.lifecycle import Worker
from proto.messages import Credit, Open, Weights
from proto.transport import Outbound


class Inlet:
    """Folds weights into the core and collects credits."""

    def __init__(self, worker: Worker, carrier: Outbound, core: BatcherCore) -> None:
        self.worker, self.carrier, self.core = worker, carrier, core
        self.weights = worker.port("weights")
        self.slots = 0
        self.credits: deque[int] = deque()
        self.strays = 0
        """Messages that are valid but were not meant for this incarnation or not for this channel."""

    def pump(self) -> None:
        """Takes in everything that has arrived."""
        for _, message in self.weights.receive():
            if isinstance(message, Weights):
                self.core.fold(message)
            else:
                self.strays += 1
        for message in self.carrier.receive():
            match message:
                case Open() if not self.core.opened:
                    self.core.open(message)
                    self.slots, self.credits = message.slots, deque(range(message.slots))
                case Credit() if message.incarnation == self.worker.incarnation and message.slot not in self.credits:
                    self.credits.append(message.slot)
                case _:
                    self.strays += 1
