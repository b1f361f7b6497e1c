"""`python -m assistant --run-dir DIR`."""

import sys
import time

from assistant.config import AssistantConfig
from proto.lifecycle import Worker, run_worker
from proto.messages import DataSpec, Mark, Part, Ready, Start


def body(worker: Worker) -> None:
    """Learn from each loss report and publish the new version, until the supervisor says stop."""
    config = worker.section("assistant", AssistantConfig)
    # Torch takes seconds to import: after HELLO, so that the supervisor knows that we are there.
    import torch

    from assistant import checkpoint
    from assistant.history import History
    from assistant.inlet import Inlet
    from assistant.learner import Learner
    from assistant.outlet import Outlet

    torch.set_num_threads(config.threads)
    spec = worker.expect(DataSpec)
    deterministic = worker.run.deterministic
    learner = Learner(spec, config, ordered=deterministic)
    history = History(spec.ledger_size, worker.run.lag) if deterministic else None

    def save(mark: Mark) -> None:
        try:
            files = checkpoint.save(worker.run_dir, mark.name, learner, history)
        except OSError as error:
            worker.warn(f"checkpoint {mark.name} not written: {error}; the one before it stays")
            return
        worker.tell(Part(name=mark.name, files=files, plain={}))

    inlet = Inlet(worker, learner, save)
    outlet = Outlet(worker, learner, history)

    def publish_in_order() -> None:
        outlet.publish()
        inlet.mark_reached()

    if deterministic:
        learner.on_version = publish_in_order
    worker.metrics = lambda: {
        **learner.metrics(),
        "messages_received": inlet.received,
        "versions_published": outlet.published,
        "versions_postponed": outlet.postponed,
        "strays": inlet.strays,
    }
    if worker.info.resume:
        checkpoint.load(worker.run_dir, worker.info.resume, learner, history)
    worker.tell(Ready())
    worker.expect(Start)
    if worker.info.resume:
        outlet.replay()
    while not worker.stopping:
        if inlet.pump():
            if not deterministic:
                outlet.publish()
        else:
            worker.wait([inlet.features, inlet.losses])
        worker.beat()
    deadline = time.monotonic() + worker.patience_s
    while inlet.received < worker.expected_messages and time.monotonic() < deadline:
        if not inlet.pump():
            worker.wait([inlet.features, inlet.losses], 10)


if __name__ == "__main__":
    sys.exit(run_worker("assistant", body))
