"""The tasks against Gymnasium's own classes, with every argument away from its default."""

import unittest

import gymnasium
import numpy as np

from ddp_ppo.envs.build import make_batch_env
from tests.support.mujoco_tasks import TASKS, UNNAMED, VARIANTS, needs_batch, random_actions


@needs_batch
class EqualityTest(unittest.TestCase):
    """Observations and flags must be equal to the last bit; rewards to 1e-12, which allows for other processors."""

    def assert_same(self, got, expected, what):
        np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-14, err_msg=what)

    def assert_equals_gymnasium(self, env_id, num_envs, num_steps, max_episode_steps, **env_kwargs):
        env = make_batch_env(
            env_id, num_envs, env_kwargs=env_kwargs, backend="mujoco", max_episode_steps=max_episode_steps
        )
        references = [
            gymnasium.make(env_id, max_episode_steps=max_episode_steps, **env_kwargs) for _ in range(num_envs)
        ]
        firsts = [reference.reset(seed=20 + i)[0] for i, reference in enumerate(references)]
        np.testing.assert_array_equal(env.reset(range(20, 20 + num_envs)), np.float32(firsts))
        rng = np.random.default_rng(1)
        num_ends = 0
        for number in range(num_steps):
            action = random_actions(env.spec, num_envs, rng)
            step, terms = env.step(action), env.reward_terms()
            for i, reference in enumerate(references):
                obs, reward, terminated, truncated, info = reference.step(action[i])
                where = f"step {number}, environment {i}"
                self.assertEqual((terminated, truncated), (step.terminated[i], step.truncated[i]), where)
                self.assert_same(step.reward[i], reward, where)
                self.assertEqual(set(terms), {name for name in info if name.startswith("reward_")})
                for name, values in terms.items():
                    self.assert_same(values[i], info[name], f"{name}, {where}")
                if terminated or truncated:
                    num_ends += 1
                    np.testing.assert_array_equal(step.final_obs[i], np.float32(obs), where)
                    obs, _ = reference.reset()
                np.testing.assert_array_equal(step.obs[i], np.float32(obs), where)
        self.assertGreater(num_ends, num_envs, "the comparison has to go through several resets")

    def test_every_task_equals_gymnasiums_class(self):
        for task in TASKS:
            with self.subTest(task):
                self.assert_equals_gymnasium(task, num_envs=3, num_steps=350, max_episode_steps=120)

    def test_every_argument_acts_as_in_gymnasiums_class(self):
        for task, env_kwargs in VARIANTS:
            with self.subTest(task, **env_kwargs):
                self.assert_equals_gymnasium(task, 2, num_steps=60, max_episode_steps=25, **env_kwargs)

    def test_the_variants_include_every_argument_of_every_task(self):
        for task in TASKS:
            spec = gymnasium.spec(task)
            own_class = gymnasium.envs.registration.load_env_creator(spec.entry_point)
            known = set(own_class.__init__.__code__.co_varnames[1 : own_class.__init__.__code__.co_argcount])
            tried = set().union(*(env_kwargs for name, env_kwargs in VARIANTS if name == task))
            with self.subTest(task):
                self.assertLessEqual(known - tried, {"default_camera_config", "xml_file"})

    def test_one_environment_alone_equals_gymnasiums_class(self):
        for task in TASKS:
            with self.subTest(task):
                self.assert_equals_gymnasium(task, num_envs=1, num_steps=100, max_episode_steps=30)

    def test_registered_time_limits_hold_without_an_argument(self):
        self.assert_equals_gymnasium("Reacher-v5", num_envs=2, num_steps=160, max_episode_steps=None)

    def test_the_terms_add_up_to_the_reward(self):
        for task in TASKS:
            if task in UNNAMED:
                continue
            env = make_batch_env(task, 2)
            env.reset([0, 1])
            step = env.step(random_actions(env.spec, 2, np.random.default_rng(0)))
            np.testing.assert_allclose(sum(env.reward_terms().values()), step.reward, rtol=1e-6, err_msg=task)


if __name__ == "__main__":
    unittest.main()
