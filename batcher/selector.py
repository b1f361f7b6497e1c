"""The selector: the Batcher's mirror of the Assistant, and the policy that looks into it."""

import logging

import numpy as np

from batcher.features import FeatureStore
from batcher.policies import Candidates, Policy, Progress
from proto import scorer
from proto.errors import RAISED, ConfigError, raised
from proto.learning import Weights
from proto.ledger import Ledger
from proto.messages import Assistant
from proto.types import Array, Float32s, Int64s

log = logging.getLogger(__name__)

SAMPLE = 4096
"""Instances whose last losses stand for those of all."""
AT_HAND = 1 << 18
"""Candidates of a stream whose p is remembered: more than may be under way."""
BINS = 10
"""Of the histogram of p."""
ROUNDING = 1e-5
"""How far float32 may take what a policy returns beyond what is allowed."""
TRIED = 4
"""Candidates that a policy is tried on before training."""


class Selector:
    """Answers, for candidates, with which probability to keep them and with which weight to train them."""

    def __init__(
        self, store: FeatureStore, policy: Policy, classes: int, max_lag: int | None = None, name: str = ""
    ) -> None:
        """Versions more than `max_lag` Boss steps behind have no say (None: all have). `name` is the policy's, for
        messages."""
        self.store, self.policy, self.max_lag, self.name = store, policy, max_lag, name
        self.step = 0
        """The Boss's step, as far as it is known here."""
        self.gap = False
        """Whether a snapshot was missed, so that a full one is needed."""
        self.assistant: Assistant = getattr(policy, "assistant", "above")
        self.base: float | None = getattr(policy, "base", None)
        """The floor of p under a gated policy; None: the policy is not gated."""
        self.ledger = Ledger(0 if store.source.in_order else store.source.size)
        self.selecting = 0.0
        """What the Assistant's gate says: how much of the policy's word counts, from 0 to 1."""
        self.starved = False
        """Whether the Boss waits for batches because choosing them takes so long."""
        self.histogram = np.zeros(BINS, np.int64)
        """How often p was in each tenth of [0, 1]."""
        self._sample = np.sort(np.random.default_rng(0).permutation(len(self.ledger))[:SAMPLE])
        # Ids of a stream grow without end: each takes the place of one long gone.
        places = max(store.source.size, AT_HAND) if store.source.in_order else store.source.size
        self._wanted = np.full(places if self.base is not None else 0, np.nan, np.float32)
        """The p that the policy wanted when an instance was last a candidate."""
        self.version = self.version_step = 0
        self.mean_loss = self.confidence = self.untrained_loss = 0.0
        self.weights_refused = 0
        self._refusing = False
        """Whether the last snapshot was refused."""
        self._arrays: dict[str, Float32s] = scorer.initial(self.assistant, store.dim, classes)
        self._deltas = 0
        self._incarnation = -1
        """The Assistant's that was heard last."""

    @property
    def late(self) -> bool:
        """Whether the newest version is too far behind to choose by."""
        return self.max_lag is not None and self.step - self.version_step > self.max_lag

    def fold(self, weights: Weights) -> None:
        """Takes over a snapshot and its ledger delta; one that is older or does not fit is counted and left alone, and
        the first of those in a row is logged."""
        fits = weights.arrays.keys() == self._arrays.keys() and all(
            array.shape == self._arrays[name].shape and array.dtype == np.float32 and np.isfinite(array).all()
            for name, array in weights.arrays.items()
        )
        version = weights.version
        if weights.full:
            newer = version >= self.version or weights.incarnation > self._incarnation
        else:
            newer = version > self.version and weights.delta_number == self._deltas
        if not fits or not newer:
            self.gap = self.gap or (fits and not weights.full and version > self.version)
            self._refuse(weights, f"delta {weights.delta_number} is old, or does not fit")
            return
        try:
            self.ledger.apply(weights.delta)
        except ValueError as error:
            self._refuse(weights, str(error))
            return
        self._refusing = False
        if weights.full:
            self._deltas, self.gap = weights.delta_number, False
        self._incarnation = weights.incarnation
        self._arrays = {name: np.array(array) for name, array in weights.arrays.items()}
        self._deltas += 1
        self.version, self.version_step = weights.version, weights.step
        self.mean_loss, self.confidence = weights.mean_loss, weights.confidence
        self.untrained_loss, self.selecting = weights.untrained_loss, weights.selecting

    def _refuse(self, weights: Weights, reason: str) -> None:
        self.weights_refused += 1
        if not self._refusing:
            self._refusing = True
            text = "refused weights version %d: %s; more of them in a row are only counted"
            log.warning(text, weights.version, reason)

    def mirror(self, incarnation: int) -> Weights:
        """All that the Assistant has said so far, in full, from the Batcher `incarnation`."""
        ids = np.flatnonzero(self.ledger.times_trained)
        return Weights(
            version=self.version,
            step=self.version_step,
            incarnation=incarnation,
            arrays=dict(self._arrays),
            mean_loss=self.mean_loss,
            confidence=self.confidence,
            untrained_loss=self.untrained_loss,
            selecting=self.selecting,
            full=True,
            delta_number=0,
            delta={"ids": ids, **self.ledger.take(ids)},
        )

    def revisit(self, weights: Weights) -> None:
        """The instances `weights` tell of were seen, maybe before the Batcher was started anew: what it knew of them
        can be had again."""
        ids = weights.delta.get("ids", np.empty(0, np.int64))
        self.store.revisit(ids[(ids >= 0) & (ids < len(self.ledger))])

    @property
    def open(self) -> bool:
        """Whether the policy's word counts; else every candidate is kept, at weight 1."""
        return self.base is None or (self.selecting > 0 and not self.starved)

    def select(self, ids: Int64s, trained: int, total: int, passes: int) -> tuple[Float32s, Float32s]:
        """Keep probability p and weight w, float32 [n] each, of the candidates `ids` of pass `passes`, for a batch with
        which `trained` of `total` instances will have been trained."""
        p, w = self._ask(ids, trained, total, passes)
        if self.base is not None:
            self._wanted[ids % len(self._wanted)] = p
            share = np.float32(self.selecting if self.open else 0)
            if share < 1:  # else p may become less than the base by rounding
                p, w = 1 - share * (1 - p), 1 - share * (1 - w)
        self.histogram += np.histogram(p, BINS, (0, 1))[0]
        return p, w

    @property
    def _silent(self) -> bool:
        """Whether the policy is not asked: the Boss, starved, does not wait for it, or what is known is too old."""
        return self.starved or self.late

    def _ask(self, ids: Int64s, trained: int, total: int, passes: int) -> tuple[Float32s, Float32s]:
        """What the policy wants; everything at weight 1 while it is not asked. Raises ConfigError for what it raises,
        and where it returns no such two arrays."""
        if self._silent:
            return np.ones(len(ids), np.float32), np.ones(len(ids), np.float32)
        progress = Progress(
            trained, total, passes, self.mean_loss, self.confidence, self.untrained_loss, self.version_step
        )
        candidates = Candidates(ids, progress, self.store, self.ledger, self._arrays, self._sample)
        try:
            p, w = (np.asarray(values, np.float32) for values in self.policy(candidates))
        except ConfigError:
            raise
        except RAISED as error:  # whatever a user's policy raises, and would raise again
            problem = f"raises {raised(error)}; needed: p and w, float32 [n] each"
            raise ConfigError("policy.name", self.name, problem) from error
        self._check("p", p, len(ids), 1.0)
        self._check("w", w, len(ids), np.inf)
        return p.clip(0, 1), w

    def _check(self, what: str, values: Float32s, n: int, most: float) -> None:
        """Raises ConfigError unless `values` are n finite numbers from 0 to `most`, rounding apart."""
        if values.shape != (n,):
            found = f"with shape {list(values.shape)}"
        elif not np.isfinite(values).all():
            found = "with one that is not finite"
        elif (outside := (values < -ROUNDING) | (values > most + ROUNDING)).any():
            found = f"= {values[outside][0]:g}"
        else:
            return
        needed = "from 0 to 1" if most == 1 else "0 or more"
        problem = f"returned {what} {found} for {n} candidates; needed: finite float32 [n], {needed}"
        raise ConfigError("policy.name", self.name, problem)

    def try_out(self) -> None:
        """Asks the policy for a few candidates, before training. Raises ConfigError when it cannot be asked."""
        self._ask(np.arange(min(TRIED, self.store.source.size)), 0, self.store.source.size, 0)

    def wanted(self, ids: Int64s, coins: Array) -> Float32s:
        """The p that the policy wanted for the kept `ids` with these `coins`, float32 [n]; NaN for those that were not
        sure to be kept whatever it wanted."""
        if self.base is None or self._silent:
            return np.full(len(ids), np.nan, np.float32)
        sampled = coins < (self.base if self.open else 1)
        return np.where(sampled, self._wanted[ids % len(self._wanted)], np.float32(np.nan))
