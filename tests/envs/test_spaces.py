"""What observations, actions and rewards become, seen through an environment that returns what it is told."""

import unittest

import numpy as np
from gymnasium import spaces

from ddp_ppo.envs.build import EnvError, describe_env
from ddp_ppo.envs.spaces import one_line
from tests.support.script_env import discrete, inner, script


class SpaceTest(unittest.TestCase):
    def test_float64_observations_are_cast_once(self):
        env = script(obs=lambda env: np.array([1 / 3]))
        self.assertEqual(env.reset([0]).dtype, np.float32)
        self.assertEqual(env.step(discrete(0)).obs[0, 0], np.float32(1 / 3))

    def test_bytes_do_not_wrap_around(self):
        env = script(
            observation_space=spaces.Box(0, 255, (4,), np.uint8),
            obs=lambda env: np.full(4, 255 * (env.num_steps % 2), np.uint8),
        )
        env.reset([0])
        seen = np.stack([env.step(discrete(0)).obs[0].copy() for _ in range(100)])
        self.assertEqual((seen.mean(), seen.std()), (127.5, 127.5))

    def test_observations_of_any_shape_are_flattened_in_c_order(self):
        grid = np.asfortranarray(np.arange(6.0).reshape(2, 3))
        env = script(observation_space=spaces.Box(0, 9, (2, 3)), obs=lambda env: grid)
        np.testing.assert_array_equal(env.reset([0]), [[0, 1, 2, 3, 4, 5]])

    def test_images_are_described_by_their_shape_and_what_brings_their_limits_to_1(self):  # N-08
        for dtype, low, high, scale in (
            (np.uint8, 0, 255, 1 / 255),
            (np.float32, 0, 255, 1 / 255),
            (np.uint8, 0, 1, 1.0),
            (np.int16, -50, 10, 1 / 50),
            (np.float32, -np.inf, 1, 1.0),
            (np.float32, 0, np.finfo(np.float32).max, 1.0),
        ):
            space = spaces.Box(low, high, (4, 5, 3), dtype)
            spec = describe_env("envs/Script-v0", env_kwargs={"observation_space": space})
            self.assertEqual((spec.image, spec.obs_scale, spec.obs_size), ((4, 5, 3), scale, 60))
        for shape in ((4,), (4, 5), (2, 2, 2, 2)):
            space = spaces.Box(0, 255, shape, np.uint8)
            spec = describe_env("envs/Script-v0", env_kwargs={"observation_space": space})
            self.assertEqual((spec.image, spec.obs_scale), ((), 1.0))

    def test_whole_numbers_of_a_byte_are_kept_as_bytes(self):  # N-29
        for space, dtype in (
            (spaces.Box(0, 255, (4,), np.uint8), "uint8"),
            (spaces.Discrete(3), "uint8"),  # one-hot
            (spaces.Box(0, 255, (4,), np.float32), "float32"),
            (spaces.Box(0, 255, (4,), np.int16), "float32"),
        ):
            spec = describe_env("envs/Script-v0", env_kwargs={"observation_space": space})
            self.assertEqual(spec.obs_dtype, dtype, space)

    def test_what_is_no_byte_although_its_space_says_so_is_refused(self):
        space = spaces.Box(0, 255, (2,), np.uint8)
        for value in (0.5, -1, 256, np.nan):
            env = script(observation_space=space, obs=lambda env, value=value: np.array([1, value]))
            with self.subTest(value=value), self.assertRaisesRegex(EnvError, f"holds {value}.*, its space says uint8"):
                env.reset([1])
        env = script(observation_space=space, obs=lambda env: np.array([1, 255]))
        np.testing.assert_array_equal(env.reset([1]), [[1, 255]])

    def test_discrete_observations_are_one_hot_from_their_start(self):
        env = script(observation_space=spaces.Discrete(3, start=5), obs=lambda env: np.int64(5 + env.num_steps))
        np.testing.assert_array_equal(env.reset([0]), [[1, 0, 0]])
        np.testing.assert_array_equal(env.step(discrete(0)).obs, [[0, 1, 0]])
        env.step(discrete(0))
        with self.assertRaisesRegex(EnvError, "observation 8"):
            env.step(discrete(0))

    def test_an_observation_of_another_shape_is_not_broadcast(self):
        env = script(2, observation_space=spaces.Box(0, 9, (4,)), obs=lambda env: np.zeros(1 + 3 * (env.num_steps < 3)))
        env.reset([0, 1])
        env.step(discrete(0, 0))
        env.step(discrete(0, 0))
        with self.assertRaisesRegex(EnvError, r"environment 0 failed in step 3 .*observation has shape \(1,\)"):
            env.step(discrete(0, 0))

    def test_an_environment_may_reuse_its_buffer(self):
        buffer = np.zeros(1)

        def obs(env):
            buffer[0] = env.num_steps
            return buffer

        env = script(2, obs=obs, ends=lambda env: (env.num_steps == 2, False))
        env.reset([0, 1])
        env.step(discrete(0, 0))
        step = env.step(discrete(0, 0))
        np.testing.assert_array_equal(step.final_obs, [[2], [2]])
        np.testing.assert_array_equal(step.obs, [[0], [0]])

    def test_box_actions_get_the_shape_and_type_of_their_space(self):
        env = script(2, action_space=spaces.Box(-1, 1, (2, 2), np.float32))
        env.reset([0, 1])
        actions = np.arange(8, dtype=np.float32).reshape(2, 4) / 10
        env.step(actions)
        actions[:] = 0  # the environment kept what it was given
        np.testing.assert_array_equal(inner(env, 1).actions[0], np.float32([[0.4, 0.5], [0.6, 0.7]]))
        self.assertEqual(inner(env, 1).actions[0].dtype, np.float32)

    def test_float64_action_spaces_get_values_within_their_bounds(self):
        env = script(action_space=spaces.Box(-0.1, 0.1, (1,), np.float64))
        env.reset([0])
        env.step(np.float32([[0.1]]))  # as float64 this is above 0.1
        self.assertTrue(inner(env).action_space.contains(inner(env).actions[0]))

    def test_discrete_actions_start_where_their_space_starts(self):
        env = script(3, action_space=spaces.Discrete(3, start=-1))
        self.assertEqual((env.spec.action_size, env.spec.action_start), (3, -1))
        env.reset(range(3))
        env.step(discrete(0, 1, 2))
        self.assertEqual([int(inner(env, i).actions[0]) for i in range(3)], [-1, 0, 1])
        self.assertTrue(all(inner(env, i).action_space.contains(inner(env, i).actions[0]) for i in range(3)))

    def test_rewards_may_be_any_single_number(self):
        for value in (np.array([1.0]), np.array(1.0), 1, np.float32(1), np.int8(1), True, np.True_):
            with self.subTest(type(value)):
                env = script(reward=lambda env, action, value=value: value)
                env.reset([0])
                reward = env.step(discrete(0)).reward
                self.assertEqual((reward.shape, reward.dtype, reward[0]), ((1,), np.float64, 1.0))

    def test_what_is_no_single_number_is_refused_as_reward(self):
        for value in (None, "1.0", np.ones(2), np.ones((1, 1)), [], 1j):
            with self.subTest(value=value):
                env = script(2, reward=lambda env, action, value=value: value if action else 0)
                env.reset([0, 1])
                env.step(discrete(0, 0))
                with self.assertRaisesRegex(EnvError, "environment 1 failed in step 2 .*reward"):
                    env.step(discrete(0, 1))

    def test_a_space_in_words_is_one_short_line(self):
        self.assertEqual(one_line(spaces.Discrete(3)), "Discrete(3)")
        text = one_line(spaces.Box(np.arange(90.0).reshape(9, 10), np.inf, dtype=np.float64))
        self.assertEqual((len(text), text[-3:], text.count("\n")), (100, "...", 0))


if __name__ == "__main__":
    unittest.main()
