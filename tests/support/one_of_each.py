"""One message of every type."""

import numpy as np
from toys import BIG_IDS, batch, features, losses, spec, weights

from proto.batches import Credit, End, Filled, Open, Unmapped
from proto.control import Beat, Done, Failed, Hello, Part, Ready, Record, Release, Saving, Start, Stop, Welcome
from proto.learning import Mark, Want
from proto.ledger import FIELDS
from proto.messages import Message

N = len(BIG_IDS)
DELTA = {"ids": BIG_IDS, **{field: np.arange(N).astype(dtype) for field, dtype in FIELDS.items()}}

ONE_OF_EACH: list[Message] = [
    Hello(role="boss", pid=7, version="0.1.0"),
    Welcome(incarnation=3, digest="ab"),
    spec(class_names=("naïve", "ß")),
    Ready(),
    Saving(),
    Start(peers={"batcher": 1, "boss": 2}),
    Release(),
    Want(incarnation=3),
    Stop(reason="SIGTERM", patience_s=1.5),
    Beat(role="assistant", pid=7, values={"a": 1, "b": 0.5, "c": "text", "d": (1, 2)}),
    Record(role="boss", event="eval", values={"accuracy": 0.9}),
    Done(role="batcher", pid=7, values={}),
    Failed(role="boss", pid=7, kind="crash", text="boom", values={"step": 3}),
    Open(incarnation=1, rank=0, slots=4, eval_every=0.5),
    Credit(slot=1, seq=2**40, incarnation=1),
    Unmapped(memory="/proc/1/fd/5", reason="Permission denied"),
    batch(BIG_IDS, dropped=np.array([4, 0, 2])),
    Filled(
        kind="train",
        seq=8,
        incarnation=1,
        slot=2,
        generation=2**40,
        version=3,
        version_step=2,
        passes=1,
        cursor=9,
        candidates=12,
        last=False,
        places=(("inputs", "uint8", (3, 4), 0), ("ids", "int64", (3,), 64)),
    ),
    End(seq=8, incarnation=1),
    features(1, BIG_IDS, np.ones((N, 6)), BIG_IDS),
    losses(1, BIG_IDS, np.arange(N)),
    weights(2, delta=DELTA),
    Mark(name="batch-12", batches=12),
    Part(name="batch-12", files={"boss.safetensors": "ab"}, plain={"step": 12}),
]
