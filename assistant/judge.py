"""How good predictions were that were made before their truth was known."""

from collections import deque

import numpy as np
from sklearn.metrics import roc_auc_score

from proto.messages import Value
from proto.types import Bools, Float32s


class Judge:
    """Accuracy and AUC of "this loss is above the mean" over the last `window` predictions."""

    def __init__(self, window: int) -> None:
        self._window, self._judged = window, 0
        self._predicted: deque[Float32s] = deque()
        self._said: deque[Bools] = deque()
        self._truth: deque[Bools] = deque()

    def add(self, predicted: Float32s, said: Bools, truth: Bools) -> float:
        """Takes in scores, what they said and what was so, [n] each; their accuracy."""
        self._predicted.append(predicted)
        self._said.append(said)
        self._truth.append(truth)
        self._judged += len(truth)
        while self._judged - len(self._truth[0]) >= self._window:
            self._predicted.popleft()
            self._said.popleft()
            self._judged -= len(self._truth.popleft())
        return float((said == truth).mean())

    def metrics(self) -> dict[str, Value]:
        """`accuracy`, and `auc` where both kinds occurred; nothing before there was a prediction."""
        if not self._truth:
            return {}
        predicted, said, truth = (np.concatenate(part) for part in (self._predicted, self._said, self._truth))
        values: dict[str, Value] = {"accuracy": float((said == truth).mean())}
        if truth.any() and not truth.all():
            values["auc"] = float(roc_auc_score(truth, predicted))
        return values
