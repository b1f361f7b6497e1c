import numpy as np
import pytest
import torch
from toys import spec

from assistant.config import AssistantConfig
from assistant.forecaster import Forecaster
from assistant.learner import Learner
from proto import scorer
from proto.ledger import Ledger

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


@pytest.mark.parametrize("scale", [0.01, 0.3])
@pytest.mark.parametrize(("dim", "classes"), [(1, 1), (8, 3), (256, 100)])
def test_the_forecast_equals_the_forward_pass_that_is_trained(dim: int, classes: int, scale: float) -> None:
    model = Learner(spec(feature_dim=dim, classes=classes, assistant="loss"), AssistantConfig()).model
    assert isinstance(model, Forecaster)
    for parameter in model._parameters.values():
        parameter.data = torch.from_numpy(RNG.normal(0, scale, tuple(parameter.shape)).astype(np.float32))
    model._fixed["shift"] = RNG.normal(0, dim**-0.5, dim).astype(np.float32)
    features = RNG.normal(0, dim**-0.5, (700, dim)).astype(np.float32)
    labels = RNG.integers(-1, classes + 1, 700)
    history = RNG.normal(0, 1, (700, scorer.HISTORY)).astype(np.float32)
    expected = scorer.relative(model.output(features, labels, history).detach().numpy())
    found = scorer.forecast(model.arrays(), features, labels, history)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_a_forecast_has_the_same_bits_whoever_else_is_looked_at() -> None:
    arrays = {
        name: RNG.normal(0, 0.3, a.shape).astype(np.float32) for name, a in scorer.initial("loss", 196, 10).items()
    }
    x, y = RNG.normal(0, 0.1, (1500, 196)).astype(np.float32), RNG.integers(0, 10, 1500)
    history = RNG.normal(0, 1, (1500, scorer.HISTORY)).astype(np.float32)
    everything = scorer.forecast(arrays, x, y, history)
    for n in (1, 7, 130, 256, 999):
        some = RNG.choice(1500, n, replace=False)
        np.testing.assert_array_equal(scorer.forecast(arrays, x[some], y[some], history[some]), everything[some])


def test_history_tells_nothing_of_an_instance_without_one() -> None:
    ledger = Ledger(3)
    ledger.fold(np.array([1, 2]), np.array([2.0, 0.5], np.float32), 10)
    ledger.fold(np.array([2]), np.array([1.0], np.float32), 20)
    found = scorer.history(ledger.take(np.arange(3)), 25, 1.0)
    assert not found[0].any()
    assert found[:, 0].tolist() == [0, 1, 1]
    assert found[:, 2].tolist() == [0, 0, 1]
    np.testing.assert_allclose(found[1:, 1], np.log([2.05, 1.05]), rtol=1e-6)
    np.testing.assert_allclose(found[2, 3], np.log(0.55), rtol=1e-6)
    np.testing.assert_allclose(found[1:, 4], np.log1p([15, 5]) / 4 - 1, rtol=1e-6)


@pytest.mark.filterwarnings("error")
def test_relative_is_the_inverse_of_target() -> None:
    losses = np.array([0, 1e-3, 0.5, 3, 100, 1e38], np.float32)
    np.testing.assert_allclose(scorer.relative(scorer.target(losses, 2.0))[:5], losses[:5] / 2, rtol=1e-3, atol=1e-6)
    assert np.isfinite(scorer.target(losses, 0.0)).all()
