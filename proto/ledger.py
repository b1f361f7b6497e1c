"""The ledger: one record per instance, owned by the Assistant, mirrored in the Batcher."""

from collections.abc import Mapping

import numpy as np

from proto.types import Array, Bools, Float32s, Int64s

FIELDS: dict[str, str] = {
    "last_loss": "float32",
    "loss_before": "float32",
    "times_trained": "int32",
    "last_step": "int64",
}
"""Field -> dtype. Losses are NaN until there is one, `last_step` is -1 until then."""


VISITS = 3
"""Times an instance must have been trained before it can be a suspect."""


def stays_high(records: Mapping[str, Array], mean_loss: float, untrained_loss: float) -> Bools:
    """Which of the `records`, bool [n], are suspects: their losses stay high while those of others fall.

    That is: trained at least `VISITS` times, the last two losses are both those of a model that was not trained at all,
    or worse, and the mean loss is at most half of that. Most such instances bear a wrong label.
    """
    if not 0 < mean_loss <= untrained_loss / 2:
        return np.zeros(len(records["last_loss"]), bool)
    # Comparisons with NaN are false: who has no loss before is no suspect.
    high = (records["last_loss"] >= untrained_loss) & (records["loss_before"] >= untrained_loss)
    return high & (records["times_trained"] >= VISITS)


class Ledger:
    """The records of instances 0 to `size` - 1 as one array per field (20 bytes an instance).

    None is kept of an instance beyond them: in a stream each comes once, and its ledger has size 0.
    """

    def __init__(self, size: int) -> None:
        self.last_loss = np.full(size, np.nan, np.float32)
        self.loss_before = np.full(size, np.nan, np.float32)
        self.times_trained = np.zeros(size, np.int32)
        self.last_step = np.full(size, -1, np.int64)

    def __len__(self) -> int:
        return len(self.last_loss)

    def fold(self, ids: Int64s, losses: Float32s, step: int) -> None:
        """Takes in the losses of one batch, in which an id may stand twice where the batch straddles passes."""
        kept = ids < len(self)
        if not kept.all():
            ids, losses = ids[kept], losses[kept]
        unique, first = np.unique(ids, return_index=True)
        self._fold_distinct(unique, losses[first], step)
        if len(unique) < len(ids):
            again = np.ones(len(ids), bool)
            again[first] = False
            self.fold(ids[again], losses[again], step)

    def _fold_distinct(self, ids: Int64s, losses: Float32s, step: int) -> None:
        self.loss_before[ids] = self.last_loss[ids]
        self.last_loss[ids] = losses
        self.times_trained[ids] += 1
        self.last_step[ids] = step

    def take(self, ids: Int64s) -> dict[str, Array]:
        """The records of `ids`, as arrays of their length; those of an instance that was never trained where none is
        kept."""
        kept = ids < len(self)
        if kept.all():
            return {field: getattr(self, field)[ids] for field in FIELDS}
        blank = Ledger(1)
        found = {field: getattr(blank, field).repeat(len(ids)) for field in FIELDS}
        for field, values in found.items():
            values[kept] = getattr(self, field)[ids[kept]]
        return found

    def apply(self, delta: Mapping[str, Array]) -> None:
        """Takes over the records in `delta`: "ids" and every field.

        Raises ValueError, changing nothing, unless all are there, of their dtype, equally long, with ids in range.
        """
        ids = delta.get("ids")
        if ids is None or ids.dtype != np.int64 or ids.ndim != 1 or delta.keys() != {"ids", *FIELDS}:
            raise ValueError("a ledger delta holds int64 ids and every field")
        if len(ids) and (ids.min() < 0 or ids.max() >= len(self)):
            raise ValueError(f"ids outside [0, {len(self)})")
        for field, dtype in FIELDS.items():
            if delta[field].shape != ids.shape or delta[field].dtype != dtype:
                raise ValueError(f"{field} is {delta[field].dtype} {delta[field].shape}")
        for field in FIELDS:
            getattr(self, field)[ids] = delta[field]
