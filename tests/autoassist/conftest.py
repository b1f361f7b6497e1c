"""Pieces of a run, for tests without processes."""

import pytest

from proto.messages import DataSpec


@pytest.fixture
def data_spec():
    """A data set of 100 images in 10 classes; a budget of 2 Boss epochs."""
    sizes = {name: 0 for name in DataSpec.model_fields if name.endswith("_size")}
    return DataSpec(
        **{**sizes, "train_size": 100},
        classes=10, class_names=(), input_shape=(1, 8, 8), input_dtype="uint8", mean=(), std=(), feature_dim=64,
        train_total=200, train_batches=7, max_batch=32,
    )  # fmt: skip
