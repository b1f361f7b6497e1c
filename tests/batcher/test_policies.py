import numpy as np
import pytest
from toys import numbered

from batcher.features import FeatureStore
from batcher.policies import AutoAssist, Candidates, Progress, Uniform
from batcher.source import Source
from proto.ledger import Ledger
from proto.types import Float32s

SIZE = 9
Q = np.linspace(0, 1, SIZE, dtype=np.float32)
Q[3] = np.nan


class Given(Candidates):
    """Candidates whose q is given."""

    q: Float32s = Q  # type: ignore[assignment]


def candidates(passes: int = 1, confidence: float = 0.0, cls: type[Candidates] = Given) -> Candidates:
    store = FeatureStore(Source(numbered(SIZE).train, "toy"), 256, 0)
    progress = Progress(trained=0, total=90, passes=passes, mean_loss=0.0, confidence=confidence)
    return cls(np.arange(SIZE), progress, store, Ledger(SIZE), lambda features, labels: features.sum(axis=1))


def test_uniform_keeps_everything_at_weight_one() -> None:
    p, w = Uniform()(candidates())
    assert p.tolist() == w.tolist() == [1.0] * SIZE


@pytest.mark.parametrize("gamma", [0.0, 0.1, 0.5, 1.0])
@pytest.mark.parametrize("confidence", [0.0, 0.3, 0.95, 1.0])
def test_autoassist_is_the_papers_formula(gamma: float, confidence: float) -> None:
    p, w = AutoAssist(gamma)(candidates(confidence=confidence))
    g = max(gamma, 1 - confidence)
    expected = [1.0 if np.isnan(q) else g + (1 - g) * q for q in Q.astype(float)]
    np.testing.assert_allclose(p, expected, rtol=0, atol=1e-6)
    assert p.dtype == w.dtype == np.float32
    assert w.tolist() == [1.0] * SIZE


def test_autoassist_keeps_everything_in_the_first_pass_only() -> None:
    policy = AutoAssist(0.0)
    assert policy(candidates(passes=0, confidence=1.0))[0].tolist() == [1.0] * SIZE
    assert policy(candidates(passes=1, confidence=1.0))[0].min() == 0


def test_candidates_show_content_and_ledger() -> None:
    shown = candidates(cls=Candidates)
    assert len(shown) == SIZE
    assert shown.labels.tolist() == [i % 3 for i in range(SIZE)]
    assert shown.features.shape == (SIZE, 6)
    np.testing.assert_allclose(shown.q, shown.features.sum(axis=1))
    assert set(shown.ledger) == {"last_loss", "loss_before", "times_trained", "last_step"}
    assert np.isnan(shown.ledger["last_loss"]).all()


def test_q_is_nan_where_the_content_is_not_known() -> None:
    class Bare:
        """A split that offers neither labels nor features."""

        def __len__(self) -> int:
            return SIZE

        def __getitem__(self, index: int) -> tuple[np.ndarray, int]:
            return np.ones(6, np.float32), 0

    store = FeatureStore(Source(Bare(), "bare"), 256, 0)
    ids = np.array([4, 2])
    store.visit(ids, {"inputs": np.ones((2, 6), np.float32), "targets": np.zeros(2, np.int64)})
    shown = Candidates(
        np.arange(SIZE),
        Progress(0, 90, 1, 0.0, 0.0),
        store,
        Ledger(SIZE),
        lambda features, labels: features.sum(axis=1),
    )
    assert np.flatnonzero(~np.isnan(shown.q)).tolist() == [2, 4]
    assert shown.labels.tolist() == [-1, -1, 0, -1, 0, -1, -1, -1, -1]
