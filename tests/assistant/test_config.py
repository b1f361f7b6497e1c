from typing import Any

import pytest

from assistant.config import AssistantConfig
from proto.errors import ConfigError


@pytest.mark.parametrize(
    "values", [{"lr": 0}, {"lr": float("nan")}, {"lr": float("inf")}, {"threads": 0}, {"window": 0}, {"window": 1.5}]
)
def test_values_that_cannot_be_are_refused(values: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=rf"assistant\.{next(iter(values))} = "):
        AssistantConfig.read("assistant", values)


def test_every_field_is_documented() -> None:
    assert all(field.description for field in AssistantConfig.model_fields.values())
