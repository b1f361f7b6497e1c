import msgpack
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from one_of_each import ONE_OF_EACH
from toys import batch, losses, weights

from proto.batches import Batch
from proto.codec import MAX_ARRAYS, MAX_HEADER, TAGS, Codec
from proto.errors import Refused
from proto.fields import DTYPES
from proto.learning import Losses, Weights
from proto.messages import PROTOCOL, Message

CODEC = Codec("run-1")


def same(a: object, b: object) -> bool:
    """Equality that looks into arrays and their dtypes, and takes NaN for NaN."""
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    return type(a) is type(b) and a == b


def same_message(a: Message, b: Message) -> bool:
    return type(a) is type(b) and all(same(getattr(a, name), getattr(b, name)) for name in type(a).model_fields)


def wire(message: Message) -> list[bytes]:
    """The frames of `message` as they arrive."""
    return [bytes(frame) for frame in CODEC.encode(message)]


def header(**changes: object) -> bytes:
    """The header of a loss report of two instances, with `changes`."""
    good = {
        "t": "losses", "p": PROTOCOL, "r": "run-1", "f": {"batch_id": 1, "step": 1, "incarnation": 0},
        "a": [["ids", "int64", [2]], ["losses", "float32", [2]]],
    }  # fmt: skip
    return msgpack.packb(good | changes)


PARTS = [np.array([5, 6]).tobytes(), np.array([0.5, 1], np.float32).tobytes()]


def refusal(*frames: bytes) -> str:
    with pytest.raises(Refused) as caught:
        CODEC.decode(frames)
    assert str(caught.value)
    return caught.value.kind


def test_the_list_has_one_of_each() -> None:
    assert {message.tag for message in ONE_OF_EACH} == TAGS.keys()


@pytest.mark.parametrize("message", ONE_OF_EACH, ids=lambda message: message.tag)
def test_every_message_survives_the_wire(message: Message) -> None:
    assert same_message(CODEC.decode(wire(message)), message)


@pytest.mark.parametrize("tag", ["batch", "features", "losses", "weights"])
def test_large_ids_survive_as_int64(tag: str) -> None:
    sent = next(message for message in ONE_OF_EACH if message.tag == tag)
    got = CODEC.decode(wire(sent))
    ids = got.delta["ids"] if isinstance(got, Weights) else got.ids  # type: ignore[attr-defined]
    assert ids.dtype == np.int64
    assert ids.tolist() == [2049, 50001, 2**24 + 1]


ANY_ARRAY = st.sampled_from(sorted(DTYPES)).flatmap(
    lambda dtype: arrays.arrays(dtype, arrays.array_shapes(min_dims=0, max_dims=5, min_side=0, max_side=4))
)


@settings(deadline=None)
@given(st.dictionaries(st.text(max_size=8), ANY_ARRAY, max_size=5))
def test_arrays_of_any_allowed_dtype_shape_and_name_survive(found: dict[str, np.ndarray]) -> None:
    sent = weights(1, arrays=found)
    assert same_message(CODEC.decode(wire(sent)), sent)


def test_arrays_that_are_not_contiguous_survive() -> None:
    inputs = np.arange(24, dtype=np.float32).reshape(6, 4).T
    got = CODEC.decode(wire(batch(range(4), inputs=inputs)))
    assert isinstance(got, Batch)
    np.testing.assert_array_equal(got.arrays["inputs"], inputs)


def test_ids_of_a_foreign_byte_order_are_not_taken_for_others() -> None:
    foreign = np.array([1, 2], ">i8")
    try:
        sent = Losses(batch_id=1, step=1, incarnation=0, ids=foreign, losses=np.zeros(2, np.float32))
    except ValueError:
        return  # a message that cannot be made is as good
    got = CODEC.decode(wire(sent))
    assert isinstance(got, Losses)
    assert got.ids.tolist() == [1, 2]


def test_decoded_arrays_are_read_only() -> None:
    got = CODEC.decode([bytearray(frame) for frame in wire(losses(1, [1, 2], [0, 0]))])
    with pytest.raises(ValueError, match="read-only"):
        got.ids[0] = 3  # type: ignore[attr-defined]


def test_the_reference_frames_are_accepted() -> None:
    assert same_message(CODEC.decode([header(), *PARTS]), losses(1, [5, 6], [0.5, 1], step=1))


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("protocol", {"p": PROTOCOL + 1}),
        ("protocol", {"p": None}),
        ("run", {"r": "run-2"}),
        ("run", {"r": 1}),
        ("type", {"t": "no such"}),
        ("type", {"t": ["losses"]}),
        ("header", {"f": []}),
        ("header", {"more": 1}),
        ("array", {"a": None}),
        ("array", {"a": []}),
        ("array", {"a": [["ids", "int64", [2]]]}),
        ("array", {"a": [["ids", "int64", [2]], ["losses", "float32"]]}),
        ("array", {"a": [["ids", "int64", [2]], [["losses"], "float32", [2]]]}),
        ("array", {"a": [["ids", "int64", [2]], ["losses.x", "float32", [2]]]}),
        ("array", {"a": [["ids", "int64", [2]], ["step.x", "float32", [2]]]}),
        ("array", {"a": [["ids", "int64", [2]], ["step", "float32", [2]]]}),
        ("fields", {"a": [["ids", "int64", [2]], ["surplus", "float32", [2]]]}),
        ("fields", {"f": {"batch_id": 1, "step": 1}}),
        ("fields", {"f": {"batch_id": -1, "step": 1, "incarnation": 0}}),
        ("fields", {"f": {"batch_id": 2**63, "step": 1, "incarnation": 0}}),
        ("fields", {"f": {"batch_id": True, "step": 1, "incarnation": 0}}),
        ("fields", {"f": {"batch_id": 1.0, "step": 1, "incarnation": 0}}),
        ("fields", {"f": {"batch_id": 1, "step": 1, "incarnation": 0, b"x": 0}}),
        ("fields", {"a": [["ids", "int64", [2]], ["losses", "int32", [2]]]}),
        ("fields", {"a": [["ids", "int64", [2, 1]], ["losses", "float32", [2]]]}),
    ],
)
def test_frames_that_are_not_for_us_are_refused_with_their_kind(kind: str, changes: dict[str, object]) -> None:
    assert refusal(header(**changes), *PARTS) == kind


