"""`python -m assistant --run-dir DIR`."""

import sys
import time

from assistant.config import AssistantConfig
from proto.lifecycle import Worker, run_worker
from proto.messages import DataSpec, Ready, Start

LAST_REPORTS_S = 1.0
"""How long the reports that were sent before the end may take to arrive."""


def body(worker: Worker) -> None:
    """Learn from each loss report and publish the new version, until the supervisor says stop."""
    config = worker.section("assistant", AssistantConfig)
    # Torch takes seconds to import: after HELLO, so that the supervisor knows that we are there.
    import torch

    from assistant.inlet import Inlet
    from assistant.learner import Learner
    from assistant.outlet import Outlet

    torch.set_num_threads(config.threads)
    learner = Learner(worker.expect(DataSpec), config)
    inlet, outlet = Inlet(worker, learner), Outlet(worker, learner)
    worker.metrics = lambda: {
        **learner.metrics(),
        "reports_received": inlet.reports_received,
        "versions_published": outlet.published,
        "versions_postponed": outlet.postponed,
        "strays": inlet.strays,
    }
    worker.tell(Ready())
    worker.expect(Start)
    while not worker.stopping:
        if inlet.pump():
            outlet.publish()
        else:
            worker.wait([inlet.features, inlet.losses])
        worker.beat()
    deadline = time.monotonic() + LAST_REPORTS_S
    while inlet.reports_received < worker.expected_reports and time.monotonic() < deadline:
        if not inlet.pump():
            worker.wait([inlet.features, inlet.losses], 10)


if __name__ == "__main__":
    sys.exit(run_worker("assistant", body))
