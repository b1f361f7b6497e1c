"""What the Assistant says: versions of its weights, to the Batcher."""

from assistant.learner import Learner
from proto.lifecycle import Worker


class Outlet:
    """Publishes snapshots without ever waiting: one that does not fit is left out, its ledger delta joins the next."""

    def __init__(self, worker: Worker, learner: Learner) -> None:
        self.learner = learner
        self.weights = worker.port("weights")
        self.published = self.postponed = 0

    def publish(self) -> None:
        if self.weights.send(self.learner.snapshot(), "batcher"):
            self.learner.published()
            self.published += 1
        else:
            self.postponed += 1
