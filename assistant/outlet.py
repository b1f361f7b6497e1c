"""What the Assistant says: versions of its weights, to the Batcher."""

from assistant.history import History
from assistant.learner import Learner
from proto.lifecycle import Worker


class Outlet:
    """Publishes snapshots without ever waiting: one that does not fit is left out, its ledger delta joins the next.

    With a `history` none is left out (the sender waits), and each is kept there.
    """

    def __init__(self, worker: Worker, learner: Learner, history: History | None) -> None:
        self.learner, self.history = learner, history
        self.weights = worker.port("weights")
        self._send = worker.sender(self.weights, "batcher")
        self.published = self.postponed = 0
        self._version = 0

    def publish(self) -> None:
        """Publishes the newest version, if it is newer than the last one published."""
        if self.learner.version > self._version:
            self._publish()

    def _publish(self) -> None:
        snapshot = self.learner.snapshot()
        if self._send(snapshot):
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
