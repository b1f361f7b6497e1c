"""Batcher and Assistant for a training loop in this process, which is the Boss: their start, the stream, their end."""

import contextlib
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from autoassist.attended import Attended, Guest
from autoassist.config import Settings, to_toml
from autoassist.metrics import newest_beats
from autoassist.reports import refuse_missing
from batcher.handed import NAME
from boss.account import Account
from boss.inlet import Stream
from boss.outlet import LossOutlet
from proto import checkpoint
from proto.batches import Batch, End
from proto.control import DataSpec, Part, Ready, Start
from proto.disk import tail
from proto.errors import ConfigError
from proto.learning import Mark
from proto.lifecycle import Stopped
from proto.slot_receiver import SlotReceiver
from proto.slots import slot_bytes
from proto.sockets import make_socket_dir

LAST_REPORTS_S = 2.0
"""How long the end may wait while no report leaves."""
LAST_OF_LOG = 4000
"""Bytes of a failed worker's log that are shown."""
PART_S = 60.0
"""How long the Assistant may take to write its part of a state."""


class Service:
    """One life of Batcher and Assistant, from the first batch asked for to the end of the budget or of the loop."""

    def __init__(self, settings: Settings, run_dir: Path | None, state: Mapping[str, Any] | None) -> None:
        """Starts them and waits until the stream is open. `state` is what `state` of another one returned.

        Raises ConfigError for what the user can mend and RuntimeError for anything else.
        """
        self._owner = os.getpid()
        self._worker: Guest | None = None
        self._begun = False
        self.settings, self.outcome, self._last = settings, dict[str, Any](), dict[str, Any]()
        self.account = Account()
        self._final: dict[str, Any] | None = None
        """What `state` is once the budget is used up."""
        self._temporary = run_dir is None
        self.run_dir = run_dir or make_socket_dir()
        self._attended: Attended | None = None
        try:
            self._prepare(state or {})
            self._attended = Attended(settings, self.run_dir, temporary=self._temporary)
            self._worker = worker = self._attended.connect()
            if worker is None:
                raise Stopped
            worker.hello()
            self.spec = worker.expect(DataSpec)
            if state and state["train_size"] != self.spec.train_size:
                found = f"{self.spec.train_size} instances"
                problem = f"the state is of one of {state['train_size']}; a loop goes on with the data it began with"
                raise ConfigError("train_set", found, problem)
            self._open(worker, state or {})
        except Stopped:
            raise self._failure() from None
        except BaseException:
            self.close()
            raise

    # -- start

    def _prepare(self, state: Mapping[str, Any]) -> None:
        """The run directory as the supervisor wants it, with the state to go on from as its checkpoint."""
        self.run_dir.mkdir(parents=True, exist_ok=True)
        (self.run_dir / "config.toml").write_text(to_toml(self.settings))
        # A service before this one may have left some, of a later place than this state's: the newest would be taken.
        shutil.rmtree(checkpoint.folder_of(self.run_dir), ignore_errors=True)
        if not state:
            return
        self.account.load(state["account"])
        name = checkpoint.name_of(self.account.batches)
        folder = checkpoint.partial(self.run_dir, name)
        folder.mkdir(parents=True)
        for file, content in state["assistant"].items():
            (folder / file).write_bytes(content)
        manifest = {"files": {}, "t": 0.0, "cpu_s": {}, "trained": self.account.trained, "evaluated": 0}
        checkpoint.complete(self.run_dir, name, manifest)
        (self.run_dir / "metrics.jsonl").touch()

    def _open(self, worker: Guest, state: Mapping[str, Any]) -> None:
        boss, spec = self.settings.boss, self.spec
        self.outlet = LossOutlet(
            worker.sender(worker.port("losses")), boss.loss_queue, prompt=self.settings.run.deterministic
        )
        if state:
            self.outlet.made, self.outlet.dropped = state["reports"]["made"], state["reports"]["dropped"]
        batches = worker.port("batches")
        self.carrier = SlotReceiver(batches, boss.slots, slot_bytes(spec))
        worker.owns(self.carrier)
        self.stream = Stream(
            worker, batches, self.carrier, boss.slots, eval_every=0.0, step=lambda: self.account.batches
        )
        self._metrics = worker.metrics = lambda: {
            "step": self.account.batches,
            "trained": self.account.trained,
            # Nobody here knows when a step of the loop has ended.
            **{key: value for key, value in self.account.metrics().items() if key != "train_s"},
            "transport": self.carrier.name,
            "waited_s": self.stream.waited_s,
            "loss": self.outlet.recent_loss,
            "reports_made": self.outlet.made,
            "reports_dropped": self.outlet.dropped,
        }
        worker.tell(Ready())
        worker.expect(Start)
        self.stream.open(self.account)
        self._begun = True
        self._batches: Iterator[Batch] = iter(self.stream)

    # -- the stream

    @property
    def running(self) -> bool:
        return self._worker is not None

    def next(self) -> Batch | None:
        """The next batch, accounted for; None once the budget is used up, and everything has ended then.

        Raises RuntimeError when something failed.
        """
        if self._worker is None:
            raise RuntimeError(f"this loader has failed: {self.outcome.get('reason', 'see above')}")
        self.outlet.flush()
        if self.settings.run.deterministic:
            refuse_missing(self.account.batches - self.outlet.made, self.settings.run.lag)
        try:
            batch = next(self._batches, None)
        except BaseException:
            # An interrupt ends a generator; the stream goes on with another one.
            self._batches = iter(self.stream)
            raise
        if batch is not None:
            self.account.add(batch)
            return batch
        if not self.stream.complete:
            raise self._failure()
        self._finish()
        return None

    def release(self, batch: Batch) -> None:
        """The arrays of `batch` are not read any more."""
        self.stream.release(batch)

    def state(self) -> dict[str, Any]:
        """All that another service needs to go on from here. Waits until the Assistant has seen the reports so far.

        Raises RuntimeError when it does not write its part.
        """
        if self._worker is None:
            if self._final is None:
                raise RuntimeError("the Assistant had not written its part of the state when everything ended")
            return self._final
        name = f"{checkpoint.name_of(self.account.batches)}-{self.outlet.made}"
        folder = checkpoint.folder_of(self.run_dir) / name
        if not folder.exists():
            self._checkpoint(self._worker, name, folder)
        files = {path.name: path.read_bytes() for path in folder.glob("assistant.*")}
        reports = {"made": self.outlet.made, "dropped": self.outlet.dropped}
        size = self.spec.train_size
        return {"train_size": size, "account": self.account.plain(), "reports": reports, "assistant": files}

    def _checkpoint(self, worker: Guest, name: str, folder: Path) -> None:
        self.outlet.flush(wait=True)
        worker.tell(Part(name=name, files={}, plain={"trained": self.account.trained, "evaluated": 0}))
        self.outlet.mark(Mark(name=name, batches=self.account.batches))
        deadline = time.monotonic() + PART_S
        while not (folder / checkpoint.MANIFEST).exists():
            self.outlet.flush()
            worker.wait([], 5)
            worker.beat()
            if worker.stopping:
                raise self._failure()
            if time.monotonic() > deadline:
                raise RuntimeError(f"the Assistant did not write its part of the state within {PART_S:g} s")

    def stats(self) -> dict[str, Any]:
        """As `Loader.stats`."""
        mine = dict(self._metrics() if self._worker is not None else self._last)
        others = self.outcome.get("workers") or newest_beats(self.run_dir / "metrics.jsonl")
        for role in ("batcher", "assistant"):
            mine |= {f"{role}_{key}": value for key, value in others.get(role, {}).items()}
        return mine

    # -- the end

    def _finish(self) -> None:
        """The budget is used up: the last reports arrive, then everything ends."""
        deadline = time.monotonic() + LAST_REPORTS_S
        sent = self.outlet.sent
        while not self.outlet.flush(wait=True) and time.monotonic() < deadline:
            if self.outlet.sent > sent:  # the Assistant is slow, not away
                sent, deadline = self.outlet.sent, time.monotonic() + LAST_REPORTS_S
            time.sleep(0.005)
        with contextlib.suppress(RuntimeError):  # what was trained is trained
            self._final = self.state()
        self.close()

    def close(self) -> None:
        """Ends everything and waits for it; whatever comes after the first call does nothing."""
        if os.getpid() != self._owner:
            return  # a child that was forked from ours has its copy of this object, and none of what it stands for
        worker, self._worker = self._worker, None
        attended, self._attended = self._attended, None
        if worker is not None:
            self._last = worker.metrics()
            if self._begun:
                self.outlet.mark(End(seq=self.account.seq, incarnation=worker.incarnation))
            worker.last_words(worker.done())
        if attended is not None:
            attended.end(asked=worker is not None)
        if worker is not None:
            worker.close()  # not before: the Assistant may still read
        if attended is not None:
            self.outcome = attended.outcome()
        if self._temporary:
            shutil.rmtree(self.run_dir, ignore_errors=True)

    def _failure(self) -> Exception:
        """What ended the run before its time; ends everything."""
        kept, self._temporary = self._temporary, False
        self.close()
        code, reason = self.outcome.get("exit_code", 1), in_users_words(self.outcome.get("reason", ""))
        log = self.run_dir / "logs" / f"{self.outcome.get('failed')}.log"
        said = tail(log, LAST_OF_LOG) if log.is_file() else ""
        if kept:
            shutil.rmtree(self.run_dir, ignore_errors=True)
        if code == 2:
            return ConfigError.told(reason)
        text = f"{reason or 'the supervising process died'}; `load_state_dict` of your last state goes on from there"
        return RuntimeError(f"{text}\nThe end of {log.name}:\n{said}" if said else text)


def in_users_words(reason: str) -> str:
    """`reason`, with the data set called what the user calls it."""
    return reason.replace(f"data.name = {NAME!r}", "train_set").replace(NAME, "train_set")
