"""What every message is made of, and the words that several of them use.

Each message is a frozen pydantic model, validated strictly when it is made and when it is received. Arrays have a fixed
dtype and number of dimensions; ids are int64 everywhere, losses and features float32. A message says nothing about
sockets. The classes lie beside this one, a file for each conversation: `proto.control` (the supervisor's, status too),
`proto.batches` and `proto.learning`; `proto.codec` lists them all and turns them into frames and back.
"""

from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict

PROTOCOL = 3
"""Version of the messages; a peer that speaks another one is refused."""

Role = Literal["batcher", "boss", "assistant"]
Kind = Literal["train", "validation", "test"]
"""What a batch is for: to train on, or to evaluate on that split."""
ROLES: tuple[Role, ...] = ("batcher", "boss", "assistant")
Assistant = Literal["none", "above", "loss"]
"""What the Assistant learns beside its ledger: nothing, whether a loss is above the mean, or the loss itself."""
Value = float | int | str | tuple[int, ...]
"""A metric."""


class Message(BaseModel):
    """Base of all messages."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, arbitrary_types_allowed=True)
    tag: ClassVar[str]
