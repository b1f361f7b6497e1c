"""The message classes: everything one process can say to another.

Each is a frozen pydantic model, validated strictly when it is made and when it is received. Arrays have a fixed
dtype and number of dimensions; ids are int64 everywhere, losses and features float32. `TAGS` maps the type tag that
travels to its class. A message says nothing about sockets; `proto.codec` turns it into frames and back.
"""

import math
from typing import Annotated, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from proto.fields import AnyArray, Count, Counts, Floats, Ids, Matrix, Text, same_length
from proto.types import Array

PROTOCOL = 2
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
    beside: dict[Text, tuple[Text, tuple[Count, ...]]] = {}
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
    name: Annotated[str, Field(pattern="^[a-z0-9-]{1,64}$")]
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


# -- batches and credits: Batcher <-> Boss ----------------------------------------------------------------------


class Open(Message):
    """Boss -> Batcher: I read the stream now, with `slots` credits; evaluate every `eval_every` Boss epochs (0: only
    at the end). `incarnation` is the Batcher's. The slots, of `slot_bytes` each, lie in the file `memory` with that
    `inode` (empty: batches travel as frames), and are granted with `generation`, except those `busy` with a batch that
    the Boss still reads: (slot, seq) of each. The Boss has taken `step` optimizer steps. The rest says where to go on
    from: all 0 at the beginning of a run.

    `seq` is the number of the next batch; `passes` and `cursor` are those of the last batch trained, the `batches`-th
    of the run's training batches; `trained` instances are behind us, `evaluated` when the last evaluation was made.
    `stream` is what that batch said of a stream.
    """

    tag: ClassVar[str] = "open"
    incarnation: Count
    rank: Count
    slots: Annotated[int, Field(ge=1, le=4096)]
    eval_every: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    memory: Text = ""
    inode: Count = 0
    slot_bytes: Count = 0
    generation: Count = 0
    busy: Annotated[tuple[tuple[Count, Count], ...], Field(max_length=4096)] = ()
    step: Count = 0
    seq: Count = 0
    passes: Count = 0
    cursor: Count = 0
    batches: Count = 0
    trained: Count = 0
    evaluated: Count = 0
    stream: Text = ""


class Credit(Message):
    """Boss -> Batcher: slot `slot` is free again, batch `seq` was trained. `incarnation` is the Batcher's.

    The slot is granted anew, with `generation`. The Boss has taken `step` optimizer steps.
    """

    tag: ClassVar[str] = "credit"
    slot: Count
    seq: Count
    incarnation: Count
    generation: Count = 0
    step: Count = 0


class Unmapped(Message):
    """Batcher -> Boss, instead of beginning: the `memory` of your `Open` cannot be attached, for this `reason`."""

    tag: ClassVar[str] = "unmapped"
    memory: Text
    reason: Text


class Batch(Message):
    """Batcher -> Boss: one batch of B instances.

    `seq` is gapless over the stream and names the batch (its batch id). `passes_of` int64 [B] is the pass of each
    instance (2**63 - 1 in evaluations, which belong to none); `passes` and `cursor` say where the last candidate stood.
    `version` is the Assistant snapshot that chose it, `version_step` the Boss step whose losses that version had seen.
    `candidates` counts those considered since the batch before, `dropped` int64 [C + 1] the dropped ones per class,
    last those whose class is not known yet. `last` marks the last batch of the budget, or of an evaluation on a split.
    Where the training split is a stream, `stream` is what a Batcher that goes on from here needs beside the cursor.
    `arrays` hold "inputs" [B, ...], "targets" [B, ...] and what else `DataSpec` tells of.
    """

    tag: ClassVar[str] = "batch"
    kind: Kind
    seq: Count
    incarnation: Count
    slot: Count
    ids: Ids
    passes_of: Ids
    weights: Floats
    version: Count
    version_step: Count
    passes: Count
    cursor: Count
    candidates: Count
    dropped: Counts
    last: bool
    stream: Text = ""
    arrays: dict[str, AnyArray]

    @model_validator(mode="after")
    def _whole(self) -> Self:
        each: tuple[Array, ...] = (self.ids, self.passes_of, self.weights, *self.arrays.values())
        if len({len(array) if array.ndim else -1 for array in each}) != 1 or not self.arrays:
            raise ValueError("ids, passes, weights and arrays differ in length")
        return self


