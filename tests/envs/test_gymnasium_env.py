"""Episodes of Gymnasium's environments as arrays: ends, seeds, limits, errors, named parts of the reward."""

import unittest

import numpy as np

from ddp_ppo.envs.build import EnvError, make_batch_env
from tests.support.script_env import discrete, inner, script

BROUGHT = "tests.support.brought"


class EpisodeTest(unittest.TestCase):
    def test_an_episode_ends_and_the_next_begins_in_the_same_step(self):
        env = script(2, ends=lambda env: (env.num_steps == 3, False))
        np.testing.assert_array_equal(env.reset([0, 1]), [[10], [10]])
        rewards = 0.0
        for number in range(1, 9):
            step = env.step(discrete(0, 0))
            rewards += step.reward.sum()
            is_end = number % 3 == 0
            episode = 1 + number // 3
            self.assertEqual(step.terminated.tolist(), [is_end, is_end])
            np.testing.assert_array_equal(step.obs, np.full((2, 1), number % 3 + 10 * episode))
            if is_end:
                np.testing.assert_array_equal(step.final_obs, np.full((2, 1), 3 + 10 * (episode - 1)))
        self.assertEqual(rewards, 16.0)  # no step without a real reward
        self.assertEqual([inner(env, i).total_steps for i in range(2)], [8, 8])

    def test_both_flags_may_be_set_at_once(self):
        env = script(ends=lambda env: (env.num_steps == 2, env.num_steps == 2))
        env.reset([0])
        self.assertEqual(env.step(discrete(0))[2:4], ([False], [False]))
        self.assertEqual(env.step(discrete(0))[2:4], ([True], [True]))
        env = script(ends=lambda env: (env.num_steps == 2, False), max_episode_steps=2)
        env.reset([0])
        env.step(discrete(0))
        self.assertEqual(env.step(discrete(0))[2:4], ([True], [True]))

    def test_only_the_first_reset_is_seeded(self):
        env = script(2, ends=lambda env: (env.num_steps == 2, False))
        env.reset([7, 8])
        for _ in range(4):
            env.step(discrete(0, 0))
        self.assertEqual([inner(env, i).seeds for i in range(2)], [[7, None, None], [8, None, None]])

    def test_seeds_make_first_observations_distinct_and_repeatable_and_later_ones_new(self):
        def first_observations():
            env = script(8, obs=lambda env: env.np_random.random(1), ends=lambda env: (True, False))
            return [env.reset(range(8)).copy(), env.step(np.zeros(8, np.int64)).obs.copy()]

        first, again = first_observations(), first_observations()
        np.testing.assert_array_equal(first, again)
        self.assertEqual(len(np.unique(first)), 16)

    def test_the_limit_of_the_configuration_replaces_the_registered_one(self):
        for limit in (200, 700):
            env = make_batch_env("CartPole-v1", 1, max_episode_steps=limit)
            obs = env.reset([3])
            for _ in range(limit):
                self.assertFalse(env._result.truncated[0])
                x, x_dot, theta, theta_dot = obs[0]
                obs, _, terminated, truncated, _ = env.step(discrete(3 * theta + theta_dot + 0.1 * x + 0.3 * x_dot > 0))
                self.assertFalse(terminated[0])
            self.assertTrue(truncated[0], limit)
        for limit, expected in ((None, 500), (700, 700)):
            env = script(env_id="envs/Script500-v0", max_episode_steps=limit)
            env.reset([0])
            ends = [number for number in range(1, 1501) if env.step(discrete(0)).truncated[0]]
            self.assertEqual(ends, list(range(expected, 1501, expected)))

    def test_a_second_reset_starts_over(self):
        env = script(max_episode_steps=5)
        env.reset([0])
        for _ in range(3):
            env.step(discrete(0))
        env.reset([0])
        self.assertEqual([bool(env.step(discrete(0)).truncated[0]) for _ in range(5)], [False] * 4 + [True])

    def test_an_exception_in_step_names_environment_and_step_and_keeps_its_traceback(self):
        env = make_batch_env("envs/Broken-v0", 4, env_kwargs={"fail_at": "step"})
        env.reset(range(4))
        for _ in range(39):
            env.step(discrete(0, 0, 0, 0))
        with self.assertRaisesRegex(EnvError, "environment 2 failed in step 40 .*ValueError: boom-17") as caught:
            env.step(discrete(0, 0, 1, 0))
        self.assertIsInstance(caught.exception.__cause__, ValueError)

    def test_an_exception_in_a_reset_names_environment_and_step(self):
        env = make_batch_env("envs/Broken-v0", 2, env_kwargs={"fail_at": "reset"})
        env.reset(range(2))
        for _ in range(6):
            env.step(discrete(0, 0))
        with self.assertRaisesRegex(EnvError, "environment 0 failed in step 7 .*KeyError: 'no map'"):
            env.step(discrete(0, 0))


class RewardTermTest(unittest.TestCase):
    def test_numbers_named_reward_in_the_infos_are_terms(self):
        env = make_batch_env("HalfCheetah-v5", 2, backend="gymnasium")
        env.reset([0, 1])
        step = env.step(np.full((2, 6), 0.5, np.float32))
        terms = env.reward_terms()
        self.assertEqual(set(terms), {"reward_forward", "reward_ctrl"})
        np.testing.assert_allclose(sum(terms.values()), step.reward, rtol=1e-12)

    def test_odd_keys_and_numbers_that_no_float_holds_are_left_out(self):
        env = self.env(info={0: 1.0, ("a",): 2.0, "reward_big": 10**400, "reward_x": 2})
        env.step(discrete(0))
        self.assertEqual({name: values.tolist() for name, values in env.reward_terms().items()}, {"reward_x": [2.0]})

    def test_an_info_that_is_no_dict_is_refused_with_its_environment(self):
        env = self.env(info=None)
        env.step(discrete(0))
        with self.assertRaisesRegex(EnvError, "^environment 0: the info of a step must be a dict, not NoneType$"):
            env.reward_terms()

    def env(self, info):
        """One environment whose steps give this info."""
        env = script()
        self.addCleanup(env.close)
        own = inner(env)
        step = own.step
        own.step = lambda action: (*step(action)[:4], info)
        env.reset([1])
        return env

    def test_an_environment_without_names_has_no_terms(self):
        env = make_batch_env("CartPole-v1", 2)
        env.reset([0, 1])
        self.assertEqual(env.reward_terms(), {})
        env.step(discrete(0, 1))
        self.assertEqual(env.reward_terms(), {})


class StateTest(unittest.TestCase):
    def test_a_state_of_another_shape_is_refused(self):
        env = make_batch_env("CartPole-v1", 2)
        env.reset([0, 1])
        for other in (make_batch_env("CartPole-v1", 3), make_batch_env("HalfCheetah-v5", 2)):
            with self.assertRaisesRegex(EnvError, "does not fit|cannot be restored"):
                other.restore(env.save())


if __name__ == "__main__":
    unittest.main()
