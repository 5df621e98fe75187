"""Uneven ground as one height field: square tiles, rougher from row to row, of another kind in each column.

Tiles of row r have the difficulty r / (rows - 1); the first row is nearly flat. A border of flat ground surrounds them.

Shapes: R rows and C columns of tiles, n points.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import mujoco
import numpy as np
from numpy.typing import NDArray

Heights = NDArray[np.float64]
_CELL = 0.1  # m between two heights
_TILE = 60  # cells of a tile's side
_BORDER = 40  # cells
_MAX_SLOPE, _MAX_STEP, _MAX_NOISE = 0.3, 0.12, 0.06  # of the last row: m per m, and m


@dataclass(frozen=True)
class Terrain:
    """A map of heights in m, centred on the world's origin; x runs along the second axis."""

    heights: Heights  # [ny, nx]
    origins: Heights  # [R, C, 3] the middle of each tile

    @property
    def half_size(self) -> tuple[float, float]:
        """Half of the map's extent along x and y in m."""
        ny, nx = self.heights.shape
        return (nx - 1) * _CELL / 2.0, (ny - 1) * _CELL / 2.0

    def height(self, x: Heights, y: Heights) -> Heights:
        """The ground below points of any one shape, interpolated linearly; outside the map that of its edge."""
        ny, nx = self.heights.shape
        half_x, half_y = self.half_size
        column = np.clip((x + half_x) / _CELL, 0.0, nx - 1.001)
        row = np.clip((y + half_y) / _CELL, 0.0, ny - 1.001)
        left, lower = column.astype(np.int64), row.astype(np.int64)
        right, upper = column - left, row - lower
        flat, start = self.heights.ravel(), lower * nx + left
        low = flat[start] * (1.0 - right) + flat[start + 1] * right
        high = flat[start + nx] * (1.0 - right) + flat[start + nx + 1] * right
        ground: Heights = low * (1.0 - upper) + high * upper
        return ground

    def add_to(self, spec: mujoco.MjSpec, geom: str) -> None:
        """Makes the geom of this name the height field; the geom has to lie at the world's origin."""
        ny, nx = self.heights.shape
        lowest, span = float(self.heights.min()), float(np.ptp(self.heights)) or 1.0
        data = ((self.heights - lowest) / span).ravel().tolist()
        spec.add_hfield(name="terrain", size=[*self.half_size, span, 1.0], nrow=ny, ncol=nx, userdata=data)
        ground = spec.geom(geom)
        ground.type, ground.hfieldname = mujoco.mjtGeom.mjGEOM_HFIELD, "terrain"
        ground.pos = [0.0, 0.0, lowest]


def rough_terrain(num_levels: int = 8, seed: int = 0) -> Terrain:
    """R = num_levels rows of slopes, waves, stairs, loose ground and blocks."""
    random = np.random.default_rng(seed)
    tiles = np.stack(
        [[kind(level / max(num_levels - 1, 1), random) for kind in _KINDS] for level in range(num_levels)]
    )  # [R, C, tile, tile]
    rows, columns = tiles.shape[:2]
    inner = tiles.transpose(0, 2, 1, 3).reshape(rows * _TILE, columns * _TILE)
    heights = np.pad(inner, _BORDER)
    middle = tiles[:, :, _TILE // 2, _TILE // 2]
    centres = [(np.arange(count) + 0.5 - count / 2.0) * _TILE * _CELL for count in (columns, rows)]
    x, y = np.meshgrid(*centres)
    return Terrain(heights, np.stack([x, y, middle], axis=-1))


def _distance() -> Heights:
    """Largest of the distances along x and y from a tile's middle, in m, at most up to its flat edge."""
    offset = np.abs(np.arange(_TILE) - _TILE // 2) * _CELL
    return np.maximum(offset[:, None], offset[None, :])


def _slope(difficulty: float, random: np.random.Generator) -> Heights:
    edge = _TILE // 2 * _CELL
    sign = random.choice([-1.0, 1.0])
    return np.asarray(sign * difficulty * _MAX_SLOPE * np.clip(edge - _distance(), 0.0, edge - 0.5))


def _waves(difficulty: float, random: np.random.Generator) -> Heights:
    phase = 2.0 * np.pi * np.arange(_TILE) * _CELL / 2.0  # a wave is 2 m long
    return np.asarray(difficulty * _MAX_STEP * 0.5 * (np.sin(phase)[:, None] + np.cos(phase)[None, :]))


def _stairs(difficulty: float, random: np.random.Generator) -> Heights:
    steps = np.floor(np.clip(_distance() - 0.5, 0.0, None) / 0.4)  # 0.4 m deep
    return np.asarray(random.choice([-1.0, 1.0]) * difficulty * _MAX_STEP * (steps.max() - steps))


def _noise(difficulty: float, random: np.random.Generator) -> Heights:
    return np.asarray(difficulty * _MAX_NOISE * random.uniform(-1.0, 1.0, (_TILE, _TILE)))


def _blocks(difficulty: float, random: np.random.Generator) -> Heights:
    coarse = random.uniform(-1.0, 1.0, (_TILE // 5, _TILE // 5))
    return np.asarray(difficulty * _MAX_STEP * 0.5 * np.kron(coarse, np.ones((5, 5))))


_KINDS: tuple[Callable[[float, np.random.Generator], Heights], ...] = (_slope, _waves, _stairs, _noise, _blocks)
