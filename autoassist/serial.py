"""`run.serial`: the three cores in one process, without sockets. For debuggers, tests and quick comparisons."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch

import assistant.checkpoint
import boss.allocator
import boss.checkpoint
from assistant.history import History
from assistant.learner import Learner
from autoassist.checkpoints import Collector
from autoassist.config import Settings
from autoassist.live import View
from autoassist.metrics import MetricsFile
from autoassist.rundir import Watch
from autoassist.supervisor import Resume
from batcher.core import BatcherCore
from batcher.plugin import load, no_test
from boss.account import Account
from boss.clock import Clocked
from boss.outlet import LossOutlet
from boss.progress import Progress
from boss.trainer import Trainer, device_name
from proto.batches import Batch, End
from proto.control import Part, Saving
from proto.errors import ConfigError
from proto.learning import Losses, Mark
from proto.messages import Role, Value
from proto.transport import Layout
from proto.types import Array


class SerialStream:
    """Stands where sockets stand otherwise, between the core of the Batcher and that of the Assistant."""

    def __init__(
        self,
        core: BatcherCore,
        learner: Learner,
        history: History,
        run_dir: Path,
        collector: Collector,
        stop: Callable[[], bool],
    ) -> None:
        """Ends early once `stop()` is true."""
        self.core, self.learner, self.history = core, learner, history
        self.run_dir, self.collector, self.stop = run_dir, collector, stop
        self.complete = False
        self.problem = ""
        """What the user must mend, found by the Batcher's core, or that the run directory is gone: no batch follows."""
        learner.on_version = self._publish

    def __iter__(self) -> Iterator[Batch]:
        watch = Watch(self.run_dir)
        while not self.stop() and not self.problem:
            try:
                message, features = self.core.next(0, 0, _lend)
            except ConfigError as error:
                self.problem = str(error)
                return
            if isinstance(message, End):
                self.complete = True
                return
            if features is not None:
                self.learner.fold_features(features)
            yield message
            self.problem = watch.problem()

    def release(self, batch: Batch) -> None:
        """Nothing to give back: arrays are made anew for each batch."""

    def send(self, message: Losses | Mark | End) -> bool:
        """What the Boss says to the Assistant."""
        if isinstance(message, Losses):
            self.learner.fold_losses(message)
        elif isinstance(message, Mark):
            try:
                files = assistant.checkpoint.save(self.run_dir, message.name, self.learner, self.history)
            except OSError as error:
                self.collector.refused(message.name, error)
            else:
                self.collector.add("assistant", Part(name=message.name, files=files, plain={}))
        return True

    def _publish(self) -> None:
        snapshot = self.learner.snapshot()
        self.learner.published()
        self.history.add(snapshot)
        self.core.fold(snapshot)


def _lend(slot: int, layout: Layout) -> dict[str, Array]:
    return {name: np.empty(shape, dtype) for name, (shape, dtype) in layout.items()}


def run_serial(
    settings: Settings, run_dir: Path, resume: Resume | None, view: View, stop: Callable[[], bool]
) -> tuple[dict[Role, dict[str, Value]], str]:
    """Trains to the end of the budget, or until `stop()` is true; returns each core's metrics, and in one line what
    ended it before, if anything did.

    `run_dir` is absolute, since the user's code may change the working directory. Raises ConfigError for what cannot
    be, before anything is trained.
    """
    if settings.boss.threads:
        torch.set_num_threads(settings.boss.threads)
    run, config = settings.run, settings.boss
    torch.use_deterministic_algorithms(run.deterministic, warn_only=True)
    boss.allocator.keep_freed_memory()
    core = BatcherCore(run, settings.batcher, settings.policy, load(settings.data), settings.data.name, run.lag)
    if not core.spec.test_size:
        view.say(no_test(settings.data.name))
    learner = Learner(core.spec, settings.assistant, ordered=True)
    history = History(core.spec.ledger_size, run.lag)
    trainer, account = Trainer(run, config, core.spec), Account()
    with MetricsFile(run_dir / "metrics.jsonl", resume.manifest if resume else None, view.say) as metrics:
        collector = Collector(run_dir, lambda: {"t": metrics.t, "cpu_s": {"supervisor": time.process_time()}}, view.say)
        stream = SerialStream(core, learner, history, run_dir, collector, lambda: stop() and trainer.between_steps)
        outlet = LossOutlet(stream.send, config.loss_queue, prompt=True)
        if resume is not None:
            boss.checkpoint.load(run_dir, resume.name, trainer, account, outlet)
            assistant.checkpoint.load(run_dir, resume.name, learner, history)
            for snapshot in history.replay():
                core.fold(snapshot)
        every = max(1, round(config.checkpoint_every * core.spec.train_size)) if config.checkpoint_every else 0

        def tell(message: Part | Saving) -> None:
            if isinstance(message, Part):
                collector.add("boss", message)

        checkpointer = boss.checkpoint.Checkpointer(run_dir, every, trainer, account, outlet, tell, view.say)
        core.open(account.open(incarnation=0, slots=1, eval_every=config.eval_every))

        def record(event: str, values: dict[str, Value]) -> None:
            metrics.write("boss", event, values)
            view.evaluated(values)
            checkpointer.after_evaluation(values)

        def gate(values: dict[str, Value]) -> None:
            metrics.write("assistant", "gate", values)
            view.gate(values)

        learner.on_gate = gate
        progress = Progress(account, core.spec, lambda event, values: metrics.write("boss", event, values))

        def after_batch(batch: Batch) -> None:
            progress.after_batch(batch)
            checkpointer.after_batch(batch)

        trainer.train(Clocked(stream, account), outlet, record, after_batch)
        if every and not stream.complete:
            checkpointer.save()
    core.write_suspects(run_dir / "suspects.csv")
    problem = stream.problem
    if stream.complete:
        try:
            boss.checkpoint.save_weights(trainer.evaluated.state_dict(), run_dir / "model.safetensors")
        except OSError as error:
            problem = f"model.safetensors not written: {error}"
    workers: dict[Role, dict[str, Value]] = {
        "batcher": core.metrics(),
        "boss": {
            **trainer.metrics(),
            **account.metrics(),
            "device": device_name(trainer.device),
            "checkpoints_failed": checkpointer.failed,
            "reports_made": outlet.made,
            "reports_dropped": outlet.dropped,
        },
        "assistant": learner.metrics(),
    }
    return workers, problem
