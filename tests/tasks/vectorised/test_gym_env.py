"""A vectorised task as a Gymnasium environment: the same numbers, the checker's approval, states, pictures."""

import unittest

import gymnasium
import numpy as np
from gymnasium.utils.env_checker import check_env

from ddp_ppo.envs.build import make_batch_env
from ddp_ppo.tasks.vectorised.gym_env import TaskEnv
from tests.support.cart_task import CartTask

gymnasium.register("CartTask-v0", TaskEnv, kwargs={"task": CartTask}, order_enforce=False)


class TaskEnvTest(unittest.TestCase):
    def test_gymnasium_finds_nothing_to_complain_about(self):
        check_env(TaskEnv(CartTask), skip_render_check=True)

    def test_it_is_the_vectorised_task_to_the_last_bit_over_episodes(self):
        act = np.random.default_rng(0).uniform(-1.0, 1.0, (150, 3, 1)).astype(np.float32)
        batch, env = CartTask(3), TaskEnv(CartTask)
        np.testing.assert_array_equal(env.reset(seed=8)[0], batch.reset([7, 8, 9])[1])
        ends = 0
        for row in act:
            result = batch.step(row)
            obs, reward, terminated, truncated, infos = env.step(row[1])
            self.assertEqual((reward, terminated, truncated), tuple(float(part[1]) for part in result[1:4]))
            self.assertEqual(infos["reward_near"], batch.reward_terms()["near"][1])
            if terminated or truncated:
                ends += 1
                np.testing.assert_array_equal(obs, result.final_obs[1])
                obs, _ = env.reset()
            np.testing.assert_array_equal(obs, result.obs[1])
        self.assertGreater(ends, 1)

    def test_a_reset_in_mid_episode_starts_another_one(self):
        env = TaskEnv(CartTask, noise=0.0)
        first, _ = env.reset(seed=3)
        env.step(np.ones(1))
        second, _ = env.reset()
        self.assertEqual(second[-1], 0.0)  # ticks
        self.assertNotEqual(first[1], second[1])
        np.testing.assert_array_equal(env.reset(seed=3)[0], first)

    def test_the_reason_of_an_end_is_in_the_infos(self):
        env = TaskEnv(CartTask)
        env.reset(seed=1)
        env.task.sim.qpos[0, 1] = 0.7
        *_, infos = env.step(np.zeros(1))
        self.assertEqual(infos["end"], "fell")

    def test_a_state_goes_on_to_the_last_bit_between_episodes_too(self):
        env, other = TaskEnv(CartTask), TaskEnv(CartTask)
        env.reset(seed=1)
        env.task.sim.qpos[0, 1] = 0.7
        env.step(np.zeros(1))
        other.set_state(env.get_state())
        np.testing.assert_array_equal(other.reset()[0], env.reset()[0])
        np.testing.assert_array_equal(other.step(np.ones(1))[0], env.step(np.ones(1))[0])

    def test_it_trains_like_any_other_environment(self):
        env = make_batch_env("tests.tasks.vectorised.test_gym_env:CartTask-v0", 2)
        env.reset([1, 2])
        result = env.step(np.zeros((2, 1), np.float32))
        self.assertEqual(result.obs.shape, (2, 9))
        self.assertIn("reward_near", env.reward_terms())
        self.assertIsNotNone(env.save())

    def test_progress_reaches_the_task(self):
        env = TaskEnv(CartTask)
        env.set_progress(0.5)
        self.assertEqual(env.task.progress, 0.5)

    def test_without_a_render_mode_there_is_no_picture(self):
        env = TaskEnv(CartTask)
        env.reset(seed=1)
        self.assertIsNone(env.render())


if __name__ == "__main__":
    unittest.main()
