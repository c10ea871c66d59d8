"""Arrays by the type of their numbers; docstrings give their shapes."""

import numpy as np
from numpy.typing import NDArray

Float32s = NDArray[np.float32]
Float64s = NDArray[np.float64]
Int64s = NDArray[np.int64]
UInt8s = NDArray[np.uint8]
Bools = NDArray[np.bool_]
