from typing import Any

import pytest

from batcher.config import BatcherConfig, DataConfig, PolicyConfig
from proto.config import Section
from proto.errors import ConfigError


@pytest.mark.parametrize(
    ("cls", "values"),
    [
        (BatcherConfig, {"batch_size": 0}),
        (BatcherConfig, {"batch_size": 32.0}),
        (BatcherConfig, {"max_features": 0}),
        (PolicyConfig, {"gamma": -0.1}),
        (PolicyConfig, {"gamma": 1.1}),
        (PolicyConfig, {"gamma": float("nan")}),
        (DataConfig, {"download": "yes"}),
        (DataConfig, {"args": 3}),
    ],
)
def test_values_that_cannot_be_are_refused(cls: type[Section], values: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=rf"section\.{next(iter(values))} = "):
        cls.read("section", values)


@pytest.mark.parametrize("cls", [BatcherConfig, DataConfig, PolicyConfig])
def test_every_field_is_documented(cls: type[Section]) -> None:
    assert all(field.description for field in cls.model_fields.values())
