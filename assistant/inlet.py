"""What the Assistant hears: features from the Batcher, losses and checkpoint marks from the Boss."""

from collections import deque
from collections.abc import Callable

from assistant.learner import Learner
from proto.batches import End
from proto.learning import Features, Losses, Mark
from proto.lifecycle import Worker


class Inlet:
    """Folds what has arrived into the learner."""

    def __init__(self, worker: Worker, learner: Learner, checkpoint: Callable[[Mark], None]) -> None:
        """`checkpoint(mark)` is called when the learner has seen the reports before a mark."""
        self.learner, self.checkpoint = learner, checkpoint
        self.features, self.losses = worker.port("features"), worker.port("losses")
        self.received = self.strays = 0
        """Reports and marks that have arrived; messages that do not belong here."""
        self.ended = False
        """Whether the Boss has said that no report follows."""
        self._marks: deque[Mark] = deque()

    def pump(self) -> bool:
        """Takes in everything that has arrived; True when there were reports or marks."""
        # Features first: most of them then wait for their losses, not the other way round.
        for _, message in self.features.receive():
            if isinstance(message, Features):
                self.learner.fold_features(message)
            else:
                self.strays += 1
        before = self.received
        for _, message in self.losses.receive():
            match message:
                case Losses():
                    self.received += 1
                    self.learner.fold_losses(message)
                case Mark():
                    self.received += 1
                    self._marks.append(message)
                    self.mark_reached()
                case End():
                    self.ended = True
                case _:
                    self.strays += 1
        return self.received > before

    def mark_reached(self) -> None:
        """Makes the checkpoint asked for next, if its reports are folded in."""
        while self._marks and (not self.learner.ordered or self.learner.version >= self._marks[0].batches):
            self.checkpoint(self._marks.popleft())
