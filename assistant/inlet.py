"""What the Assistant hears: features from the Batcher, losses from the Boss."""

from assistant.learner import Learner
from proto.lifecycle import Worker
from proto.messages import Features, Losses


class Inlet:
    """Folds what has arrived into the learner."""

    def __init__(self, worker: Worker, learner: Learner) -> None:
        self.learner = learner
        self.features, self.losses = worker.port("features"), worker.port("losses")
        self.reports_received = self.strays = 0

    def pump(self) -> bool:
        """Takes in everything that has arrived; True when there were loss reports."""
        # Features first: most of them then wait for their losses, not the other way round.
        for _, message in self.features.receive():
            if isinstance(message, Features):
                self.learner.fold_features(message)
            else:
                self.strays += 1
        before = self.reports_received
        for _, message in self.losses.receive():
            if isinstance(message, Losses):
                self.reports_received += 1
                self.learner.fold_losses(message)
            else:
                self.strays += 1
        return self.reports_received > before
