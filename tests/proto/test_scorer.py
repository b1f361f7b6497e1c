import numpy as np
import pytest
import torch
from toys import spec

from assistant.config import AssistantConfig
from assistant.learner import Learner
from proto import scorer

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("scale", [0.01, 1, 30])
@pytest.mark.parametrize(("dim", "classes"), [(1, 1), (8, 3), (256, 100)])
def test_it_equals_the_forward_pass_that_the_learner_trains(dim: int, classes: int, scale: float) -> None:
    learner = Learner(spec(feature_dim=dim, classes=classes), AssistantConfig())
    for parameter in learner.model._parameters.values():
        parameter.data = torch.from_numpy(RNG.normal(0, scale, tuple(parameter.shape)).astype(np.float32))
    features = RNG.normal(0, dim**-0.5, (500, dim)).astype(np.float32)  # mean squared norm 1, as the Batcher's
    labels = RNG.integers(-1, classes + 1, 500)
    expected = torch.sigmoid(learner.model._logits(features, labels)).detach().numpy()
    np.testing.assert_allclose(scorer.score(learner.snapshot().arrays, features, labels), expected, atol=1e-5)


def test_an_untrained_scorer_says_one_half() -> None:
    q = scorer.score(scorer.initial("above", 4, 2), np.ones((3, 4), np.float32), np.array([0, 1, -1]))
    assert q.dtype == np.float32
    assert q.tolist() == [0.5] * 3


def test_labels_outside_the_classes_add_no_class_term() -> None:
    arrays = scorer.initial("above", 1, 2)
    arrays["u"][:] = 5
    q = scorer.score(arrays, np.zeros((5, 1), np.float32), np.array([-1, 0, 1, 2, 2**40]))
    np.testing.assert_allclose(q, [0.5, 0.99331, 0.99331, 0.5, 0.5], atol=1e-5)


@pytest.mark.filterwarnings("error")
def test_extreme_logits_saturate_without_a_warning() -> None:
    arrays = scorer.initial("above", 1, 0)
    arrays["w"][:] = 1e30
    q = scorer.score(arrays, np.array([[1e3], [-1e3]], np.float32), np.array([0, 0]))
    np.testing.assert_allclose(q, [1, 0], atol=1e-6)
