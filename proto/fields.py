"""The fields that messages are made of: arrays of a fixed dtype, bounded numbers and texts."""

from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
from pydantic import Field, GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from proto.types import Array, Float32s, Int64s

DTYPES = frozenset({"bool", "uint8", "int32", "int64", "float16", "float32", "float64"})
"""The only dtypes that are read from a frame."""

NAMES = {np.dtype(name): name for name in DTYPES}
"""Numpy works a dtype's name out anew each time it is asked, which costs more than the rest of a message."""


class ArrayOf:
    """Annotation of an array field: its dtype and number of dimensions, both checked."""

    def __init__(self, dtype: str | None, ndim: int | None) -> None:
        self.dtype, self.ndim = dtype, ndim

    def check(self, value: Any) -> Array:
        if not isinstance(value, np.ndarray):
            raise ValueError(f"an array is needed, not {type(value).__name__}")
        if not value.dtype.isnative:
            raise ValueError("byte order is not this machine's")
        name = NAMES.get(value.dtype)
        if name is None or (self.dtype is not None and name != self.dtype):
            raise ValueError(
                f"dtype {value.dtype} where {self.dtype or 'one of ' + ', '.join(sorted(DTYPES))} is needed"
            )
        if self.ndim is not None and value.ndim != self.ndim:
            raise ValueError(f"shape {value.shape} where {self.ndim} dimensions are needed")
        return value

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self.check)


Ids = Annotated[Int64s, ArrayOf("int64", 1)]
Counts = Annotated[Int64s, ArrayOf("int64", 1)]
Floats = Annotated[Float32s, ArrayOf("float32", 1)]
Halves = Annotated[Array, ArrayOf("float16", 2)]
AnyArray = Annotated[Array, ArrayOf(None, None)]
Count = Annotated[int, Field(ge=0, lt=2**63)]
Text = Annotated[str, Field(max_length=100_000)]
CheckpointName = Annotated[str, Field(pattern="^[a-z0-9-]{1,64}$")]
"""It becomes the name of a folder, so it must not lead anywhere else."""


def same_length(*fields: str) -> Callable[[Any], Any]:
    """A check that the named array fields of a message have equal first dimensions."""

    def check(self: Any) -> Any:
        lengths = {name: len(getattr(self, name)) for name in fields}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"lengths differ: {lengths}")
        return self

    return check