Place = tuple[Text, Text, tuple[int, ...], int]


class Filled(Message):
    """Batcher -> Boss: a `Batch` that lies in slot `slot`, granted with `generation`.

    `places` say of each of its arrays the name, dtype, shape and first byte in the slot; they are checked against the
    slot before anything is read there.
    """

    tag: ClassVar[str] = "filled"
    kind: Kind
    seq: Count
    incarnation: Count
    slot: Count
    generation: Count
    version: Count
    version_step: Count
    passes: Count
    cursor: Count
    candidates: Count
    last: bool
    stream: Text = ""
    places: Annotated[tuple[Place, ...], Field(max_length=64)]


class End(Message):
    """Batcher -> Boss: the budget is used up, nothing follows. Boss -> Assistant: I end, no report follows."""

    tag: ClassVar[str] = "end"
    seq: Count
    incarnation: Count


# -- features, losses, weights: the Assistant's side ------------------------------------------------------------


class Features(Message):
    """Batcher -> Assistant: features float32 [B, D] and labels int64 [B] of batch `batch_id`.

    `wanted` float32 [B] is the keep probability that the policy wanted for those that would have been kept whatever it
    wanted, by their coin: an unbiased sample of all candidates. It is NaN for the others.
    """

    tag: ClassVar[str] = "features"
    batch_id: Count
    incarnation: Count
    ids: Ids
    features: Matrix
    labels: Ids
    wanted: Floats

    _whole = model_validator(mode="after")(same_length("ids", "features", "labels", "wanted"))


class Losses(Message):
    """Boss -> Assistant: the unweighted loss of each instance of batch `batch_id`, trained in step `step`.

    `incarnation` is that of the Batcher, which names batches: a report is joined to features of the same one.
    """

    tag: ClassVar[str] = "losses"
    batch_id: Count
    step: Count
    incarnation: Count
    ids: Ids
    losses: Floats

    _whole = model_validator(mode="after")(same_length("ids", "losses"))


class Mark(Message):
    """Boss -> Assistant, between reports: write your part of checkpoint `name`, with the losses of the first `batches`
    training batches folded in."""

    tag: ClassVar[str] = "mark"
    name: Annotated[str, Field(pattern="^[a-z0-9-]{1,64}$")]
    batches: Count


class Weights(Message):
    """Assistant -> Batcher: snapshot `version`, which has seen the losses of Boss step `step`. Batcher -> Assistant, to
    one that was started anew: what the one before it had said.

    `arrays` are the scorer's. `untrained_loss` is the mean loss of the first report, `selecting` the gate's word:
    whether selecting gains anything. `delta` is the part of the ledger that changed since the delta before
    (`delta_number` counts them, gapless): "ids", "last_loss", "loss_before", "times_trained", "last_step", equally
    long. A `full` one holds every record that there is and starts the count anew. `incarnation` is the sender's.
    """

    tag: ClassVar[str] = "weights"
    version: Count
    step: Count
    incarnation: Count
    arrays: dict[str, AnyArray]
    mean_loss: Annotated[float, Field(allow_inf_nan=False)]
    confidence: Annotated[float, Field(ge=0, le=1)]
    untrained_loss: Annotated[float, Field(allow_inf_nan=False)]
    selecting: bool
    full: bool
    delta_number: Count
    delta: dict[str, AnyArray]


class Want(Message):
    """Batcher -> Assistant: send a full snapshot: I am new, or one has not arrived. `incarnation` is the Batcher's."""

    tag: ClassVar[str] = "want"
    incarnation: Count


TAGS: dict[str, type[Message]] = {
    cls.tag: cls
    for cls in (Hello, Welcome, DataSpec, Ready, Saving, Start, Stop, Release, Beat, Record, Done, Failed,
                Open, Credit, Unmapped, Batch, Filled, End, Features, Losses, Mark, Weights, Want, Part)
}  # fmt: skip
