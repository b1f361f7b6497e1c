"""`python -m batcher --run-dir DIR`."""

import sys
from collections.abc import Mapping

from batcher.config import BatcherConfig, DataConfig, PolicyConfig
from batcher.core import BatcherCore
from batcher.flow import Flow
from batcher.handed import descriptors
from batcher.inlet import Inlet
from batcher.outlet import Outlet
from batcher.plugin import load, no_test
from batcher.readers import Readers
from batcher.source import Source
from batcher.stream import Tape
from batcher.workers import Pool
from proto.batches import End
from proto.control import Ready, Start
from proto.lifecycle import Worker, run_worker
from proto.messages import Kind
from proto.slot_sender import SlotSender

SUSPECTS = "suspects.csv"


def body(worker: Worker) -> None:
    """Load the data set, then answer every credit with a batch until the budget is used up."""
    data = worker.section("data", DataConfig)
    config, policy = worker.section("batcher", BatcherConfig), worker.section("policy", PolicyConfig)
    lag = worker.run.lag if worker.run.deterministic else None

    def start_workers(sources: Mapping[Kind, Source], rows: int) -> None:
        if not config.workers:
            return
        started: list[Pool | Readers] = []
        if any(source.by_item for source in sources.values()):
            started.append(Pool(data, worker.run.seed, sources, rows, config.workers, config.max_tokens))
            worker.owns(started[-1])
        tape = sources["train"].split
        if isinstance(tape, Tape) and tape.shards:
            tape.elsewhere = Readers(data, worker.run.seed, tape.shards, config.workers)
            started.append(tape.elsewhere)
            worker.owns(started[-1])
        worker.cpu_elsewhere = lambda: sum(children.cpu_s for children in started)

    core = BatcherCore(worker.run, config, policy, load(data), data.name, lag, start_workers)
    batches = worker.port("batches")
    carrier = SlotSender(batches, worker.incarnation, core.can_open)
    worker.owns(carrier)
    core.alive = worker.beat
    flow, outlet = Flow(), Outlet(worker, batches, carrier)
    if lag is None:
        core.selector.policy = flow.timed(core.selector.policy)
    worker.metrics = lambda: {
        **core.metrics(),
        **flow.metrics(),
        "features_dropped": outlet.features_dropped,
    }
    worker.tell(core.spec)
    if not core.spec.test_size and not worker.incarnation and not descriptors(data):
        worker.warn(no_test(data.name))
    worker.tell(Ready())
    worker.expect(Start)
    inlet = Inlet(worker, carrier, core)
    ended = False
    while not worker.stopping:
        inlet.pump()
        if inlet.credits and not ended and core.ready:
            message, features = core.next(inlet.credits.popleft(), worker.incarnation, carrier.lend)
            under_way = inlet.slots - len(inlet.credits) - 1
            outlet.send(message, features)
            flow.sent(under_way, carrier.bytes_sent)
            if lag is None and flow.starved != core.selector.starved:
                core.selector.starved = flow.starved
                if flow.noteworthy:
                    worker.warn(flow.why())
            ended = isinstance(message, End)
        elif inlet.slots and not inlet.credits and not ended:
            with flow.waiting():
                worker.wait([batches, inlet.weights])
        else:
            worker.wait([batches, inlet.weights])
        worker.beat()
    core.write_suspects(worker.run_dir / SUSPECTS)


if __name__ == "__main__":
    sys.exit(run_worker("batcher", body))
