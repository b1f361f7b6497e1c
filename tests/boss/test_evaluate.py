import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score, f1_score, log_loss, recall_score

from boss.evaluate import Evaluation


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("true_classes", "predicted_classes"),
    [(range(5), range(5)), (range(4), range(5)), (range(5), [0, 1, 3, 4]), ([0, 1, 3], [0, 2, 3])],
    ids=["all occur", "one never true", "one never predicted", "one neither"],
)
def test_it_agrees_with_scikit_learn(seed: int, true_classes: list[int], predicted_classes: list[int]) -> None:
    rng = np.random.default_rng(seed)
    truth = rng.choice(true_classes, 200)
    logits = rng.normal(size=(200, 5)).astype(np.float32)
    logits[:, [c for c in range(5) if c not in predicted_classes]] -= 20
    predicted = logits.argmax(axis=1)

    evaluation = Evaluation(5, torch.device("cpu"))
    for part in np.array_split(np.arange(200), 7):
        evaluation.add(torch.from_numpy(logits[part]), torch.from_numpy(truth[part]))
    result = evaluation.result()

    assert result["accuracy"] == pytest.approx(accuracy_score(truth, predicted))
    assert result["macro_f1"] == pytest.approx(f1_score(truth, predicted, average="macro"))
    assert result["worst_class_accuracy"] == pytest.approx(
        recall_score(truth, predicted, average=None, labels=np.unique(truth)).min()
    )
    q = torch.softmax(torch.from_numpy(logits).double(), dim=1).numpy()
    assert result["loss"] == pytest.approx(log_loss(truth, q, labels=range(5)), rel=1e-4)


def test_a_class_never_predicted_right_is_the_worst() -> None:
    evaluation = Evaluation(3, torch.device("cpu"))
    evaluation.add(torch.eye(3)[[0, 0, 1]], torch.tensor([0, 0, 2]))
    assert evaluation.result()["worst_class_accuracy"] == 0
    assert evaluation.result()["accuracy"] == pytest.approx(2 / 3)


def test_what_it_keeps_grows_with_the_classes_and_not_with_their_square() -> None:
    evaluation = Evaluation(21_841, torch.device("meta"))  # a matrix of them would take 3.8 GB
    kept = [value for value in vars(evaluation).values() if isinstance(value, torch.Tensor)]
    assert sum(tensor.nbytes for tensor in kept) < 1e6
