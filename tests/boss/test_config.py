from typing import Any

import pytest

from boss.config import BossConfig
from proto.errors import ConfigError


@pytest.mark.parametrize(
    "values",
    [
        {"lr": 0}, {"lr": float("inf")}, {"momentum": 1.0}, {"weight_decay": -1.0}, {"schedule": "cosin"},
        {"eval_every": -1}, {"eval_every": float("inf")}, {"slots": 0}, {"loss_queue": 0}, {"threads": -1},
    ],
)  # fmt: skip
def test_values_that_cannot_be_are_refused(values: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=rf"boss\.{next(iter(values))} = "):
        BossConfig.read("boss", values)


def test_every_field_is_documented() -> None:
    assert all(field.description for field in BossConfig.model_fields.values())
