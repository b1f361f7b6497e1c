"""Messages to frames and back.

Frame 0 is a msgpack map `{"t": tag, "p": protocol, "r": run id, "f": fields, "a": [[path, dtype, shape], ...]}`; each
array listed under "a" is one further frame of raw C-ordered bytes. Nothing is unpickled, ever; a frame that does not
validate raises `Refused` with its kind and reason and nothing else.
"""

import math
from collections.abc import Mapping, Sequence
from reprlib import repr as short
from typing import Any, cast

import msgpack
import numpy as np
from pydantic import ValidationError

from proto.batches import Batch, Credit, End, Filled, Open, Unmapped
from proto.control import (
    Beat,
    DataSpec,
    Done,
    Failed,
    Hello,
    Part,
    Ready,
    Record,
    Release,
    Saving,
    Start,
    Stop,
    Welcome,
)
from proto.errors import Refused
from proto.fields import DTYPES, NAMES
from proto.learning import Features, Losses, Mark, Want, Weights
from proto.messages import PROTOCOL, Message
from proto.types import Array

TAGS: dict[str, type[Message]] = {
    cls.tag: cls
    for cls in (Hello, Welcome, DataSpec, Ready, Saving, Start, Stop, Release, Part, Beat, Record, Done, Failed,
                Open, Credit, Unmapped, Batch, Filled, End, Features, Losses, Mark, Weights, Want)
}  # fmt: skip
"""The class of each type tag that travels."""

MAX_HEADER = 4 << 20
"""Bytes of frame 0: its largest use is a data spec with some 10,000 class names."""
MAX_ARRAYS = 64
MAX_NDIM = 8
MAX_FRAMES = MAX_ARRAYS + 1

Frame = bytes | memoryview


class Codec:
    """Encodes and decodes the messages of one run; those of another run are refused."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id

    def encode(self, message: Message) -> list[Frame]:
        """The frames of `message`. Array frames are views, not copies: leave the arrays alone until they are sent."""
        arrays: list[tuple[str, Array]] = []
        header = {
            "t": message.tag,
            "p": PROTOCOL,
            "r": self.run_id,
            "f": _split(message, arrays),
            "a": [(path, NAMES[array.dtype], array.shape) for path, array in arrays],
        }
        return [cast(bytes, msgpack.packb(header)), *(_bytes(array) for _, array in arrays)]

    def decode(self, frames: Sequence[Frame]) -> Message:
        """The message in `frames`. Its arrays are read-only views of the frames.

        Raises Refused, of kind "header", "protocol", "run", "type", "array" or "fields".
        """
        if not frames or len(frames) > MAX_FRAMES:
            raise Refused("header", f"{len(frames)} frames")
        header = _unpack(frames[0])
        if header["p"] != PROTOCOL:
            raise Refused("protocol", f"protocol {short(header['p'])}, this is {PROTOCOL}")
        if header["r"] != self.run_id:
            raise Refused("run", f"run {short(header['r'])}, this is {self.run_id!r}")
        cls = TAGS.get(header["t"]) if isinstance(header["t"], str) else None
        if cls is None:
            raise Refused("type", f"unknown message type {short(header['t'])}")
        fields = header["f"]
        for path, array in _arrays(header["a"], frames[1:]):
            _place(fields, path, array)
        try:
            return cls.model_validate(fields)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(str(part) for part in first["loc"])[:80]
            raise Refused("fields", f"{cls.tag}.{where}: {first['msg'][:200]}") from None


def _bytes(array: Array) -> Frame:
    return array.reshape(-1).view(np.uint8).data if array.size else b""


def _split(message: Message, arrays: list[tuple[str, Array]]) -> dict[str, Any]:
    """The plain fields of `message`; its arrays go to `arrays` with their path, `field` or `field.key`."""
    plain: dict[str, Any] = {}
    for name, value in message.__dict__.items():  # its fields, as pydantic keeps them
        if isinstance(value, int | str):  # most are; the other checks take longer
            plain[name] = value
        elif isinstance(value, np.ndarray):
            arrays.append((name, np.asarray(value, order="C")))
        elif isinstance(value, Mapping) and any(isinstance(item, np.ndarray) for item in value.values()):
            arrays.extend((f"{name}.{key}", np.asarray(item, order="C")) for key, item in value.items())
            plain[name] = {}
        else:
            plain[name] = value
    return plain


def _unpack(frame: Frame) -> dict[str, Any]:
    if len(frame) > MAX_HEADER:
        raise Refused("header", f"header of {len(frame)} bytes")
    try:
        header = msgpack.unpackb(frame, use_list=False, strict_map_key=True, max_ext_len=0)
    except (ValueError, RecursionError, msgpack.UnpackException) as error:
        raise Refused("header", f"no msgpack: {type(error).__name__} {str(error)[:80]}") from None
    if not isinstance(header, dict) or header.keys() != {"t", "p", "r", "f", "a"} or not isinstance(header["f"], dict):
        raise Refused("header", "not a message header")
    return header


def _arrays(described: Any, frames: Sequence[Frame]) -> list[tuple[str, Array]]:
    if not isinstance(described, tuple) or len(described) != len(frames):
        raise Refused("array", "descriptions and array frames differ in number")
    found = []
    for entry, frame in zip(described, frames, strict=True):
        match entry:
            case (str(path), str(dtype), tuple(shape)) if dtype in DTYPES and len(shape) <= MAX_NDIM:
                pass
            case _:
                raise Refused("array", f"array description {short(entry)}")
        if not all(type(n) is int and n >= 0 for n in shape):
            raise Refused("array", f"{path:.40}: shape {short(shape)}")
        # Python integers: a product that overflows int64 must not come out right.
        if math.prod(shape) * np.dtype(dtype).itemsize != len(frame):
            raise Refused("array", f"{path:.40}: {dtype} {short(shape)} does not fit {len(frame)} bytes")
        try:
            array = np.frombuffer(frame, dtype=dtype).reshape(shape)
        except ValueError:  # no bytes, and a dimension that numpy cannot count to
            raise Refused("array", f"{path:.40}: shape {short(shape)}") from None
        array.flags.writeable = False
        found.append((path, array))
    return found


def _place(fields: dict[str, Any], path: str, array: Array) -> None:
    field, dot, key = path.partition(".")
    holder, name = (fields.get(field), key) if dot else (fields, field)
    if not isinstance(holder, dict) or name in holder:
        raise Refused("array", f"{path:.80} has no place in this message")
    holder[name] = array
