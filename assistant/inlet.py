"""What the Assistant hears: features from the Batcher, losses and checkpoint marks from the Boss."""

from collections.abc import Callable

from assistant.learner import Learner
from proto.lifecycle import Worker
from proto.messages import Features, Losses, Mark


class Inlet:
    """Folds what has arrived into the learner."""

    def __init__(self, worker: Worker, learner: Learner, checkpoint: Callable[[Mark], None]) -> None:
        """`checkpoint(mark)` is called when the learner has seen the reports before a mark."""
        self.learner, self.checkpoint = learner, checkpoint
        self.features, self.losses = worker.port("features"), worker.port("losses")
        self.reports_received = self.strays = 0
        self._mark: Mark | None = None

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
            match message:
                case Losses():
                    self.reports_received += 1
                    self.learner.fold_losses(message)
                case Mark():
                    self._mark = message
                    self.mark_reached()
                case _:
                    self.strays += 1
        return self.reports_received > before

    def mark_reached(self) -> None:
        """Makes the checkpoint asked for, if one is, once its reports are folded in."""
        mark = self._mark
        if mark is not None and (not self.learner.ordered or self.learner.version >= mark.batches):
            self._mark = None
            self.checkpoint(mark)
