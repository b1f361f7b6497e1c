"""The Assistant "loss": a network that predicts the loss an instance has now, from content, class and history.

It is a regression in log space: for a loss l and the mean loss m the network's output f stands for log(l / m + 0.05),
and its cost is the quasi-likelihood of Poisson regression, exp(f) - f (l / m + 0.05) (McCullagh, Nelder, Generalized
Linear Models, 1989, chapter 9), whose minimum is the mean; least squares on logarithms would find the median, which is
far below it where a few losses are very high. What is left over is mended by the factor `calibration`, which makes the
predictions add up to the losses on the unbiased sample (`assistant.sample`).

An Assistant must be of use within the first pass, on a few thousand instances, so it learns each batch once and then
small draws from the last 2048 instances, as experience replay does.
"""

import math
from collections.abc import Mapping

import numpy as np
import torch

from assistant.judge import Judge
from assistant.model import Lesson, aligned
from assistant.sample import Sample
from proto import scorer
from proto.messages import Value
from proto.types import Array, Float32s, Int64s

STANDARDISED_FROM = 4096
"""Instances from which mean and deviation of the features are taken."""
FIXED = ("shift", "scale", "calibration")
"""Arrays that no gradient reaches."""
LR = 0.003
"""Step size of Adam."""
REPLAYED = 2048
"""Instances that are learned from again."""
REPLAYS, EARLY, LATER = 3, 4000, 1
"""Draws from them for each batch in the first 4000 steps of its optimizer, and later."""
HIGHEST = 20.0
"""Losses above 20 times the mean are taken for that, and where exp(f) is above it goes on as a straight line: one
outlier must not drive the weights away."""
MOMENTS = ("exp_avg", "exp_avg_sq")
ERROR_DECAY = 0.98


