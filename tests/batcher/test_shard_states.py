"""What a stream's `load_state_dict` raises, and a state that is None."""

from typing import Any

import pytest
from sharded import Stateful

from batcher.shards import Shards, Stand
from proto.errors import ConfigError


class Forgetful(Stateful):
    def load_state_dict(self, state: dict[str, int]) -> None:
        raise KeyError("next")


class Stateless(Stateful):
    def state_dict(self) -> Any:
        return None

    def load_state_dict(self, state: Any) -> None:
        self.walk = self.next = 0


def after(stream: Any, count: int) -> Stand:
    stand, shards = Stand.beginning(range(1)), Shards(stream, "toy", 0)
    for _ in range(count):
        stand.next(shards)
    return stand


def test_what_load_state_dict_raises_names_the_stream() -> None:
    stand = after(Forgetful((100,), {}), 40)
    with pytest.raises(ConfigError, match=r"^data\.name = 'toy': load_state_dict\(\) of the stream raises KeyError"):
        Shards(Forgetful((100,), {}), "toy", 0).go_to(stand)


def test_a_state_that_is_none_is_no_state() -> None:
    stand, other = after(Stateless((100,), {}), 40), Shards(Stateless((100,), {}), "toy", 0)
    other.go_to(stand)
    assert stand.next(other)[0][1] == 40
