"""What the Batcher may still need: the last `lag` snapshots, and the ledger as it was before them.

With a fixed lag the Batcher is always `lag` versions behind. A Batcher that is started anew is given the oldest of them
in full, then the others, and stands where the old one stood.
"""

from collections import deque

import numpy as np

from proto.learning import Weights
from proto.ledger import Ledger
from proto.types import Array


class History:
    """Keeps published snapshots while the Batcher can need them."""

    def __init__(self, size: int, lag: int) -> None:
        self.lag = lag
        self._base = Ledger(size)
        self._oldest: Weights | None = None
        """The snapshot whose ledger is the base; None before there is one."""
        self._recent: deque[Weights] = deque()

    def add(self, weights: Weights) -> None:
        """`weights` was published."""
        self._recent.append(weights)
        if len(self._recent) > self.lag:
            self._oldest = self._recent.popleft()
            self._base.apply(self._oldest.delta)

    def replay(self) -> list[Weights]:
        """The snapshots that bring a new Batcher to where the old one stood: a full one, then numbered deltas."""
        ids = np.flatnonzero(self._base.times_trained)
        full = {"ids": ids, **self._base.take(ids)}
        if self._oldest is None:
            return list(self._recent)
        oldest = self._oldest.model_copy(update={"full": True, "delta": full})
        return [oldest, *self._recent]

    def state(self) -> tuple[dict[str, Array], list[dict[str, int | float]]]:
        """Arrays by name, and the plain fields of each snapshot of `replay`."""
        arrays: dict[str, Array] = {}
        plain = []
        for i, weights in enumerate(self.replay()):
            for part in ("arrays", "delta"):
                arrays |= {f"{i}.{part}.{name}": array for name, array in getattr(weights, part).items()}
            plain.append(weights.model_dump(exclude={"arrays", "delta"}))
        return arrays, plain

    def load(self, arrays: dict[str, Array], plain: list[dict[str, int | float]]) -> None:
        """Takes over what `state` gave."""
        parts: list[dict[str, dict[str, Array]]] = [{"arrays": {}, "delta": {}} for _ in plain]
        for key, array in arrays.items():
            number, part, name = key.split(".")
            parts[int(number)][part][name] = array
        for fields, there in zip(plain, parts, strict=True):
            weights = Weights.model_validate({**fields, **there})
            if weights.full:
                self._oldest = weights
                self._base.apply(weights.delta)
            else:
                self._recent.append(weights)
