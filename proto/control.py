"""What the supervisor and the workers say to each other: channels `control` and `status`."""

import math
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from proto.fields import CheckpointName, Count, Text
from proto.messages import Assistant, Message, Role, Value

# -- control: supervisor <-> workers ----------------------------------------------------------------------------


class Hello(Message):
    """Worker -> supervisor, first of all: who I am. The supervisor answers `Welcome`."""

    tag: ClassVar[str] = "hello"
    role: Role
    pid: Count
    version: Text


class Welcome(Message):
    """Supervisor -> worker: your incarnation, and the sha256 of the configuration you must have read."""

    tag: ClassVar[str] = "welcome"
    incarnation: Count
    digest: Text


class DataSpec(Message):
    """Batcher -> supervisor -> Boss and Assistant: the data set, as they need it to build themselves.

    `input_shape` and `input_dtype` are those of one instance, of the longest one where they differ in length.
    `classes` is 0 where targets are no class numbers; `target_shape` and `target_dtype` are those of one. `beside` has
    dtype and shape, of one instance, of what else travels with a batch ("mask" and "lengths" where instances differ in
    length, what a split's `collate` adds). `vocabulary`: number of token ids, 0 where that is not known. `mean` and
    `std` (per channel, empty for none) normalise uint8 inputs after division by 255. `structure` is what the arrays of
    a batch are put together to (`proto.structure`, JSON; empty: a pair).

    `stream`: the training split is a stream, of which `train_size` instances count as one Boss epoch.
    `train_total` is the number of instances the run will train, `max_batch` the size of the largest batch.
    `train_batches` is the number of batches; with `max_tokens`, the most padded positions of a batch (0: batches are
    cut by instances), it is about that. `assistant` is what the policy wants.
    """

    tag: ClassVar[str] = "spec"
    train_size: Count
    validation_size: Count
    test_size: Count
    classes: Count
    class_names: tuple[Text, ...]
    input_shape: tuple[Count, ...]
    input_dtype: Text
    mean: tuple[float, ...]
    std: tuple[float, ...]
    feature_dim: Count
    train_total: Count
    train_batches: Count
    max_batch: Count
    max_tokens: Count = 0
    target_shape: tuple[Count, ...] = ()
    target_dtype: Text = "int64"
    beside: dict[Text, tuple[Text, tuple[Count, ...]]] = Field(default_factory=dict)
    vocabulary: Count = 0
    structure: Text = ""
    stream: bool = False
    assistant: Assistant = "above"

    @property
    def ledger_size(self) -> int:
        """Instances with a record in the ledger: none of a stream, whose instances come once."""
        return 0 if self.stream else self.train_size

    @property
    def outputs(self) -> int:
        """How many numbers a model gives for an instance: one for each class, or one for each number of its target."""
        return self.classes or math.prod(self.target_shape)


class Ready(Message):
    """Worker -> supervisor: built and checked, waiting for `Start`."""

    tag: ClassVar[str] = "ready"


class Saving(Message):
    """Worker -> supervisor: writes its part of a checkpoint now, and is silent meanwhile."""

    tag: ClassVar[str] = "saving"


class Start(Message):
    """Supervisor -> worker: every worker is ready; `peers` are their incarnations.

    It comes again when one of them was started anew. `late`: training had begun when you came, so another worker of
    your role was there before you.
    """

    tag: ClassVar[str] = "start"
    peers: dict[Role, Count]
    late: bool = False


class Stop(Message):
    """Supervisor -> worker: end cleanly. The Assistant first waits up to `patience_s` seconds for the `End` of the
    Boss's reports."""

    tag: ClassVar[str] = "stop"
    reason: Text
    patience_s: Annotated[float, Field(ge=0, le=60)] = 0.0


class Release(Message):
    """Supervisor -> Boss, after its last words: nobody reads from you any more, close your sockets."""

    tag: ClassVar[str] = "release"


class Part(Message):
    """Worker -> supervisor: my part of checkpoint `name` is on disk; `files` are its files' names and sha256, `plain`
    what the manifest keeps of it."""

    tag: ClassVar[str] = "part"
    name: CheckpointName
    files: dict[str, Text]
    plain: dict[str, Value]


# -- status: workers -> supervisor; `pid` tells a worker from one of its role that died -------------------------


class Beat(Message):
    """A sign of life with the worker's current metrics."""

    tag: ClassVar[str] = "beat"
    role: Role
    pid: Count
    values: dict[str, Value]


class Record(Message):
    """Something to keep in metrics.jsonl, such as an evaluation. `values` are flat."""

    tag: ClassVar[str] = "record"
    role: Role
    event: Text
    values: dict[str, Value]


class Done(Message):
    """A worker's last words after a clean end: its final metrics."""

    tag: ClassVar[str] = "done"
    role: Role
    pid: Count
    values: dict[str, Value]


class Failed(Message):
    """A worker's last words after an error, with its final metrics. `kind` is "config" for what the user can mend,
    else "crash"."""

    tag: ClassVar[str] = "failed"
    role: Role
    pid: Count
    kind: Literal["config", "crash"]
    text: Text
    values: dict[str, Value]
