"""Types of arrays that the whole package names."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Array: TypeAlias = NDArray[np.float64]
Matrix: TypeAlias = NDArray[Any] | sparse.csr_matrix | sparse.csr_array
CoreMatrix: TypeAlias = (
    NDArray[Any] | tuple[NDArray[Any], NDArray[np.int32], NDArray[np.int64], int]
)
