"""Rules to plan batches with, and what comes of them."""

from collections.abc import Iterator, Sequence

import numpy as np

from batcher.generator import Generator, Plan, Select
from proto.types import Float32s, Int64s


def keep(p: float | Sequence[float]) -> Select:
    """A rule that keeps instance i with probability `p` or p[i], and gives it weight i."""

    def select(ids: Int64s, trained: int, total: int, passes: int) -> tuple[Float32s, Float32s]:
        table = np.broadcast_to(np.asarray(p, np.float32), (int(ids.max()) + 1,)) if np.isscalar(p) else np.asarray(p)
        return table[ids].astype(np.float32), ids.astype(np.float32)

    return select


def plans(generator: Generator) -> list[Plan]:
    return list(iter(generator.next, None))


class Jumpy(Generator):
    """Considers chunks of other sizes than its keep rate suggests."""

    rates: Iterator[float]

    @property
    def _rate(self) -> float:
        return next(self.rates)

    @_rate.setter
    def _rate(self, value: float) -> None: ...
