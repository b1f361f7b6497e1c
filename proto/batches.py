"""What Batcher and Boss say to each other: batches, and the credits that ask for them."""

from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator

from proto.fields import AnyArray, Count, Counts, Floats, Ids, Text
from proto.messages import Kind, Message
from proto.types import Array


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


SAID = tuple(name for name in Filled.model_fields if name in Batch.model_fields)
"""What a descriptor says as the batch would; the rest lies in the slot."""
BESIDE = ("ids", "passes_of", "weights", "dropped")
"""What lies in the slot beside the `arrays`."""


class End(Message):
    """Batcher -> Boss: the budget is used up, nothing follows. Boss -> Assistant: I end, no report follows."""

    tag: ClassVar[str] = "end"
    seq: Count
    incarnation: Count
