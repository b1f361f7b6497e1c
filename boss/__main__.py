"""`python -m boss --run-dir DIR`."""

import sys
import time

from boss.config import BossConfig
from proto.lifecycle import Worker, run_worker
from proto.messages import DataSpec, Ready, Start
from proto.transport import FrameCarrier

LAST_REPORTS_S = 1.0
"""How long the last reports may take to leave, once training is over."""


def body(worker: Worker) -> None:
    """Build the model for the data, then train on every batch of the stream."""
    config = worker.section("boss", BossConfig)
    # Torch takes seconds to import: after HELLO, so that the supervisor knows that we are there.
    import torch

    from boss.checkpoint import save_weights
    from boss.clock import Clocked
    from boss.inlet import Stream
    from boss.outlet import LossOutlet
    from boss.trainer import Trainer

    if config.threads:
        torch.set_num_threads(config.threads)
    trainer = Trainer(worker.run, config, worker.expect(DataSpec))
    batches = worker.port("batches")
    stream = Stream(worker, batches, FrameCarrier(batches), config.slots, config.eval_every)
    clock = Clocked(stream)
    outlet = LossOutlet(worker.port("losses").send, config.loss_queue)
    worker.metrics = lambda: {
        **trainer.metrics(),
        "train_s": clock.seconds,
        "waited_s": stream.waited_s,
        "loss": outlet.recent_loss,
        "reports_made": outlet.made,
        "reports_sent": outlet.sent,
        "reports_dropped": outlet.dropped,
        "batches_refused": stream.refused,
    }
    worker.tell(Ready())
    worker.expect(Start)
    trainer.train(clock, outlet, worker.record)
    deadline = time.monotonic() + LAST_REPORTS_S
    while not outlet.flush() and time.monotonic() < deadline:
        time.sleep(0.005)
    if stream.complete:
        save_weights(trainer.model, worker.run_dir / "model.safetensors")


if __name__ == "__main__":
    sys.exit(run_worker("boss", body))
