"""Policies that do not look at losses."""

import math
from pathlib import Path

import numpy as np

from batcher.policies.candidates import Candidates
from batcher.policies.rules import check, ones
from proto.errors import ConfigError
from proto.types import Float32s


class Uniform:
    """p = 1, w = 1: plain training on everything. Costs nothing."""

    assistant = "none"

    def __call__(self, candidates: Candidates) -> tuple[Float32s, Float32s]:
        return ones(candidates), ones(candidates)


class Random:
    """p = `fraction`, w = 1: the control for every other policy that drops as much. Costs nothing."""

    assistant = "none"

    def __init__(self, fraction: float = 0.5) -> None:
        self.fraction = check("fraction", fraction, 0, 1)

    def __call__(self, candidates: Candidates) -> tuple[Float32s, Float32s]:
        return ones(candidates) * np.float32(self.fraction), ones(candidates)


class Curriculum:
    """Easy instances first (Bengio, Louradour, Collobert, Weston, ICML 2009, section 4).

    p = 1 for the easiest share s of all instances, else 0; s rises linearly from `start` to 1 over the first `epochs`
    Boss epochs; w = 1. Difficulty is what the file `difficulty` says (.npy, one number an instance, by id), or, without
    one, the loss that the Assistant predicts, ranked among the candidates looked at together. Instances it cannot tell
    of are kept. Costs one comparison an instance with a file, else a forecast and a partial sort.
    """

    assistant = "loss"

    def __init__(self, difficulty: str = "", start: float = 0.25, epochs: float = 1.0) -> None:
        """Raises ConfigError when `difficulty` is no such file."""
        self.start, self.epochs = check("start", start, 0, 1), check("epochs", epochs, 0, math.inf)
        self._difficulty = _read(difficulty) if difficulty else None
        self._ranked = None if self._difficulty is None else _ranked(self._difficulty)

    def __call__(self, candidates: Candidates) -> tuple[Float32s, Float32s]:
        given = self._difficulty
        if given is not None and len(given) != candidates.size:
            problem = f"holds {len(given)} numbers for {candidates.size} training instances"
            raise ConfigError("policy.args.difficulty", "the file", problem)
        share = rising(candidates, self.start, self.epochs)
        if share >= 1:
            return ones(candidates), ones(candidates)
        hardness = candidates.predicted if given is None else given[candidates.ids]
        ranked = _ranked(hardness) if self._ranked is None else self._ranked
        most = ranked[int(share * (len(ranked) - 1))] if len(ranked) else np.inf
        return (~(hardness > most)).astype(np.float32), ones(candidates)


def rising(candidates: Candidates, start: float, epochs: float) -> float:
    """A share that rises linearly from `start` to 1 over the first `epochs` Boss epochs."""
    done = candidates.progress.trained / candidates.size
    return start + (1 - start) * min(1.0, done / epochs) if epochs > 0 else 1.0


def _ranked(hardness: Float32s) -> Float32s:
    """Those that are known, in order."""
    return np.sort(hardness[~np.isnan(hardness)])


def _read(path: str) -> Float32s:
    try:
        numbers = np.load(Path(path), allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise ConfigError("policy.args.difficulty", path, f"cannot be read as .npy: {error}") from None
    if not isinstance(numbers, np.ndarray) or numbers.ndim != 1 or numbers.dtype.kind not in "fiu":
        raise ConfigError("policy.args.difficulty", path, "must hold one number for each training instance")
    return numbers.astype(np.float32)
