"""`run.serial`: the three cores in one process, without sockets. For debuggers, tests and quick comparisons."""

import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

from assistant.learner import Learner
from autoassist.config import Settings
from autoassist.live import View, evaluation_line
from autoassist.metrics import MetricsFile
from batcher.core import BatcherCore
from batcher.plugin import load
from boss.checkpoint import save_weights
from boss.clock import Clocked
from boss.outlet import LossOutlet
from boss.trainer import Trainer
from proto.messages import Batch, End, Losses, Open, Role, Value, Weights
from proto.transport import Layout
from proto.types import Array


class SerialStream:
    """Stands where sockets stand otherwise: batch b is chosen with the Assistant as it was after batch b - lag."""

    def __init__(self, core: BatcherCore, learner: Learner, lag: int) -> None:
        self.core, self.learner = core, learner
        # With a lag of 1 the batch is chosen after the losses of the one before it have been learned from.
        self._versions: deque[Weights] = deque()
        self._lag = lag

    def __iter__(self) -> Iterator[Batch]:
        while True:
            while len(self._versions) >= self._lag:
                self.core.fold(self._versions.popleft())
            message, features = self.core.next(0, 0, _lend)
            if isinstance(message, End):
                return
            if features is not None:
                self.learner.fold_features(features)
            yield message

    def release(self, batch: Batch) -> None:
        """Nothing to give back: arrays are made anew for each batch."""

    def report(self, losses: Losses) -> bool:
        self.learner.fold_losses(losses)
        self._versions.append(self.learner.snapshot())
        self.learner.published()
        return True


def _lend(slot: int, layout: Layout) -> dict[str, Array]:
    return {name: np.empty(shape, dtype) for name, (shape, dtype) in layout.items()}


def run_serial(settings: Settings, run_dir: Path, view: View) -> dict[Role, dict[str, Value]]:
    """Trains to the end of the budget; returns each core's metrics. Raises ConfigError as the workers would."""
    if settings.boss.threads:
        torch.set_num_threads(settings.boss.threads)
    core = BatcherCore(settings.run, settings.batcher, settings.policy, load(settings.data), settings.data.name)
    learner = Learner(core.spec, settings.assistant)
    trainer = Trainer(settings.run, settings.boss, core.spec)
    core.open(Open(incarnation=0, rank=0, slots=1, eval_every=settings.boss.eval_every))
    stream = SerialStream(core, learner, settings.run.lag)
    clock = Clocked(stream)
    outlet = LossOutlet(stream.report, settings.boss.loss_queue)
    with MetricsFile(run_dir / "metrics.jsonl") as metrics:

        def record(event: str, values: dict[str, Value]) -> None:
            metrics.write("boss", event, values)
            view.say(evaluation_line(values))

        trainer.train(clock, outlet, record)
    save_weights(trainer.model, run_dir / "model.safetensors")
    return {
        "batcher": core.metrics(),
        "boss": {
            **trainer.metrics(),
            "train_s": clock.seconds,
            "reports_made": outlet.made,
            "reports_dropped": outlet.dropped,
            "cpu_s": time.process_time(),
        },
        "assistant": learner.metrics(),
    }
