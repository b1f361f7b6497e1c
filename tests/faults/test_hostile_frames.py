"""Whatever a peer sends: no exception reaches a loop, nothing grows, and what was trained is the same."""

import contextlib
import gc
import itertools
import os
import time
from collections import Counter
from pathlib import Path

import msgpack
import numpy as np
import pytest
import zmq
from circle import RUN, Circle
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from logged_ids import BUDGET, CODE, WORDS, assert_whole, trained_ids, until_trained
from one_of_each import ONE_OF_EACH

from autoassist.machine import Machine
from proto.channels import CHANNELS
from proto.codec import Codec
from proto.config import RunConfig, RunInfo
from proto.messages import PROTOCOL

AT_ONCE = 20
GROWTH_BYTES = 20 << 20
ENDS = (
    ("batches", "boss", ""), ("batches", "batcher", "boss"), ("features", "batcher", ""), ("losses", "boss", ""),
    ("weights", "assistant", "batcher"), ("weights", "batcher", ""), ("status", "boss", ""), ("control", "boss", ""),
    ("control", "supervisor", "boss"),
)  # fmt: skip
"""(channel, who sends, to whom): every socket that anything is read from."""
VALID = [[bytes(frame) for frame in Codec(RUN).encode(message)] for message in ONE_OF_EACH]
FOREIGN = [[bytes(frame) for frame in Codec("another run").encode(message)] for message in ONE_OF_EACH]
DEEP = b"\x91" * 100_000


def header(**changes):
    good = {"t": "losses", "p": PROTOCOL, "r": RUN, "f": {"batch_id": 1, "step": 1, "incarnation": 0},
            "a": [["ids", "int64", [2]], ["losses", "float32", [2]]]}  # fmt: skip
    return msgpack.packb(good | changes)


NUMBERS = st.sampled_from([0, 1, -1, 2, 2**31, 2**32 + 2, 2**62, 2**63 - 1, -(2**63), 2**64 - 1])
NAMES = st.sampled_from(
    ["ids", "losses", "x", "f.x", "", "a" * 300, "object", "int64", "float32", "complex64", ">i8", "O"]
)
ARRAYS = st.lists(st.tuples(NAMES, NAMES, st.lists(NUMBERS, max_size=10)), max_size=3)
JUNK = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.floats() | NAMES | st.binary(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)
PARTS = [np.array([5, 6]).tobytes(), np.array([0.5, 1], np.float32).tobytes()]


