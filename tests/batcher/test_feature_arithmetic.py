"""The fast forms of feature arithmetic give what the plain ones do."""

import numpy as np
import pytest

from batcher.features import pool
from proto.halves import widened


def test_every_float16_becomes_the_same_float32():
    every = np.arange(65536, dtype=np.uint16).view(np.float16)
    finite = every[np.isfinite(every)]
    assert widened(finite).tobytes() == finite.astype(np.float32).tobytes()
    np.testing.assert_array_equal(widened(every), every.astype(np.float32))


@pytest.mark.parametrize("shape", [(28, 28), (1, 28, 28), (3, 32, 32), (3, 33, 47), (3, 224, 224), (1, 2, 9)])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.int64])
def test_pooled_images_are_means_of_squares(shape, dtype):
    rng = np.random.default_rng(0)
    images = rng.integers(0, 255, (5, *shape)).astype(dtype)
    before = images.copy()
    pooled = pool(images)
    assert pooled.dtype == np.float32
    assert pooled.shape[1] <= 256
    assert (images == before).all()
    channels, height, width = (1, *shape)[-3:]
    side = next(k for k in range(1, 300) if channels * -(-height // k) * -(-width // k) <= 256)
    padded = np.pad(
        images.reshape(5, channels, height, width).astype(np.float64),
        [(0, 0), (0, 0), (0, -height % side), (0, -width % side)],
        mode="edge",
    )
    expected = padded.reshape(5, channels, padded.shape[2] // side, side, padded.shape[3] // side, side).mean((3, 5))
    np.testing.assert_allclose(pooled, expected.reshape(5, -1), rtol=1e-5)
