"""What the Batcher says: batches to the Boss, their features to the Assistant."""

from proto.batches import Batch, End
from proto.learning import Features
from proto.lifecycle import Worker
from proto.sockets import Port
from proto.transport import Outbound


class Outlet:
    """Sends without ever waiting; features that do not fit are dropped and counted."""

    def __init__(self, worker: Worker, batches: Port, carrier: Outbound) -> None:
        self.batches, self.carrier = batches, carrier
        self._send_features = worker.sender(worker.port("features"))
        self.features_dropped = 0

    def send(self, message: Batch | End, features: Features | None) -> None:
        # Features first: the Assistant then has them when the Boss's losses arrive.
        if features is not None:
            self.features_dropped += not self._send_features(features)
        if isinstance(message, Batch):
            self.carrier.send(message, "boss")
        else:
            self.batches.send(message, "boss")
