"""Metrics of an evaluated split, gathered on the device without waiting for it."""

import torch
from torch import Tensor

from boss.losses import Loss, cross_entropy
from proto.messages import Value

TOP5_ABOVE = 10
"""Classes from which on the top-5 accuracy is told: among fewer, five guesses are most of them."""


class Evaluation:
    """Accumulates, of each class, how often it was predicted right, was true, and was predicted (the diagonal and the
    sums of a confusion matrix, which itself would take C x C numbers), top-5 hits, and the summed loss.

    Without classes (C = 0) it is the loss alone.
    """

    def __init__(self, classes: int, device: torch.device, loss: Loss = cross_entropy) -> None:
        self.classes, self._plain = classes, loss
        self._counts = torch.zeros(3, classes, dtype=torch.int64, device=device)
        self._top5 = torch.zeros((), dtype=torch.int64, device=device)
        self._count = 0
        self._loss = torch.zeros((), dtype=torch.float64, device=device)

    def add(self, logits: Tensor, targets: Tensor) -> None:
        """Logits float [B, C] and targets int64 [B], or what the loss takes."""
        self._count += len(targets)
        self._loss += self._plain(logits.float(), targets).sum()
        if not self.classes:
            return
        predicted = logits.argmax(dim=1)
        right = (predicted == targets).long()
        one = torch.ones_like(right)
        for counts, classes, how in zip(self._counts, (targets, targets, predicted), (right, one, one), strict=True):
            counts.scatter_add_(0, classes, how)
        if self.classes > TOP5_ABOVE:
            self._top5 += (logits.topk(5).indices == targets.unsqueeze(1)).sum()

    def result(self) -> dict[str, Value]:
        """Accuracy, top-5 accuracy (of more than 10 classes), macro-F1 (over the classes that occur or are predicted),
        worst-class accuracy (over the classes that occur), and mean loss. Waits for the device."""
        if not self.classes:
            return {"loss": float(self._loss) / self._count}
        hits, truth, predicted = self._counts.double().cpu()
        f1 = 2 * hits / (truth + predicted).clamp(min=1)
        occurs = truth > 0
        return {
            "accuracy": float(hits.sum() / truth.sum()),
            **({"top5_accuracy": int(self._top5) / float(truth.sum())} if self.classes > TOP5_ABOVE else {}),
            "macro_f1": float(f1[truth + predicted > 0].mean()),
            "worst_class_accuracy": float((hits[occurs] / truth[occurs]).min()),
            "loss": float(self._loss) / self._count,
        }
