"""What the Assistant hears and says: features, losses and checkpoint marks come in, weights go out."""

from typing import Annotated, ClassVar

from pydantic import Field, model_validator

from proto.fields import AnyArray, CheckpointName, Count, Floats, Halves, Ids, same_length
from proto.messages import Message


class Features(Message):
    """Batcher -> Assistant: features float16 [B, D] and labels int64 [B] of batch `batch_id`.

    `wanted` float32 [B] is the keep probability that the policy wanted for those that would have been kept whatever it
    wanted, by their coin: an unbiased sample of all candidates. It is NaN for the others.
    """

    tag: ClassVar[str] = "features"
    batch_id: Count
    incarnation: Count
    ids: Ids
    features: Halves
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
    name: CheckpointName
    batches: Count


class Weights(Message):
    """Assistant -> Batcher: snapshot `version`, which has seen the losses of Boss step `step`. Batcher -> Assistant, to
    one that was started anew: what the one before it had said.

    `arrays` are the scorer's. `untrained_loss` is the mean loss of the first report, `selecting` the gate's word: how
    much of the policy's counts, 0 where selecting gains nothing. `delta` is the part of the ledger that changed since
    the delta before (`delta_number` counts them, gapless): "ids", "last_loss", "loss_before", "times_trained",
    "last_step", equally long. A `full` one holds every record that there is and starts the count anew. `incarnation` is
    the sender's.
    """

    tag: ClassVar[str] = "weights"
    version: Count
    step: Count
    incarnation: Count
    arrays: dict[str, AnyArray]
    mean_loss: Annotated[float, Field(allow_inf_nan=False)]
    confidence: Annotated[float, Field(ge=0, le=1)]
    untrained_loss: Annotated[float, Field(allow_inf_nan=False)]
    selecting: Annotated[float, Field(ge=0, le=1)]
    full: bool
    delta_number: Count
    delta: dict[str, AnyArray]


class Want(Message):
    """Batcher -> Assistant: send a full snapshot: I am new, or one has not arrived. `incarnation` is the Batcher's."""

    tag: ClassVar[str] = "want"
    incarnation: Count
