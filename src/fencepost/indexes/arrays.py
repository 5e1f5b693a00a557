"""Names for the arrays that kernels take.

The item type is for the reader and for Numba, which sees the real array; to the type checker items are untyped,
because NumPy's scalars and Python's ints mix freely in compiled code and never do in its stubs.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

Bools = npt.NDArray[Any]
Float64s = npt.NDArray[Any]
Int16s = npt.NDArray[Any]
Int64s = npt.NDArray[Any]
UInt8s = npt.NDArray[Any]
UInt16s = npt.NDArray[Any]
UInt32s = npt.NDArray[Any]
UInt64s = npt.NDArray[Any]

i64: Any = np.int64
u64: Any = np.uint64
