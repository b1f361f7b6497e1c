"""What the Batcher hears: weights from the Assistant, opens and credits from the Boss."""

from collections import deque

from batcher.core import BatcherCore
from proto.batches import Credit, Open
from proto.errors import Refused
from proto.learning import Want, Weights
from proto.lifecycle import Worker
from proto.transport import Outbound


class Inlet:
    """Folds weights into the core and collects credits. Asks the Assistant for what is missing here, and gives one that
    was started anew what the one before it had said."""

    def __init__(self, worker: Worker, carrier: Outbound, core: BatcherCore) -> None:
        self.worker, self.carrier, self.core = worker, carrier, core
        self.weights = worker.port("weights")
        self.slots = 0
        self.credits: deque[int] = deque()
        self.strays = 0
        """Messages that are valid but do not belong on this channel."""
        self._assistant = worker.peers["assistant"]
        self._wants = worker.late
        """Whether a full snapshot is to be asked for."""

    def pump(self) -> None:
        """Takes in everything that has arrived."""
        self._serve_assistant()
        for _, message in self.weights.receive():
            match message:
                case Weights() if message.incarnation == self._assistant:
                    before = self.core.selector.gap
                    self.core.fold(message)
                    self._wants = self._wants or (self.core.selector.gap and not before)
                case Weights():
                    self.weights.refuse(Refused("stale", f"weights of incarnation {message.incarnation}"))
                case _:
                    self.strays += 1
        for message in self.carrier.receive():
            match message:
                case Open():
                    self.core.open(message)
                    busy = {slot for slot, _ in message.busy}
                    self.slots = message.slots
                    self.credits = deque(slot for slot in range(message.slots) if slot not in busy)
                case Credit():
                    self.credits.append(message.slot)
                    self.core.heard(message.step)
                case _:
                    self.strays += 1

    def _serve_assistant(self) -> None:
        """Gives a new Assistant the mirror; asks for a full snapshot where one is missing."""
        now = self.worker.peers["assistant"]
        if now != self._assistant and self.weights.send(self.core.selector.mirror(self.worker.incarnation)):
            self._assistant = now
        self._wants = self._wants and not self.weights.send(Want(incarnation=self.worker.incarnation))
