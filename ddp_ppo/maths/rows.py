"""Products of rows, one result per row, whichever NumPy is installed. Torch-free."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_HAS_VECDOT = hasattr(np, "vecdot")  # NumPy 2.0 and newer


def row_dots(first: NDArray[Any], second: NDArray[Any]) -> NDArray[Any]:
    """[..., n] and [..., n] -> [...]: dot products, with the bits of `np.dot` of each pair of rows."""
    return np.vecdot(first, second) if _HAS_VECDOT else matmul_row_dots(first, second)


def matmul_row_dots(first: NDArray[Any], second: NDArray[Any]) -> NDArray[Any]:
    """`row_dots` with what NumPy 1.26 has; up to half as fast on few rows."""
    products: NDArray[Any] = first[..., None, :] @ second[..., :, None]
    return products[..., 0, 0]