@st.composite
def mutated(draw):
    """A message of some type with something wrong in it."""
    frames = list(draw(st.sampled_from(VALID)))
    match draw(st.integers(0, 5)):
        case 0:
            at = draw(st.integers(0, len(frames) - 1))
            frames[at] = frames[at][: draw(st.integers(0, len(frames[at]) // 2))]
        case 1:
            frames += draw(st.lists(st.binary(max_size=30), min_size=1, max_size=80))
        case 2:
            frames = frames[1:] + frames[:1] if len(frames) > 1 else [b"", *frames]
        case 3:
            raw = bytearray(frames[0])
            for at in draw(st.lists(st.integers(0, len(raw) - 1), min_size=1, max_size=4)):
                raw[at] ^= draw(st.integers(1, 255))
            frames[0] = bytes(raw)
        case 4:
            head = msgpack.unpackb(frames[0])
            head[draw(st.sampled_from("tprfa"))] = draw(JUNK)
            frames[0] = msgpack.packb(head)
        case _:
            head = msgpack.unpackb(frames[0])
            if head["f"]:
                head["f"][draw(st.sampled_from(sorted(head["f"])))] = draw(JUNK)
            frames[0] = msgpack.packb(head)
    return frames


PECULIAR = [*FOREIGN, [DEEP], [header(p=PROTOCOL + 1), *PARTS], [b""] * 500, [header(t="no such"), *PARTS]]
BROKEN = (
    st.lists(st.binary(max_size=60), min_size=1, max_size=5)
    | mutated()
    | ARRAYS.map(lambda described: [header(a=described), *PARTS])
    | st.builds(lambda fields: [header(f=fields), *PARTS], st.dictionaries(NAMES, JUNK, max_size=3))
    | st.sampled_from(PECULIAR)
)
WHATEVER = BROKEN | st.sampled_from(VALID)


def send(circle, end, frames):
    channel, party, to = end
    prefix = [to.encode()] if to else []
    with contextlib.suppress(zmq.Again):  # full
        circle.port(channel, party).socket.send_multipart([*prefix, *frames], zmq.NOBLOCK)


def memory():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


@pytest.fixture
def make():
    circles = []

    def make(*args, **options):
        circles.append(Circle(*args, **options))
        return circles[-1]

    yield make
    for circle in circles:
        circle.close()


def refused(circle):
    kinds = {}
    for port in circle.ports.values():
        for kind, n in port.refused.items():
            kinds[kind] = kinds.get(kind, 0) + n
    return kinds


def test_no_frame_reaches_a_loop_as_an_exception_and_nothing_grows(make, request):
    circle, frames = make(None), request.config.getoption("--frames")
    circle.stream.open(circle.account)
    for _ in range(20):
        time.sleep(0.005)
        circle.turn()
    circle.stream._next_seq += len(list(circle.receiver.receive(circle.stream._expected)))
    drawn = []

    def strike(messages):
        for end, parts in messages:
            send(circle, end, parts)
        for _ in range(3):
            time.sleep(0.002)
            circle.turn()
            list(circle.receiver.receive(circle.stream._expected))
        circle.machine = Machine("digest", RunConfig(), 0.0)  # no run goes on after what was forged here

    strike(itertools.product(ENDS, [*VALID, *PECULIAR]))
    assert refused(circle)["stale"] >= 4, "Open and Credit of another incarnation, Batch and Filled out of order"

    @settings(max_examples=max(frames // AT_ONCE // 2, 1), deadline=None, database=None, derandomize=True,
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(st.lists(st.tuples(st.sampled_from(ENDS), WHATEVER), min_size=AT_ONCE, max_size=AT_ONCE))
    def attack(messages):
        strike(messages)
        drawn.append(messages)

    attack()
    gc.collect()
    before = memory()
    for messages in drawn:  # once more, now that hypothesis does not remember more with each
        strike(messages)
    gc.collect()
    assert set(refused(circle)) >= {"header", "protocol", "run", "type", "array", "fields", "stale"}
    assert sum(refused(circle).values()) > frames / 2
    assert memory() - before < GROWTH_BYTES


@pytest.mark.slow
def test_strangers_at_every_socket_of_a_run_change_nothing(start_run, tmp_path):
    (tmp_path / "net.py").write_text(CODE)
    run = start_run(*WORDS, "policy.name=uniform")
    until_trained(run, 50)
    folder, context = RunInfo.load(run.run_dir).socket_dir, zmq.Context()
    try:
        for name, row in CHANNELS.items():
            stranger = context.socket(row.connector)
            stranger.linger = 1000
            stranger.connect(f"ipc://{folder / name}")
            for frames in (*PECULIAR, *VALID, [os.urandom(100)]):
                with contextlib.suppress(zmq.Again):  # full
                    stranger.send_multipart(frames, zmq.NOBLOCK)
            stranger.close()
    finally:
        context.term()
    summary = assert_whole(run)
    assert set(Counter(trained_ids(run)).values()) == {BUDGET}
    found = {(key.split("_")[0], key.split("_")[1]) for key in summary["frames_refused_by_kind"]}
    assert found >= {(row.binds, name) for name, row in CHANNELS.items()}


@pytest.fixture(scope="module")
def undisturbed():
    circle = Circle(2)
    try:
        circle.train()
        yield circle.ids, circle.learner.state()
    finally:
        circle.close()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_what_is_trained_is_the_same_under_attack(make, undisturbed, seed):
    circle, rng = make(2), np.random.default_rng(seed)
    heard = []
    for name, port in list(circle.ports.items()):
        original = port.send

        def spying(message, to="", *, copy=True, name=name, original=original):
            heard.append((name, to, [bytes(frame) for frame in Codec(RUN).encode(message)]))
            return original(message, to, copy=copy)

        port.send = spying
    pool = [
        [b"x" * 40],
        *FOREIGN,
        [DEEP],
        [b""] * 500,
        [header(p=9), *PARTS],
        *(frames[:-1] or [b""] for frames in VALID),
    ]
    for dtype, shape in itertools.product(("object", "int64"), ([-1], [2**62, 4], [2**63 - 1], [1] * 40)):
        pool.append([header(a=[["ids", dtype, shape], ["losses", "float32", [2]]]), *PARTS])

    def disturb():
        for end in ENDS:
            send(circle, end, pool[rng.integers(len(pool))])
        for (channel, party), to, frames in [heard[i] for i in rng.integers(0, len(heard), 3)]:
            send(circle, (channel, party, to), frames)  # once more, and out of order

    circle.train(disturb)
    ids, (arrays, plain) = undisturbed
    assert circle.ids == ids
    found, counts = circle.learner.state()
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)
    assert counts["version"] == plain["version"]
    assert circle.account.trained == 200
    assert refused(circle)["stale"] > 0
