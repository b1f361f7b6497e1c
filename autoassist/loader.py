"""`autoassist.Loader`: batches for anybody's own training loop, chosen by the Assistant."""

import json
import os
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

import torch
from torch import Tensor

from autoassist import ranks
from autoassist.batch import Batch, own
from autoassist.config import Settings, checked
from autoassist.epochs import Epoch
from autoassist.handover import hand_over
from autoassist.held import Held
from autoassist.reports import Missing, check, mean
from autoassist.service import Service
from batcher.handed import NAME
from proto.control import DataSpec
from proto.errors import ConfigError
from proto.structure import PAIR

STATE_VERSION = 2


class Loader:
    """Takes the place of a torch DataLoader in a training loop.

    It is one stream of batches, `budget` Boss epochs long, and ends then. `iter` goes on where the stream stands, be it
    for the first time, after a `break` or after an exception; it never starts over. Batcher and Assistant are processes
    of their own; they start when the first batch, or a number of batches, is asked for. They end with the stream, with
    `close`, when the loader is collected, and with this process, whatever ended that.

    To be used by one thread at a time.
    """

    def __init__(
        self,
        train_set: Any = None,
        *,
        batch_size: int,
        budget: float,
        policy: str = "assist",
        gamma: float = 0.1,
        workers: int = 0,
        seed: int = 0,
        classes: int = 0,
        factory: Callable[[], Any] | str | None = None,
        deterministic: bool = False,
        pin_memory: bool | None = None,
        run_dir: str | os.PathLike[str] | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        """`train_set` is a map-style data set; it is copied as it is now, and travels to the Batcher with cloudpickle.
        Where it cannot, `factory` is a callable, or "module:callable", that makes it there.

        `batch_size`: instances in a batch. `budget`: Boss epochs, that is how many times as many instances as the data
        set has are trained. `policy` and `gamma`: which candidates are kept, as in `autoassist policies`. `workers`:
        processes that decode instances; arrays in memory need none. `seed`: of order, coins and augmentation.
        `classes`: number of classes; without it (0) labels are counted, which reads every instance of a data set that
        has no `targets`. `deterministic`: each batch is chosen with exactly the reports of all but the last `run.lag`
        batches; each must be reported. `pin_memory`: hand out batches in pinned memory (None: where there is CUDA).
        `run_dir`: a new folder for logs and metrics (None: a temporary one). `config`: any other "section.key" of
        `autoassist config`.

        Raises ConfigError, a ValueError, for what cannot be.
        """
        tables: dict[str, dict[str, Any]] = {
            "run": {"budget": float(budget), "seed": seed, "deterministic": deterministic, "by_hand": ["boss"]},
            "data": {"name": NAME},
            "batcher": {"batch_size": batch_size, "workers": workers},
            "policy": {"name": policy, "gamma": float(gamma)},
        }
        for key, value in (config or {}).items():
            section, dot, name = key.partition(".")
            if not dot or name in tables.get(section, {}):
                problem = "is no section.key, or one that Loader has an argument for"
                raise ConfigError(f"config[{key!r}]", value, problem)
            tables.setdefault(section, {})[name] = value
        checked(tables)
        self._run_dir = None if run_dir is None else Path(run_dir).absolute()
        if self._run_dir is not None and self._run_dir.exists() and any(self._run_dir.iterdir()):
            raise ConfigError("run_dir", str(run_dir), "is not empty; name a new folder")
        self._ranks = ranks.present()
        if deterministic and checked(tables).run.lag < self._ranks.count:
            raise ConfigError(
                "run.lag", tables["run"].get("lag"), f"there are {self._ranks.count} ranks; at least that"
            )
        descriptor = None if self._ranks.rank else hand_over(train_set, factory, classes)
        self._held = Held(descriptor, self._ranks)
        tables["data"]["args"] = {"descriptor": -1 if descriptor is None else descriptor}
        self._settings: Settings = checked(tables)
        self._pin = torch.cuda.is_available() if pin_memory is None else pin_memory
        self._end = weakref.finalize(self, self._held.close)
        self._state: dict[str, Any] | None = None
        """What the service is to go on from, once it starts."""
        self._spec: DataSpec | None = None
        self._structure: Any = PAIR
        self._closed = self._complete = False
        self._missing = Missing()
        self._taking = threading.Lock()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Loader cannot be pickled or copied: keep its state_dict() instead")

    # -- the loop

    def __iter__(self) -> Iterator[Batch]:
        while (batch := self._next()) is not None:
            yield batch

    def epochs(self) -> Iterator[Epoch]:
        """The Boss epochs that are left, to be iterated over one after the other.

        Epoch k ends with the batch that completes (k + 1) x N trained instances, N the size of the data set. Leaving
        one early leaves its rest to the next.
        """
        while not self._complete:
            size, total = self.spec.train_size, self.spec.train_total
            trained = self._trained
            number = trained // size
            yield Epoch(number, min((number + 1) * size, total), lambda: self._trained, self._next)
            if self._trained >= total:
                self._next()  # nothing comes any more, and all ends
            elif self._trained == trained:
                return  # nobody took a batch of it

    def report(self, batch: Batch, losses: Tensor) -> Tensor:
        """Tells the Assistant the loss of each instance of `batch`, and returns their mean by `batch.weights`.

        `losses`: float [B], on any device, as a criterion with reduction="none" gives. Call `backward` on what is
        returned, divided by the number of batches that make one optimizer step, if that is more than one. Never waits.
        A batch that is reported again is not counted again. Raises ValueError when the shape is another, TypeError when
        it is no tensor or `batch` no batch.
        """
        check(batch, losses)
        ticket = batch.ticket
        self._held.require_own()
        outlet = None if self._spec is None else self._ranks.outlet(self._held.service)
        if not ticket.reported and outlet is not None:
            ticket.reported = True
            self._missing.reported()
            outlet.report(ticket.message, self._batches, losses)
        return mean(losses, batch.weights if ticket.weighted else None) * ticket.share

    def _next(self) -> Batch | None:
        if not self._taking.acquire(blocking=False):  # its sockets serve one thread
            raise RuntimeError("two threads ask this loader for batches: let one take them and hand them on")
        try:
            return self._take()
        finally:
            self._taking.release()

    def _take(self) -> Batch | None:
        if self._complete:
            return None
        service = self._start()
        message, share = self._ranks.next(service)
        if message is None:
            self._complete = True
            return None
        batch = own(message, self._structure, share, pinned=self._pin)
        self._ranks.release(service, message)
        if self._settings.policy.name != "uniform":
            self._missing.taken()
        return batch

    # -- where it stands

    def __len__(self) -> int:
        """Batches of the whole budget: those that a loop takes from the beginning."""
        return self.spec.train_batches // self._ranks.count

    @property
    def steps_total(self) -> int:
        """The same, for schedulers; with accumulation an optimizer takes fewer steps."""
        return len(self)

    @property
    def progress(self) -> float:
        """Share of the budget that was handed out, from 0 to 1."""
        return self._trained / self.spec.train_total

    @property
    def spec(self) -> DataSpec:
        """The data set as the Batcher sees it."""
        if self._spec is None:
            self._start()
            assert self._spec is not None
        return self._spec

    @property
    def _trained(self) -> int:
        """Instances that all ranks were given."""
        service = self._held.service
        return self._ranks.trained if service is None else service.account.trained

    @property
    def _batches(self) -> int:
        """The step that a report is of."""
        service = self._held.service
        return self._trained // self._settings.batcher.batch_size if service is None else service.account.batches

    def stats(self) -> dict[str, Any]:
        """How it goes: what was trained, considered and kept, who waited, and what the Assistant says of itself.

        `trained`, `candidates`, `kept_fraction`, `dropped_per_class`, `waited_s` (for batches) and `reports_made` are
        as of now; `assistant_...` and `batcher_...` are what these said last, at most half a minute ago.
        """
        return {} if self._held.service is None else self._held.service.stats()

    # -- state

    def state_dict(self) -> dict[str, Any]:
        """Where the stream stands, and what the Assistant knows: `load_state_dict` of another loader goes on from here.

        Call it between `report` and the next batch. Waits until the Assistant has seen the reports so far. Under a
        policy that looks at losses, only with `deterministic` are the batches that follow exactly the same. Raises
        RuntimeError when the loader is closed, or something failed.
        """
        self._held.require_own()
        run = self._settings.run
        if self._spec is not None and not self._complete:
            self._ranks.collect(self._held.service)
        state: dict[str, Any] = {"version": STATE_VERSION, "seed": run.seed, "stream": self._state}
        service = self._held.service
        if service is not None and not self._closed:
            if run.deterministic and service.account.batches > service.outlet.made:
                raise RuntimeError("a batch was not reported: call state_dict after loader.report(batch, losses)")
            state["stream"] = service.state()
        elif self._closed:
            raise RuntimeError("the loader is closed; take its state before")
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on where `state_dict` was called, from the next batch on; batches handed out before count for nothing.

        Of several ranks all load the state of rank 0. Raises ValueError when the state is that of another seed; when it
        is that of a data set of another size, the first batch asked for does.
        """
        run = self._settings.run
        if state.get("version") != STATE_VERSION or "stream" not in state:
            raise ValueError("this is no state of a Loader, or one of another version")
        if state["seed"] != run.seed:
            raise ValueError(f"the state is of seed {state['seed']}, this loader's is {run.seed}")
        self._held.end()
        self._spec = None
        self._state, self._complete = state["stream"], False
        self._missing.reported()
        self._ranks.trained = int(self._state["account"]["trained"]) if self._state else 0

    # -- start and end

    def _start(self) -> Service | None:
        """The service, started if it was not; None on other ranks than 0."""
        self._held.require_own()
        if self._closed:
            raise RuntimeError("the loader is closed")
        if self._held.service is None and self._held.descriptor is not None:
            try:
                self._held.service = Service(self._settings, self._run_dir, self._state)
            except Exception as error:
                self._ranks.fail(error)
                raise
            self._spec = None
        service = self._held.service
        if self._spec is None:
            self._spec = spec = self._ranks.spec(service)
            self._structure = json.loads(spec.structure) if spec.structure else PAIR
        return service

    def close(self) -> None:
        """Ends Batcher and Assistant, if they run, and waits for that: about a second. Closing twice does nothing."""
        self._closed = True
        self._end()

    def __enter__(self) -> "Loader":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
