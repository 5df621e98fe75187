"""Vectors in a robot's own frame, for K robots at once. Quaternions are w, x, y, z, as in MuJoCo."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Float64Array = NDArray[np.float64]


def to_body(quat: Float64Array, vector: Float64Array) -> Float64Array:
    """World vectors [K, 3] in the frames of bodies with orientations [K, 4]."""
    w, x, y, z = quat.T
    a, b, c = vector.T
    p, q, r = 2.0 * (y * c - z * b), 2.0 * (z * a - x * c), 2.0 * (x * b - y * a)  # 2 (x, y, z) x vector
    turned = (a - w * p + y * r - z * q, b - w * q + z * p - x * r, c - w * r + x * q - y * p)
    return np.stack(turned, axis=1)


def gravity(quat: Float64Array) -> Float64Array:
    """The direction of gravity [K, 3], (0, 0, -1) in the world, in the frames of bodies with orientations [K, 4]."""
    w, x, y, z = quat.T
    return np.stack([2.0 * (w * y - x * z), -2.0 * (w * x + y * z), 2.0 * (x * x + y * y) - 1.0], axis=1)


def yaw_quaternion(yaw: Float64Array) -> Float64Array:
    """Orientations [n, 4] of bodies that are turned by angles [n] around the vertical."""
    zero = np.zeros_like(yaw)
    return np.stack([np.cos(yaw / 2.0), zero, zero, np.sin(yaw / 2.0)], axis=1)


def heading(quat: Float64Array) -> tuple[Float64Array, Float64Array]:
    """Cosine and sine [K] of the yaw angle of bodies with orientations [K, 4]."""
    w, x, y, z = quat.T
    cos, sin = 1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y + w * z)
    length = np.maximum(np.hypot(cos, sin), 1e-9)
    return cos / length, sin / length