@pytest.mark.parametrize("dtype", ["object", "O", "U8", "complex64", "uint64", ">i8", "<i8", "datetime64[s]", "V8", ""])
def test_dtypes_outside_the_list_are_refused(dtype: str) -> None:
    assert refusal(header(a=[["ids", dtype, [2]], ["losses", "float32", [2]]]), *PARTS) == "array"


@pytest.mark.parametrize(
    "shape",
    [
        [3], [1], [], [-2], [-1, -2], [2, 2], [2.0], ["2"], [True, 2], [None], 2, "2", [1] * 8 + [2],
        [2**63], [2**63 - 1], [2**62, 8], [2**64 - 1], [2**32, 2**32, 2],
    ],
)  # fmt: skip
def test_shapes_that_do_not_fit_their_bytes_are_refused(shape: object) -> None:
    assert refusal(header(a=[["ids", "int64", shape], ["losses", "float32", [2]]]), *PARTS) == "array"


@pytest.mark.parametrize("shape", [[0, 2**63], [0, 2**62, 2**62], [2**64 - 1, 0]])
def test_huge_shapes_of_no_bytes_are_refused(shape: list[int]) -> None:
    assert refusal(header(a=[["ids", "int64", shape], ["losses", "float32", [2]]]), b"", PARTS[1]) == "array"


def test_wrong_numbers_of_parts_are_refused() -> None:
    assert refusal() == "header"
    assert refusal(header()) == "array"
    assert refusal(header(), PARTS[0]) == "array"
    assert refusal(header(), *PARTS, b"") == "array"
    assert refusal(header(), *[b""] * (MAX_ARRAYS + 1)) == "header"


def test_an_array_given_twice_is_refused() -> None:
    twice = [["ids", "int64", [2]], ["losses", "float32", [2]], ["ids", "int64", [2]]]
    assert refusal(header(a=twice), *PARTS, PARTS[0]) == "array"


@pytest.mark.parametrize(
    "junk", [b"", b"\xc1", b"\x80", b"\x81", msgpack.packb([1]), msgpack.packb({1: 2}), b"\xff" * 9]
)
def test_headers_that_are_none_are_refused(junk: bytes) -> None:
    assert refusal(junk, *PARTS) == "header"


def test_a_header_over_the_limit_is_refused() -> None:
    assert refusal(b"\xc0" * (MAX_HEADER + 1)) == "header"


def test_an_extension_type_is_refused() -> None:
    assert refusal(header(p=msgpack.ExtType(5, b"x")), *PARTS) == "header"


def test_every_truncation_of_a_header_is_refused() -> None:
    whole = header()
    assert {refusal(whole[:length], *PARTS) for length in range(len(whole))} == {"header"}


@pytest.mark.parametrize("depth", [10, 900, 1000, 1020, 5000])
@pytest.mark.parametrize("key", ["t", "p", "r", "f", "a", "step"])
def test_deep_nesting_is_refused(key: str, depth: int) -> None:
    # Packed by hand: the packer itself refuses to nest so deep.
    marker, deep = msgpack.packb("marker"), b"\x91" * depth + b"\x01"
    changes = {"f": {"batch_id": 1, "step": "marker", "incarnation": 0}} if key == "step" else {key: "marker"}
    refusal(header(**changes).replace(marker, deep), *PARTS)


def test_deep_nesting_of_one_array_description_is_refused() -> None:
    deep = b"\x91" * 1000 + b"\x01"
    refusal(header(a=["marker", 1]).replace(msgpack.packb("marker"), deep), *PARTS)


WORD = st.text(max_size=9) | st.binary(max_size=9)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | WORD,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORD, inner, max_size=4),
    max_leaves=12,
)
KINDS = {"header", "protocol", "run", "type", "array", "fields"}


def only_refused(*frames: bytes) -> None:
    """Decodes `frames`; anything raised but Refused fails the test."""
    try:
        outcome: object = CODEC.decode(frames)
    except Refused as refused:
        outcome = refused.kind
    assert isinstance(outcome, Message) or outcome in KINDS


@settings(deadline=None, max_examples=200)
@given(st.lists(st.binary(max_size=64), max_size=4))
def test_random_bytes_raise_nothing_but_refused(frames: list[bytes]) -> None:
    only_refused(*frames)


@settings(deadline=None, max_examples=300)
@given(st.sampled_from(sorted(TAGS)), st.dictionaries(st.text(max_size=9), ANYTHING, max_size=4), ANYTHING)
def test_well_formed_headers_with_any_content_raise_nothing_but_refused(
    tag: str, fields: dict[str, object], described: object
) -> None:
    only_refused(header(t=tag, f=fields, a=described), *PARTS)
    only_refused(header(t=tag, f=fields))


@settings(deadline=None, max_examples=300)
@given(st.data())
def test_tampered_messages_raise_nothing_but_refused(data: st.DataObject) -> None:
    frames = wire(data.draw(st.sampled_from(ONE_OF_EACH)))
    which = data.draw(st.integers(0, len(frames) - 1))
    tampered = bytearray(frames[which])
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(tampered)))
        tampered[place : place + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=2))
    only_refused(*frames[:which], bytes(tampered), *frames[which + 1 :])
