"""Makes arrays of plans: has the instances of a batch decoded, and leaves out those that cannot be used."""

import logging
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from batcher.generator import Generator, Plan, Position
from batcher.source import Finish, Room, Source
from batcher.usable import broken
from proto.errors import ConfigError
from proto.messages import Kind
from proto.types import Array

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Begun:
    """A planned batch: where the stream stood before it, the version that chose it, and what ends its decoding."""

    before: Position
    plan: Plan
    version: int
    version_step: int
    finish: Finish


class Assembler:
    """Gives batches their arrays. An instance that turns out bad is banned, and its batch planned anew."""

    def __init__(
        self,
        sources: Mapping[Kind, Source],
        begin: Callable[[Generator], Begun | None],
        *,
        max_bad: int,
        ahead: bool,
    ) -> None:
        """`begin` plans the next batch of a generator and has its decoding begun. With `ahead` that is done before the
        batch before is finished, where other processes decode."""
        self._sources, self._begin = sources, begin
        self._max_bad, self._looks_ahead = max_bad, ahead
        self._ahead: Begun | None = None
        self._unreadable: dict[Kind, set[int]] = {kind: set() for kind in sources if kind != "train"}
        """Of the splits that are evaluated; the generator knows those of the other."""
        self.skipped: list[int] = []
        """Ids of instances that cannot be used."""
        self.errors: deque[str] = deque(maxlen=16)
        """The last of them, with what is wrong."""

    def next(self, generator: Generator, room: Room) -> tuple[Begun, dict[str, Array]] | None:
        """The next batch of `generator` and its arrays, which `room` gives; None when there is none left.

        Raises ConfigError over `max_bad` bad instances, and where nothing is left to train on or to evaluate.
        """
        while True:
            begun, self._ahead = self._ahead or self._begin(generator), None
            if begun is None:
                return None
            plan, source = begun.plan, self._sources[begun.plan.kind]
            if plan.kind != "train":
                plan, arrays = self._evaluation(plan, room)
                return replace(begun, plan=plan), arrays
            # Decoding processes go on with the next batch while the last instances of this one are decoded.
            if self._looks_ahead and source.elsewhere is not None and generator.trains_next:
                self._ahead = self._begin(generator)
            arrays, errors = begun.finish(room)
            errors |= broken(source, plan.ids, arrays, errors)
            if not errors:
                return begun, arrays
            self._plan_anew(generator, begun, source, errors)

    def _plan_anew(self, generator: Generator, begun: Begun, source: Source, errors: Mapping[int, str]) -> None:
        """Goes back to before `begun`, whose instances `errors` are never kept again."""
        if self._ahead is not None:
            self._ahead.finish(None)
            self._ahead = None
        generator.ban(errors.keys())
        self._skip("train", errors)
        if generator.banned == source.size and not source.in_order:
            source.refuse(f"none of its training instances can be used; the last one: {self.errors[-1]}")
        generator.go_to(begun.before)

    def _evaluation(self, plan: Plan, room: Room) -> tuple[Plan, dict[str, Array]]:
        """`plan` without the instances that cannot be decoded, and its arrays."""
        source = self._sources[plan.kind]
        while True:
            good = ~np.isin(plan.ids, list(self._unreadable[plan.kind]))
            if not good.any():
                source.refuse(f"no instance of a batch of its {plan.kind} split can be used: {self.errors[-1]}")
            plan = replace(plan, ids=plan.ids[good], passes_of=plan.passes_of[good], weights=plan.weights[good])
            arrays, errors = source.read(plan.ids, room, plan.passes_of)
            errors |= broken(source, plan.ids, arrays, errors)
            if not errors:
                return plan, arrays
            self._unreadable[plan.kind] |= errors.keys()
            self._skip(plan.kind, errors)

    def _skip(self, kind: Kind, errors: Mapping[int, str]) -> None:
        for index, error in errors.items():
            self.skipped.append(index)
            self.errors.append(f"{index}{'' if kind == 'train' else f' of the {kind} split'}: {error}")
            log.warning("skipped instance %s", self.errors[-1])
        if len(self.skipped) > self._max_bad:
            # As a mistake in the configuration: a Batcher that is started anew would find them again.
            raise ConfigError(
                "batcher.max_bad",
                self._max_bad,
                f"{len(self.skipped)} instances cannot be used, the last one {self.errors[-1]}; "
                "mend the data, or allow more",
            )
