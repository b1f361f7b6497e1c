import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batcher.datasets.arrays import ArraySplit
from batcher.features import FeatureStore, pool
from batcher.source import Source

RNG = np.random.default_rng(0)


class Bare:
    """A split that offers nothing but its items."""

    def __init__(self, inputs: np.ndarray, labels: np.ndarray) -> None:
        self.inputs, self.labels_ = inputs, labels

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, index: int) -> tuple[np.ndarray, int]:
        return self.inputs[index], int(self.labels_[index])


@settings(deadline=None)
@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=2).flatmap(
        lambda tail: st.tuples(st.integers(1, 4), st.just(tuple(tail)))
    ),
    st.integers(1, 300),
)
def test_any_shape_is_pooled_to_at_most_the_limit(shape: tuple[int, tuple[int, ...]], limit: int) -> None:
    n, tail = shape
    pooled = pool(np.ones((n, *tail), np.float32), limit)
    assert pooled.shape[0] == n
    assert 1 <= pooled.shape[1] <= limit
    assert pooled.dtype == np.float32
    np.testing.assert_array_equal(pooled, 1)


def test_small_inputs_are_left_as_they_are() -> None:
    images = RNG.integers(0, 256, (5, 1, 16, 16), dtype=np.uint8)
    np.testing.assert_array_equal(pool(images), images.reshape(5, -1))


@pytest.mark.parametrize(("shape", "side"), [((1, 28, 28), 2), ((28, 28), 2), ((3, 32, 32), 4)])
def test_images_are_averaged_over_squares(shape: tuple[int, ...], side: int) -> None:
    images = RNG.normal(size=(5, *shape)).astype(np.float32)
    height, width = shape[-2:]
    channels = images.reshape(5, -1, height, width)
    expected = [
        channels[:, :, y : y + side, x : x + side].mean(axis=(2, 3)).reshape(5, -1, 1)
        for y in range(0, height, side)
        for x in range(0, width, side)
    ]
    np.testing.assert_allclose(pool(images), np.concatenate(expected, axis=2).reshape(5, -1), atol=1e-5)


def test_vectors_are_averaged_over_runs() -> None:
    np.testing.assert_allclose(pool(np.arange(12.0).reshape(2, 6), 3), [[0.5, 2.5, 4.5], [6.5, 8.5, 10.5]])


@pytest.mark.parametrize("scale", [1e-3, 1, 1000])
def test_the_mean_squared_norm_is_one_for_any_scale_of_the_inputs(scale: float) -> None:
    inputs = (RNG.gamma(2, size=(600, 20)) * scale).astype(np.float32)
    store = FeatureStore(Source(ArraySplit(inputs, np.zeros(600, int)), "toy"), 256, 0)
    features, _, _ = store.get(np.arange(600))
    assert np.square(features).sum(axis=1).mean() == pytest.approx(1, abs=0.15)


def test_one_instance_that_is_not_finite_does_not_spoil_the_scale_of_the_others() -> None:
    inputs = np.full((50, 20), 1000, np.float32)
    inputs[7, 3] = np.nan
    store = FeatureStore(Source(ArraySplit(inputs, np.zeros(50, int)), "toy"), 256, 0)
    features, _, _ = store.get(np.array([0, 1, 2]))
    assert np.square(features).sum(axis=1).mean() == pytest.approx(1, abs=0.15)


def test_inputs_that_are_all_zero_are_left_at_zero() -> None:
    store = FeatureStore(Source(ArraySplit(np.zeros((9, 4), np.uint8), np.zeros(9, int)), "toy"), 256, 0)
    assert not store.get(np.arange(9))[0].any()


@pytest.mark.parametrize("limit", [4, 16, 64])
@pytest.mark.parametrize("split", [ArraySplit, Bare])
def test_the_limit_holds_whatever_the_split_offers(split: type, limit: int) -> None:
    source = Source(split(RNG.normal(size=(30, 1, 16, 16)).astype(np.float32), np.zeros(30, int)), "toy")
    store = FeatureStore(source, limit, 0)
    assert store.dim <= limit
    ids = np.array([3, 4])
    arrays = {name: np.empty(shape, dtype) for name, (shape, dtype) in source.layout(2).items()}
    source.fill(ids, arrays)
    store.visit(ids, arrays)
    assert store.get(ids)[0].shape == (2, store.dim)


def test_what_a_split_does_not_offer_is_known_once_it_was_assembled() -> None:
    inputs = RNG.normal(size=(8, 4)).astype(np.float32)
    store = FeatureStore(Source(Bare(inputs, np.arange(8)), "toy"), 256, 0)
    ids = np.array([6, 1])
    features, labels, known = store.get(ids)
    assert not features.any()
    assert labels.tolist() == [-1, -1]
    assert not known.any()
    store.visit(ids[:1], {"inputs": inputs[6:7], "targets": np.array([6])})
    features, labels, known = store.get(ids)
    np.testing.assert_allclose(features[0], inputs[6] * store.scale, rtol=1e-3)
    assert labels.tolist() == [6, -1]
    assert known.tolist() == [True, False]


def test_features_and_labels_of_large_data_sets_are_those_of_their_ids() -> None:
    ids = np.array([50001, 2049])
    values = np.arange(60_000, dtype=np.int64)
    store = FeatureStore(Source(ArraySplit((values % 97)[:, None], values), "toy"), 256, 0)
    features, labels, _ = store.get(ids)
    assert labels.tolist() == ids.tolist()
    np.testing.assert_allclose(features[:, 0] / store.scale, ids % 97, rtol=1e-2)
