"""The ground, and what pictures have more."""

import unittest

import mujoco
import numpy as np

from ddp_ppo.tasks.robots.scene import GROUND, add_ground, decorate
from ddp_ppo.tasks.vectorised.terrain import rough_terrain

BALL = """
<mujoco><worldbody><body pos="0 0 0.3"><freejoint/>
<geom type="sphere" size="0.1" contype="0" conaffinity="1"/></body></worldbody></mujoco>
"""


def landed(terrain):
    """The height at which a ball of 0.1 m comes to rest above the map's middle, and the compiled model."""
    spec = mujoco.MjSpec.from_string(BALL)
    add_ground(spec, terrain)
    model = spec.compile()
    data = mujoco.MjData(model)
    for _ in range(1000):
        mujoco.mj_step(model, data)
    return data.qpos[2], model


class SceneTest(unittest.TestCase):
    def test_bodies_rest_on_a_plane_of_known_friction(self):
        height, model = landed(None)
        self.assertAlmostEqual(height, 0.1, delta=2e-3)
        self.assertAlmostEqual(model.geom(GROUND).friction[0], 0.8)

    def test_bodies_touch_uneven_ground(self):
        terrain = rough_terrain(num_levels=2)
        spec = mujoco.MjSpec.from_string(BALL)
        add_ground(spec, terrain)
        model = spec.compile()
        data = mujoco.MjData(model)
        x, y, ground = terrain.origins[1, 1]
        for offset, touches in ((0.05, True), (0.2, False)):
            data.qpos[:3] = x, y, ground + offset
            mujoco.mj_forward(model, data)
            self.assertEqual(data.ncon > 0, touches)

    def test_pictures_get_a_sky_squares_and_light_and_the_physics_stays(self):
        spec = mujoco.MjSpec.from_string(BALL)
        add_ground(spec, None)
        decorate(spec)
        model, plain = spec.compile(), landed(None)[1]
        self.assertEqual((model.ntex, model.nlight), (2, 1))
        np.testing.assert_array_equal(model.geom_friction, plain.geom_friction)


if __name__ == "__main__":
    unittest.main()
