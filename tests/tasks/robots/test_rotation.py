"""Vectors in a body's frame, against MuJoCo's own rotations and by hand."""

import unittest

import mujoco
import numpy as np

from ddp_ppo.tasks.robots.rotation import gravity, heading, to_body, yaw_quaternion


def random_quaternions(count):
    """Unit quaternions [count, 4]."""
    quat = np.random.default_rng(0).standard_normal((count, 4))
    return quat / np.linalg.norm(quat, axis=1, keepdims=True)


class RotationTest(unittest.TestCase):
    def test_vectors_turn_as_mujoco_turns_them(self):
        quat, vector = random_quaternions(20), np.random.default_rng(1).standard_normal((20, 3))
        for q, v, mine in zip(quat, vector, to_body(quat, vector), strict=True):
            matrix = np.zeros(9)
            mujoco.mju_quat2Mat(matrix, q)
            np.testing.assert_allclose(mine, matrix.reshape(3, 3).T @ v, atol=1e-12)

    def test_gravity_is_the_world_s_down_seen_from_the_body(self):
        quat = random_quaternions(20)
        down = np.tile([0.0, 0.0, -1.0], (20, 1))
        np.testing.assert_allclose(gravity(quat), to_body(quat, down), atol=1e-12)

    def test_a_body_that_pitches_down_feels_gravity_forwards(self):
        half = np.deg2rad(30.0) / 2.0
        seen = gravity(np.array([[np.cos(half), 0.0, np.sin(half), 0.0]]))
        np.testing.assert_allclose(seen, [[0.5, 0.0, -np.sqrt(0.75)]], atol=1e-12)

    def test_the_heading_is_the_yaw_angle(self):
        yaw = np.array([-2.0, 0.0, 0.5, 3.0])
        cos, sin = heading(yaw_quaternion(yaw))
        np.testing.assert_allclose(np.arctan2(sin, cos), yaw, atol=1e-12)

    def test_a_body_on_its_nose_has_a_finite_heading(self):
        half = np.pi / 4.0
        cos, sin = heading(np.array([[np.cos(half), 0.0, np.sin(half), 0.0]]))
        self.assertTrue(np.isfinite([cos, sin]).all())


if __name__ == "__main__":
    unittest.main()
