"""Uneven ground: interpolation by hand, agreement with what MuJoCo collides with, and what difficulty does."""

import unittest

import mujoco
import numpy as np

from ddp_ppo.tasks.vectorised.terrain import Terrain, rough_terrain


class TerrainTest(unittest.TestCase):
    def test_heights_between_the_points_are_interpolated(self):
        terrain = Terrain(np.array([[0.0, 1.0], [2.0, 5.0]]), np.zeros((1, 1, 3)))  # points 0.1 m apart
        self.assertEqual(terrain.half_size, (0.05, 0.05))
        x, y = np.array([-0.05, 0.05, -0.05, 0.0]), np.array([-0.05, -0.05, 0.0, 0.0])
        np.testing.assert_allclose(terrain.height(x, y), [0.0, 1.0, 1.0, 2.0], atol=0.01)

    def test_points_outside_have_the_height_of_the_edge(self):
        terrain = Terrain(np.array([[0.0, 1.0], [2.0, 5.0]]), np.zeros((1, 1, 3)))
        np.testing.assert_allclose(terrain.height(np.array([9.0]), np.array([9.0])), [5.0], atol=0.01)

    def test_it_is_the_ground_that_mujoco_knows(self):
        terrain = rough_terrain(num_levels=2)
        spec = mujoco.MjSpec()
        spec.worldbody.add_geom(name="floor", type=mujoco.mjtGeom.mjGEOM_PLANE, size=[1, 1, 1])
        terrain.add_to(spec, "floor")
        model = spec.compile()
        data = mujoco.MjData(model)
        mujoco.mj_forward(model, data)
        random = np.random.default_rng(0)
        half_x, half_y = terrain.half_size
        x, y = (np.round(random.uniform(1.0 - half, half - 1.0, 200), 1) for half in (half_x, half_y))
        x, y = x + half_x % 0.1 + 1e-4, y + half_y % 0.1 + 1e-4  # next to the points, where triangles and squares agree
        found = [
            5.0 - mujoco.mj_ray(model, data, [a, b, 5.0], [0, 0, -1], None, 1, -1, np.zeros(1, np.int32))
            for a, b in zip(x, y, strict=True)
        ]
        np.testing.assert_allclose(terrain.height(x, y), found, atol=2e-3)
        self.assertGreater(np.ptp(found), 0.1)

    def test_rows_of_tiles_become_rougher(self):
        terrain = rough_terrain(num_levels=4)
        self.assertEqual(terrain.origins.shape, (4, 5, 3))
        grid = np.stack(np.meshgrid(np.arange(-2.0, 2.0, 0.1), np.arange(-2.0, 2.0, 0.1)), axis=-1).reshape(-1, 2)
        spread = [
            [np.ptp(terrain.height(x + grid[:, 0], y + grid[:, 1])) for x, y, _ in row] for row in terrain.origins
        ]
        np.testing.assert_array_equal(spread[0], 0.0)
        self.assertTrue((np.diff(spread, axis=0) > 0.0).all())

    def test_origins_lie_on_the_ground(self):
        terrain = rough_terrain()
        x, y, height = np.moveaxis(terrain.origins, -1, 0)
        np.testing.assert_allclose(terrain.height(x, y), height, atol=0.1)


if __name__ == "__main__":
    unittest.main()
