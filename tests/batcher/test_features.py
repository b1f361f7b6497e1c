from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batcher.datasets.arrays import ArraySplit
from batcher.features import FeatureStore, hashed, pool
from batcher.source import Source
from proto.errors import ConfigError

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


def test_token_ids_become_bags_of_words_that_order_and_padding_do_not_change() -> None:
    tokens = np.array([[5, 9, 9, 0], [9, 5, 9, 0], [7, 5, 8, 11]])
    bags = hashed(tokens, 256)
    assert bags.shape == (3, 256)
    np.testing.assert_allclose(np.linalg.norm(bags, axis=1), 1, rtol=1e-6)
    np.testing.assert_array_equal(bags[0], bags[1])
    np.testing.assert_array_equal(hashed([row[row > 0] for row in tokens], 256), bags)
    np.testing.assert_array_equal(hashed(tokens, 256, np.ones((3, 4), bool) & (tokens > 0)), bags)
    assert np.count_nonzero(bags[0]) == 2
    assert bags[0] @ bags[2] == pytest.approx(1 / 5**0.5 / 2, abs=1e-6)  # one word of two, and one of four, in common


def test_words_are_spread_evenly_over_places_and_signs() -> None:
    bags = hashed(np.arange(1, 20_001)[:, None], 64)
    places = np.abs(bags).sum(axis=0)
    assert places.min() > 0.8 * 20_000 / 64
    assert abs(bags.sum()) < 4 * 20_000**0.5


@pytest.mark.parametrize("offered", ["array", "lists", "nothing"])
def test_token_ids_are_features_whether_offered_or_not(offered: str) -> None:
    class Texts(Bare):
        def features(self, ids: np.ndarray) -> object:
            rows = [self.inputs[i] for i in ids]
            return np.stack(rows) if offered == "array" else rows

    tokens = RNG.integers(1, 50, (20, 6))
    source = Source((Bare if offered == "nothing" else Texts)(tokens, np.arange(20) % 2), "toy")
    store = FeatureStore(source, 32, 0)
    ids = np.arange(20)
    store.visit(*source.take(ids))
    np.testing.assert_allclose(store.get(ids)[0], store.scale * hashed(tokens, 32), atol=1e-3)


def test_instances_of_different_length_are_averaged_over_their_own_positions() -> None:
    series = [RNG.normal(size=(n, 3)).astype(np.float32) for n in (2, 5, 1)]
    source = Source(Bare(series, np.array([0, 1, 0])), "toy")  # type: ignore[arg-type]
    store = FeatureStore(source, 256, 0)
    store.visit(*source.take(np.arange(3)))
    expected = np.stack([one.mean(axis=0) for one in series])
    np.testing.assert_allclose(store.get(np.arange(3))[0], store.scale * expected, atol=2e-3)


def test_arrays_in_memory_are_known_before_they_are_visited() -> None:
    class Filled(Bare):
        """Offers `fill`, and neither labels nor features."""

        def fill(self, ids: np.ndarray, out: dict[str, np.ndarray]) -> None:
            out["inputs"][:], out["targets"][:] = self.inputs[ids], self.labels_[ids]

    inputs = RNG.normal(size=(8, 4)).astype(np.float32)
    store = FeatureStore(Source(Filled(inputs, np.arange(8)), "toy"), 256, 0)
    features, labels, known = store.get(np.array([6, 1]))
    np.testing.assert_allclose(features, inputs[[6, 1]] * store.scale, rtol=1e-2, atol=1e-3)
    assert labels.tolist() == [6, 1]
    assert known.all()


@pytest.mark.parametrize("shape", [lambda n: (n + 1, 4), lambda n: (n, n)], ids=["too many", "of another width"])
def test_features_of_another_shape_name_the_data_set(shape: Callable[[int], tuple[int, int]]) -> None:
    class Split(ArraySplit):
        def features(self, ids: np.ndarray) -> np.ndarray:
            return np.zeros(shape(len(ids)), np.float32)

    source = Source(Split(np.zeros((20, 3), np.float32), np.arange(20) % 2), "toy")
    with pytest.raises(ConfigError, match=r"^data\.name = 'toy': its features\(ids\) are .* needed: \[n, D\]"):
        FeatureStore(source, 256, 0).get(np.arange(3))
