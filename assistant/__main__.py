"""`python -m assistant --run-dir DIR`."""

import logging
import sys
import time
from typing import TYPE_CHECKING

from assistant.config import AssistantConfig
from proto.control import DataSpec, Part, Ready, Saving, Start
from proto.learning import Mark
from proto.lifecycle import Worker, run_worker

if TYPE_CHECKING:
    from assistant.learner import Learner
    from assistant.outlet import Outlet

log = logging.getLogger(__name__)

MIRROR_S = 5.0
"""How long an Assistant that was started anew waits for the Batcher's mirror."""


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
    learner.incarnation = worker.incarnation
    history = History(spec.ledger_size, worker.run.lag) if deterministic else None

    def save(mark: Mark) -> None:
        worker.tell(Saving())
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
    learner.on_gate = lambda values: worker.record("gate", values)
    worker.metrics = lambda: {
        **learner.metrics(),
        "messages_received": inlet.received,
        "versions_published": outlet.published,
        "versions_postponed": outlet.postponed,
        "strays": inlet.strays + outlet.strays,
    }
    if worker.info.resume:
        checkpoint.load(worker.run_dir, worker.info.resume, learner, history)
    worker.tell(Ready())
    worker.expect(Start)
    if worker.late:
        _take_over(worker, learner, outlet)
    elif worker.info.resume:
        outlet.replay()
    while not worker.stopping:
        outlet.hear()
        outlet.answer()
        if inlet.pump():
            if not deterministic:
                outlet.publish()
        else:
            worker.wait([inlet.features, inlet.losses, outlet.weights])
        worker.beat()
    deadline = time.monotonic() + worker.patience_s
    # Features may be read later than losses that came after them.
    while (not inlet.ended or learner.waits) and time.monotonic() < deadline:
        if not inlet.pump():
            worker.wait([inlet.features, inlet.losses], 10)


def _take_over(worker: Worker, learner: "Learner", outlet: "Outlet") -> None:
    """Goes on from where the Assistant before was: from the Batcher's mirror, else from the last checkpoint."""
    from assistant import checkpoint
    from proto.checkpoint import newest

    source, deadline = "nothing", time.monotonic() + MIRROR_S
    while not worker.stopping and not outlet.wanted and time.monotonic() < deadline:
        mirror = outlet.hear()
        if mirror is not None and learner.adopt(mirror):
            source = "the Batcher's mirror"
            break
        worker.wait([outlet.weights])
        worker.beat()
    else:
        # The Batcher is new, too, or does not answer.
        found = newest(worker.run_dir)
        if found is not None:
            source = f"checkpoint {found[0]}"
            checkpoint.load(worker.run_dir, found[0], learner, None)
    log.info("goes on at version %d, from %s", learner.version, source)
    worker.record("taken_over", {"version": learner.version, "source": source})


if __name__ == "__main__":
    sys.exit(run_worker("assistant", body))
