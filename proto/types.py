"""Names for the array types that appear in every signature."""

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]
Bools: TypeAlias = npt.NDArray[np.bool_]
Int64s: TypeAlias = npt.NDArray[np.int64]
Float32s: TypeAlias = npt.NDArray[np.float32]
