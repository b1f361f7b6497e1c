"""Numbers that are kept, and sent, in half their size."""

import numpy as np

from proto.types import Array, Float32s


def widened(halves: Array) -> Float32s:
    """Float16 as float32, exactly: what `astype` does, in a fraction of its time."""
    if (halves.view(np.uint16) << np.uint16(1)).max(initial=0) >= 0xF800:  # infinite, or not a number
        return halves.astype(np.float32)
    bits = halves.view(np.int16).astype(np.int32)
    bits <<= 13  # exponent and mantissa are in their place; of the copies of the sign bit the first stays
    bits &= np.int32(-0x7000_2000)
    # The exponent is off by 112 (the biases are 15 and 127) until the product sets it right, denormal numbers too.
    wide = bits.view(np.float32)
    wide *= np.float32(2.0**112)
    return wide
