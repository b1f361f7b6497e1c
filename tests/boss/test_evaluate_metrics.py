import pytest
import torch
from sklearn.metrics import f1_score, log_loss, top_k_accuracy_score

from boss.evaluate import Evaluation

CPU = torch.device("cpu")


def test_the_metrics_of_many_classes_are_sklearns() -> None:
    draw = torch.Generator().manual_seed(0)
    targets = torch.randint(12, (200,), generator=draw)
    logits = torch.randn(200, 12, generator=draw) + 2 * torch.nn.functional.one_hot(targets, 12)
    evaluation = Evaluation(12, CPU)
    for part in range(0, 200, 64):
        evaluation.add(logits[part : part + 64], targets[part : part + 64])
    found, truth, shares = evaluation.result(), targets.numpy(), logits.softmax(1).double().numpy()
    predicted = logits.argmax(1).numpy()
    classes = range(12)
    assert found == pytest.approx(
        {
            "accuracy": (predicted == truth).mean(),
            "top5_accuracy": top_k_accuracy_score(truth, shares, k=5),
            "macro_f1": f1_score(truth, predicted, average="macro"),
            "worst_class_accuracy": min((predicted == truth)[truth == c].mean() for c in classes),
            "loss": log_loss(truth, shares / shares.sum(1, keepdims=True), labels=list(classes)),
        },
        rel=1e-5,
    )


@pytest.mark.parametrize(("classes", "has"), [(3, False), (10, False), (11, True)])
def test_top5_is_for_more_than_ten_classes(classes: int, has: bool) -> None:
    evaluation = Evaluation(classes, CPU)
    evaluation.add(torch.eye(classes), torch.arange(classes))
    found = evaluation.result()
    assert ("top5_accuracy" in found) == has
    assert found["accuracy"] == 1.0
    if has:
        assert found["top5_accuracy"] == 1.0


def test_the_loss_is_the_configured_one() -> None:
    evaluation = Evaluation(3, CPU, lambda logits, targets: targets.float())
    evaluation.add(torch.eye(3), torch.tensor([0, 1, 2]))
    assert evaluation.result()["loss"] == 1.0
