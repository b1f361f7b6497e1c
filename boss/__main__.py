"""`python -m boss --run-dir DIR`."""

import sys
import time
from functools import partial

from boss.config import BossConfig
from proto.batches import Batch, End
from proto.control import DataSpec, Ready, Start
from proto.errors import ConfigError
from proto.lifecycle import Worker, run_worker
from proto.messages import Value
from proto.slot_receiver import SlotReceiver
from proto.slots import slot_bytes

LAST_REPORTS_S = 2.0
"""How long the Boss waits, once training is over, while no report leaves."""

HOLD_S = 8.0
"""How long a Boss that has used up its budget keeps its sockets for an Assistant that still reads."""


def body(worker: Worker) -> None:
    """Build the model for the data, then train on every batch of the stream."""
    config = worker.section("boss", BossConfig)
    # Torch takes seconds to import: after HELLO, so that the supervisor knows that we are there.
    import torch

    from boss import allocator, checkpoint
    from boss.account import Account
    from boss.clock import Clocked
    from boss.copier import CudaLane
    from boss.inlet import Stream
    from boss.outlet import LossOutlet
    from boss.pinned import SlotCopier, pin
    from boss.progress import Progress
    from boss.trainer import Trainer, device_name

    if config.threads:
        torch.set_num_threads(config.threads)
    if worker.run.deterministic:
        torch.use_deterministic_algorithms(True, warn_only=True)
    allocator.keep_freed_memory()
    spec = worker.expect(DataSpec)
    trainer, account = Trainer(worker.run, config, spec), Account()
    outlet = LossOutlet(worker.sender(worker.port("losses")), config.loss_queue, prompt=worker.run.deterministic)
    if worker.info.resume:
        checkpoint.load(worker.run_dir, worker.info.resume, trainer, account, outlet)
    batches = worker.port("batches")
    pinned = config.pin_memory and trainer.device.type == "cuda"
    pins = partial(pin, warn=worker.warn) if pinned else None
    carrier = SlotReceiver(batches, config.slots, slot_bytes(spec), pins, worker.warn)
    worker.owns(carrier)
    if pinned:
        lane, staged = CudaLane(trainer.device), trainer.prepare.copier
        trainer.prepare.copier = SlotCopier(lane, staged, lambda: carrier.pinned)
    may_stop, step = lambda: trainer.between_steps, lambda: trainer.stepper.steps
    stream = Stream(worker, batches, carrier, config.slots, config.eval_every, may_stop, step)
    every = max(1, round(config.checkpoint_every * spec.train_size)) if config.checkpoint_every else 0
    checkpointer = checkpoint.Checkpointer(worker.run_dir, every, trainer, account, outlet, worker.tell, worker.warn)
    worker.metrics = lambda: {
        **trainer.metrics(),
        **account.metrics(),
        "device": device_name(trainer.device),
        "transport": carrier.name,
        "waited_s": stream.waited_s,
        "loss": outlet.recent_loss,
        "reports_made": outlet.made,
        "reports_dropped": outlet.dropped,
        "checkpoints_failed": checkpointer.failed,
    }

    def record(event: str, values: dict[str, Value]) -> None:
        worker.record(event, values)
        checkpointer.after_evaluation(values)

    progress = Progress(account, spec, worker.record)

    def after_batch(batch: Batch) -> None:
        progress.after_batch(batch)
        checkpointer.after_batch(batch)

    worker.tell(Ready())
    worker.expect(Start)
    stream.open(account)
    trainer.train(Clocked(stream, account), outlet, record, after_batch)
    if every and not stream.complete and not worker.orphaned:
        checkpointer.save()
    outlet.mark(End(seq=account.seq, incarnation=worker.incarnation))
    sent, deadline = outlet.sent, time.monotonic() + LAST_REPORTS_S
    while not outlet.flush() and time.monotonic() < deadline:
        if stream.complete and outlet.sent > sent:  # the Assistant is slow, not away
            sent, deadline = outlet.sent, time.monotonic() + LAST_REPORTS_S
        time.sleep(0.005)
    # A peer that closes while the other end is full takes with it what is under way.
    worker.hold_s = HOLD_S if stream.complete else LAST_REPORTS_S
    if stream.complete:
        try:
            checkpoint.save_weights(trainer.evaluated.state_dict(), worker.run_dir / "model.safetensors")
        except OSError as error:
            # As a mistake in the configuration: another Boss could not write it either.
            raise ConfigError("run.dir", str(worker.run_dir), f"model.safetensors not written: {error}") from None


if __name__ == "__main__":
    sys.exit(run_worker("boss", body))
