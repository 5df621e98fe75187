"""The quadruped: what it measures, its ends, its mirror image in physics, variations, terrain, and its options."""

import tempfile
import unittest
from pathlib import Path

import gymnasium
import numpy as np
from gymnasium.utils.env_checker import check_env

from ddp_ppo.envs.build import make_batch_env
from ddp_ppo.errors import EnvError
from ddp_ppo.tasks.robots.quadruped import GYMNASIUM_ID, Quadruped
from tests.support.go1 import MISSING, go1_path

ENV_ID = "ddp_ppo.tasks.robots.quadruped:Quadruped"
DRIVE = {"stiffness": 35.0, "damping": 0.8, "torque_limits": [23.7, 23.7, 35.55], "armature": [0.004, 0.004, 0.009]}
STILL = ((99.0, 0.0, 0.0, 0.0),)


def stood(num_envs=1, **options):
    """Quadrupeds without randomisation, after one second of standing."""
    task = Quadruped(num_envs, has_randomisation=False, **{"commands": STILL, **options})
    task.reset(range(num_envs))
    for _ in range(50):
        task.step(np.zeros((num_envs, 12), np.float32))
    return task


class QuadrupedTest(unittest.TestCase):
    def test_it_is_an_environment_of_50_hz_and_20_seconds(self):
        env = make_batch_env(ENV_ID, 2)
        self.assertEqual((env.spec.env_id, env.spec.action_size, env.spec.max_episode_steps), (ENV_ID, 12, 1000))
        self.assertAlmostEqual(env.step_seconds, 0.02)
        self.assertEqual(env.spec.layout.view(["angular_velocity", "gravity", "command", "last_action"])[0], (0, 9))

    def test_it_stands_still_with_zero_actions(self):
        task = stood(4)
        self.assertFalse(task.has_fallen.any())
        self.assertTrue(task.contact.all())
        self.assertLess(np.abs(task.velocity).max(), 0.2)
        np.testing.assert_allclose(task.gravity[:, 2], -1.0, atol=0.02)
        np.testing.assert_allclose(task.height, task.robot.height, atol=0.03)
        np.testing.assert_allclose(task.foot_force.sum(axis=1), 12.4 * 9.81, rtol=0.15)

    def test_velocities_are_those_of_the_trunk_in_its_own_frame(self):
        task = stood()
        task.sim.qpos[0, 3:7] = [np.sqrt(0.5), 0.0, 0.0, np.sqrt(0.5)]  # turned by 90 degrees to the left
        task.sim.qvel[0, :6] = [0.0, 0.7, 0.1, 0.2, 0.3, 0.4]
        task.measure()
        np.testing.assert_allclose(task.velocity[0], [0.7, 0.0, 0.1], atol=1e-12)
        self.assertEqual(task.turn_rate[0].tolist(), [0.2, 0.3, 0.4])

    def test_errors_are_distances_from_the_command(self):
        task = stood()
        task.velocity, task.command[:] = np.array([[0.3, 0.0, 0.0]]), [[0.0, 0.4, -0.5]]
        task.turn_rate[0, 2] = 0.25
        errors = task.measures()
        self.assertAlmostEqual(errors["error_velocity"][0], 0.5)
        self.assertAlmostEqual(errors["error_turn"][0], 0.75)

    def test_a_robot_on_its_side_and_one_on_its_belly_have_fallen(self):
        task = stood(3)
        task.sim.qpos[0, 3:7] = [np.cos(0.7), np.sin(0.7), 0.0, 0.0]  # rolled by 80 degrees
        task.sim.qpos[1, 2] = 0.1
        task.measure()
        self.assertEqual(task.has_fallen.tolist(), [True, True, False])

    def test_a_foot_that_lands_reports_its_time_in_the_air(self):
        task = stood()
        task.sim.qpos[0, 2] += 0.1  # falls for sqrt(2 * 0.1 / 9.81) = 0.143 s, about 7 steps
        landings = []
        for _ in range(15):
            task.step(np.zeros((1, 12), np.float32))
            landings.append(task.landing[0].copy())
        first = landings[np.flatnonzero(np.any(landings, axis=1))[0]]
        self.assertAlmostEqual(first.max(), 0.14, delta=0.03)

    def test_the_mirror_image_of_a_robot_moves_like_its_mirror_image(self):
        task = stood(2)
        mirror = task.mirror
        random = np.random.default_rng(0)
        task.sim.qpos[0, 7:] += random.uniform(-0.2, 0.2, 12)
        task.sim.qvel[0] = random.uniform(-0.3, 0.3, 18)
        task.sim.qpos[:, :7] = [0.0, 0.0, 0.32, 1.0, 0.0, 0.0, 0.0]
        joints = task.sim.qpos[0, 7:] - task.robot.home
        task.sim.qpos[1, 7:] = task.robot.home + mirror.action(joints)
        task.sim.qvel[1, 6:] = mirror.action(task.sim.qvel[0, 6:])
        task.sim.qvel[1, :6] = task.sim.qvel[0, :6] * [1, -1, 1, -1, 1, -1]
        for _ in range(4):
            action = random.uniform(-0.3, 0.3, 12).astype(np.float32)
            obs = task.step(np.stack([action, mirror.action(action)])).obs
        np.testing.assert_allclose(mirror.obs(obs[0]), obs[1], atol=0.02)
        self.assertGreater(np.abs(obs[0] - obs[1]).max(), 0.1)

    def test_friction_payload_motors_and_delay_vary_and_a_critic_sees_them(self):
        task = Quadruped(200)
        obs = task.reset(range(200))
        limits = {"friction": (0.4, 1.2), "payload": (-0.624, 1.248), "motor_strength": (0.9, 1.1), "delay": (0, 0.016)}
        for name, (low, high) in limits.items():
            drawn = task.varied[name]
            margin = 0.05 * (high - low)
            self.assertTrue(low <= drawn.min() < low + margin and high - margin < drawn.max() <= high, name)
        (place,) = task.spec.layout.view(["friction"])
        np.testing.assert_array_equal(obs[:, place[0]], task.varied["friction"].astype(np.float32))

    def test_without_randomisation_nothing_varies_and_nothing_is_noisy(self):
        task = stood(2)
        obs = task.step(np.zeros((2, 12), np.float32)).obs
        np.testing.assert_array_equal(obs[:, :3], task.turn_rate.astype(np.float32))
        (place,) = task.spec.layout.view(["friction"])
        self.assertEqual(obs[0, place[0]], np.float32(0.8))
        self.assertEqual(dict(task.varied), {})

    def test_without_privileged_columns_the_row_is_what_a_robot_can_measure(self):
        task, full = Quadruped(2, has_privileged=False), Quadruped(2)
        self.assertEqual(task.spec.obs_size, 45)
        np.testing.assert_array_equal(task.reset([1, 2]), full.reset([1, 2])[:, :45])

    def test_gymnasium_finds_nothing_to_complain_about(self):
        check_env(gymnasium.make(GYMNASIUM_ID).unwrapped, skip_render_check=True)

    def test_rewards_can_be_weighted_by_name(self):
        task = Quadruped(1, reward_weights={"torque": 0.0, "track_turn": 2.0})
        weights = {term.name: term.weight for term in task.design.rewards}
        self.assertEqual((weights["torque"], weights["track_turn"]), (0.0, 2.0))

    def test_unknown_words_are_refused_with_what_there_is(self):
        for options, words in (
            ({"reward_weights": {"speed": 1.0}}, "no term 'speed'; the terms are track_velocity"),
            ({"terrain": "moon"}, "'moon': use flat or rough"),
            ({"drive": {"kp": 3.0}}, "use stiffness, damping, three torque_limits"),
        ):
            with self.subTest(words), self.assertRaisesRegex(EnvError, words):
                Quadruped(1, **options)


class RoughGroundTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.task = Quadruped(60, terrain="rough")
        cls.obs = cls.task.reset(range(60))

    def test_robots_start_above_the_ground_on_tiles_of_all_rows(self):
        self.assertTrue((np.abs(self.task.height - self.task.robot.height) < 0.3).all())
        rows = {round(y / 6.0) for y in self.task.sim.qpos[:, 1]}
        self.assertGreater(len(rows), 5)

    def test_early_in_training_they_start_on_the_first_rows(self):
        task = Quadruped(30, terrain="rough")
        task.set_progress(0.25)
        task.reset(range(30))
        lowest = task.terrain.origins[0, 0, 1]
        self.assertTrue((task.sim.qpos[:, 1] < lowest + 1.5 * 6.0).all())

    def test_robots_that_follow_go_to_rougher_ground_and_others_to_smoother_one(self):
        task = Quadruped(4, terrain="rough")
        task.reset([1, 2, 3, 4])
        rows = len(task.terrain.origins)
        task._level[:], task.elapsed[:] = [2, 2, 0, rows - 1], 100
        task._tracking[:], task.has_fallen = [80.0, 30.0, 90.0, 90.0], np.array([False, False, True, False])
        task.finish(np.arange(4, dtype=np.int32))
        self.assertEqual(task._level[:3].tolist(), [3, 1, 0])
        self.assertLess(task._level[3], rows)
        task.restart(np.array([0], np.int32))
        row = np.argmin(np.abs(task.terrain.origins[:, 0, 1] - task.sim.qpos[0, 1]))
        self.assertEqual(row, 3)

    def test_a_critic_sees_the_ground_around_the_trunk(self):
        ((start, stop),) = self.task.spec.layout.view(["ground"])
        self.assertEqual(stop - start, 18)
        offsets = np.array([[0.6, 0.25]])
        quat = self.task.sim.qpos[:, 3:7]
        yaw = 2.0 * np.arctan2(quat[:, 3], quat[:, 0])
        x = self.task.sim.qpos[:, 0] + 0.6 * np.cos(yaw) - 0.25 * np.sin(yaw)
        y = self.task.sim.qpos[:, 1] + 0.6 * np.sin(yaw) + 0.25 * np.cos(yaw)
        expected = self.task.terrain.height(x, y) - self.task.sim.qpos[:, 2]
        np.testing.assert_allclose(self.task.ground_around(offsets)[:, 0], expected, atol=1e-9)
        np.testing.assert_allclose(self.obs[:, stop - 1], expected, atol=1e-6)

    def test_the_edge_of_the_map_truncates(self):
        task = Quadruped(2, terrain="rough")
        task.reset([1, 2])
        task.sim.qpos[0, :3] = [task.terrain.half_size[0] - 0.5, 0.0, 0.35]
        result = task.step(np.zeros((2, 12), np.float32))
        self.assertEqual((result.truncated[0], result.terminated[0], result.truncated[1]), (True, False, False))


class Go1Test(unittest.TestCase):
    def test_the_go1_stands(self):
        with tempfile.TemporaryDirectory() as folder:
            path = go1_path(Path(folder))
            if path is None:
                self.skipTest(MISSING)
            task = stood(2, robot=str(path), drive=DRIVE)
        self.assertFalse(task.has_fallen.any())
        self.assertTrue(task.contact.all())


if __name__ == "__main__":
    unittest.main()
