"""What the Assistant says: versions of its weights, to the Batcher."""

from assistant.history import History
from assistant.learner import Learner
from proto.learning import Want, Weights
from proto.lifecycle import Worker


class Outlet:
    """Publishes snapshots without ever waiting: one that does not fit is left out, its ledger delta joins the next.

    With a `history` none is left out (the sender waits), and each is kept there.
    """

    def __init__(self, worker: Worker, learner: Learner, history: History | None) -> None:
        self.learner, self.history = learner, history
        self.weights = worker.port("weights")
        self._send = worker.sender(self.weights, "batcher")
        self.published = self.postponed = self.strays = 0
        self._wanted = False
        """Whether a Batcher waits for a full snapshot."""
        self._version = 0

    def publish(self) -> None:
        """Publishes the newest version, if it is newer than the last one published."""
        if self.learner.version > self._version:
            self._publish()

    def hear(self) -> Weights | None:
        """Takes in what the Batcher asks for; returns its mirror of the Assistant, if it has sent that."""
        mirror: Weights | None = None
        for sender, message in self.weights.receive():
            match message:
                case Want() if sender == "batcher":
                    self._wanted = True
                case Weights() if sender == "batcher" and message.full:
                    mirror = message
                case _:
                    self.strays += 1
        return mirror

    def answer(self) -> None:
        """Sends a Batcher that asks for it a full snapshot."""
        if self._wanted and self.history is None:
            self.learner.tell_all()
            self._publish()
            self._wanted = self.learner.untold

    @property
    def wanted(self) -> bool:
        """Whether a Batcher waits for a full snapshot."""
        return self._wanted

    def _publish(self) -> None:
        snapshot = self.learner.snapshot()
        # With a history the sender gives up only when the run stops; whoever goes on is then told from the history.
        if self._send(snapshot) or self.history is not None:
            self._version = snapshot.version
            self.learner.published()
            self.published += 1
            if self.history is not None:
                self.history.add(snapshot)
        else:
            self.postponed += 1

    def replay(self) -> None:
        """Brings a new Batcher to where the one before it stood."""
        if self.history is None:
            self._publish()
            return
        for snapshot in self.history.replay():
            self._send(snapshot)