class Forecaster:
    """The network, its optimizer, and what of its predictions came true."""

    def __init__(self, feature_dim: int, classes: int, lr: float, window: int, sample: Sample) -> None:
        arrays = scorer.initial("loss", feature_dim, classes)
        self._fixed = {name: arrays[name] for name in FIXED}
        self._parameters = {
            name: torch.nn.Parameter(aligned(array)) for name, array in arrays.items() if name not in FIXED
        }
        self._optimizer = torch.optim.Adam(self._parameters.values(), lr=LR * lr)
        self._optimizer_steps = 0
        self._judge, self._sample = Judge(window), sample
        self._memory: dict[str, Array] = {
            "features": np.zeros((REPLAYED, feature_dim), np.float32),
            "labels": np.zeros(REPLAYED, np.int64),
            "history": np.zeros((REPLAYED, scorer.HISTORY), np.float32),
            "targets": np.zeros(REPLAYED, np.float32),
        }
        self._remembered = 0
        self._sums = np.zeros((2, feature_dim))
        self._counted = 0
        self._error = np.zeros(2)
        """Running sums of the squared error in log space, and of how many there were."""

    def learn(self, lesson: Lesson) -> float:
        self._standardise(lesson.features)
        history = scorer.history(lesson.records, lesson.step, lesson.mean_loss)
        target = scorer.target(lesson.losses, lesson.mean_loss)
        guess = self._step(lesson.features, lesson.labels, history, target)
        predicted = scorer.relative(guess)
        self._remember(features=lesson.features, labels=lesson.labels, history=history, targets=target)
        self._replay(len(target))
        self._error = ERROR_DECAY * self._error + (float(np.square(guess - target).sum()), len(target))
        self._sample.add(lesson.wanted, lesson.losses, predicted * np.float32(lesson.mean_loss))
        self._fixed["calibration"] = np.full(1, self._sample.calibration, np.float32)
        above = lesson.losses > lesson.mean_loss
        return self._judge.add(predicted, predicted * self._fixed["calibration"] > 1, above)

    def _step(self, features: Float32s, labels: Int64s, history: Float32s, target: Float32s) -> Float32s:
        """One step of the optimizer; the output before it, float32 [n]."""
        output = self.output(features, labels, history)
        wanted = torch.from_numpy(np.minimum(np.exp(target), np.float32(HIGHEST)))
        bounded = output.clamp(max=math.log(HIGHEST))
        cost = bounded.exp() * (1 + output - bounded) - wanted * output
        self._optimizer.zero_grad()
        cost.mean().backward()  # type: ignore[no-untyped-call]
        self._optimizer.step()
        self._optimizer_steps += 1
        return output.detach().numpy()

    def _remember(self, **rows: Array) -> None:
        """Puts a batch in the place of the oldest instances."""
        n = len(rows["targets"])
        places = (self._remembered + np.arange(n)) % REPLAYED
        for name, values in rows.items():
            self._memory[name][places] = values
        self._remembered += n

    def _replay(self, n: int) -> None:
        # Drawn by the number of steps done, so that a run that is resumed draws the same.
        rng = np.random.default_rng(self._optimizer_steps)
        for _ in range(REPLAYS if self._optimizer_steps < EARLY else LATER):
            rows = rng.integers(min(self._remembered, REPLAYED), size=n)
            self._step(*(self._memory[name][rows] for name in ("features", "labels", "history", "targets")))

    def _standardise(self, features: Float32s) -> None:
        """Takes mean and deviation of the first features; one factor, as for all, where they hardly vary."""
        if self._counted >= STANDARDISED_FROM:
            return
        self._counted += len(features)
        wide = features.astype(np.float64)
        self._sums += (wide.sum(axis=0), np.square(wide).sum(axis=0))
        mean, square = self._sums / self._counted
        variance = np.maximum(square - mean**2, 0)
        usual = max(float(variance.mean()), 1e-12)
        self._fixed["shift"] = mean.astype(np.float32)
        self._fixed["scale"] = (1 / np.sqrt(variance + 0.1 * usual)).astype(np.float32)

    def output(self, features: Float32s, labels: Int64s, history: Float32s) -> torch.Tensor:
        """As `scorer.forecast` before it leaves log space, [n]; a test holds both together."""
        of = self._parameters
        x = aligned((features - self._fixed["shift"]) * self._fixed["scale"])
        known = torch.from_numpy((labels >= 0) & (labels < len(of["y"])))
        rows = of["y"][torch.where(known, torch.from_numpy(labels.copy()), 0)]
        first = x @ of["x"] + aligned(history) @ of["z"] + torch.where(known[:, None], rows, 0.0) + of["b1"]
        second = torch.relu(torch.relu(first) @ of["w2"] + of["b2"])
        return second @ of["w3"] + of["b3"]

    def arrays(self) -> dict[str, Array]:
        learned = {name: parameter.detach().numpy().copy() for name, parameter in self._parameters.items()}
        return {**learned, **{name: array.copy() for name, array in self._fixed.items()}}

    def adopt(self, arrays: Mapping[str, Array]) -> None:
        self._fixed = {name: np.array(arrays[name]) for name in FIXED}
        self._counted = STANDARDISED_FROM  # the weights were learned for the mean and deviation there are
        with torch.no_grad():
            for name, parameter in self._parameters.items():
                parameter.copy_(torch.from_numpy(np.array(arrays[name])))

    def state(self) -> dict[str, Array]:
        moments = {
            f"{name}.{moment}": self._optimizer.state[parameter][moment].numpy().copy()
            for name, parameter in self._parameters.items()
            for moment in MOMENTS
            if self._optimizer_steps
        }
        return {
            **self.arrays(), **moments, **{f"memory.{name}": values for name, values in self._memory.items()},
            "remembered": np.array([self._remembered]), "optimizer_steps": np.array([self._optimizer_steps]),
            "sums": self._sums, "counted": np.array([self._counted]), "error": self._error,
        }  # fmt: skip

    def load(self, arrays: Mapping[str, Array]) -> None:
        self.adopt(arrays)
        self._optimizer_steps, self._counted = int(arrays["optimizer_steps"][0]), int(arrays["counted"][0])
        self._memory = {name: np.array(arrays[f"memory.{name}"]) for name in self._memory}
        self._remembered = int(arrays["remembered"][0])
        self._sums, self._error = np.array(arrays["sums"]), np.array(arrays["error"])
        if self._optimizer_steps:
            for name, parameter in self._parameters.items():
                moments = {moment: torch.from_numpy(np.array(arrays[f"{name}.{moment}"])) for moment in MOMENTS}
                step = torch.tensor(float(self._optimizer_steps))
                self._optimizer.state[parameter] = {"step": step, **moments}

    def metrics(self) -> dict[str, Value]:
        """Those of the judge, `calibration`, and `prediction_error`: the root mean squared error in log space."""
        values = self._judge.metrics()
        if self._error[1]:
            values["prediction_error"] = float(np.sqrt(self._error[0] / self._error[1]))
            values["calibration"] = float(self._fixed["calibration"][0])
        return values
