"""The Assistant "above": AutoAssist (Zhang, Yu, Dhillon, NeurIPS 2019), section 3.

An instance's label is z = 1 where its loss is above the running mean loss, and q = sigmoid(W x + U_y + b) is trained
online by logistic SGD, one step per loss report.
"""

from collections.abc import Mapping

import numpy as np
import torch
from torch.nn.functional import binary_cross_entropy_with_logits

from assistant.judge import Judge
from assistant.model import Lesson, aligned
from proto import scorer
from proto.messages import Value
from proto.types import Array, Float32s, Int64s


class Above:
    """Logistic regression on features and class."""

    def __init__(self, feature_dim: int, classes: int, lr: float, window: int) -> None:
        arrays = scorer.initial("above", feature_dim, classes)
        self._parameters = {name: torch.nn.Parameter(aligned(array)) for name, array in arrays.items()}
        self._optimizer = torch.optim.SGD(self._parameters.values(), lr=lr)
        self._judge = Judge(window)

    def learn(self, lesson: Lesson) -> float:
        above = lesson.losses > lesson.mean_loss
        logits = self._logits(lesson.features, lesson.labels)
        q = torch.sigmoid(logits.detach()).numpy()
        self._optimizer.zero_grad()
        target = torch.from_numpy(above.astype(np.float32))
        binary_cross_entropy_with_logits(logits, target).backward()  # type: ignore[no-untyped-call]
        self._optimizer.step()
        return self._judge.add(q, q > 0.5, above)

    def _logits(self, x: Float32s, y: Int64s) -> torch.Tensor:
        u = self._parameters["u"]
        known = torch.from_numpy((y >= 0) & (y < len(u)))
        term = torch.where(known, u[torch.where(known, torch.from_numpy(y.copy()), 0)], 0.0)
        return aligned(x) @ self._parameters["w"] + term + self._parameters["b"]

    def arrays(self) -> dict[str, Array]:
        return {name: parameter.detach().numpy().copy() for name, parameter in self._parameters.items()}

    state = arrays

    def adopt(self, arrays: Mapping[str, Array]) -> None:
        with torch.no_grad():
            for name, parameter in self._parameters.items():
                parameter.copy_(torch.from_numpy(np.array(arrays[name])))

    load = adopt

    def metrics(self) -> dict[str, Value]:
        return self._judge.metrics()
