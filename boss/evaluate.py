"""Metrics of the test split, gathered on the device without waiting for it."""

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from proto.messages import Value


class Evaluation:
    """Accumulates a confusion matrix [C, C] (truth, prediction) and the summed loss."""

    def __init__(self, classes: int, device: torch.device) -> None:
        self.classes = classes
        self._confusion = torch.zeros(classes * classes, dtype=torch.int64, device=device)
        self._loss = torch.zeros((), dtype=torch.float64, device=device)

    def add(self, logits: Tensor, targets: Tensor) -> None:
        """Logits float [B, C] and targets int64 [B]."""
        cells = targets * self.classes + logits.argmax(dim=1)
        self._confusion.scatter_add_(0, cells, torch.ones_like(cells))
        self._loss += cross_entropy(logits.float(), targets, reduction="sum")

    def result(self) -> dict[str, Value]:
        """Accuracy, macro-F1 (over the classes that occur or are predicted), worst-class accuracy (over the classes
        that occur), and mean loss."""
        confusion = self._confusion.reshape(self.classes, self.classes).double().cpu()
        hits, truth, predicted = confusion.diagonal(), confusion.sum(1), confusion.sum(0)
        f1 = 2 * hits / (truth + predicted).clamp(min=1)
        occurs = truth > 0
        return {
            "accuracy": float(hits.sum() / truth.sum()),
            "macro_f1": float(f1[truth + predicted > 0].mean()),
            "worst_class_accuracy": float((hits[occurs] / truth[occurs]).min()),
            "loss": float(self._loss / truth.sum()),
        }
