"""The MuJoCo backend as a batch: independence, saved states, errors of the engine."""

import tempfile
import unittest
from pathlib import Path

import gymnasium
import numpy as np

from ddp_ppo.envs.build import EnvError, make_batch_env
from ddp_ppo.envs.mujoco.env import MujocoEnv
from tests.support.mujoco_tasks import TASKS, needs_batch, random_actions


@needs_batch
class BatchTest(unittest.TestCase):
    def test_environments_do_not_depend_on_their_number(self):
        many, one = make_batch_env("Walker2d-v5", 5), make_batch_env("Walker2d-v5", 1)
        many.reset(range(5))
        one.reset([4])
        rng = np.random.default_rng(0)
        for _ in range(100):
            action = random_actions(many.spec, 5, rng)
            np.testing.assert_array_equal(many.step(action).obs[4:], one.step(action[4:]).obs)

    def test_float64_actions_count_as_float32(self):
        env, other = (make_batch_env("Hopper-v5", 2) for _ in range(2))
        action = np.random.default_rng(0).uniform(-1, 1, (2, 3))
        for one, same in ((env, action), (other, action.astype(np.float32))):
            one.reset([0, 1])
            one.step(same)
        np.testing.assert_array_equal(env._result.reward, other._result.reward)
        np.testing.assert_array_equal(env._result.obs, other._result.obs)

    def test_a_simulation_is_shown_as_gymnasium_s_class_after_the_same_reset(self):
        env = make_batch_env("Hopper-v5", 3, env_kwargs={"reset_noise_scale": 0.3})
        obs = env.reset([7, 8, 9])
        qpos, qvel = (getattr(env.gymnasium_env(1).unwrapped.data, name) for name in ("qpos", "qvel"))
        np.testing.assert_array_equal(obs[1], np.float32([*qpos[1:], *np.clip(qvel, -10, 10)]))


@needs_batch
class FailureTest(unittest.TestCase):
    def test_an_error_of_the_engine_names_environment_and_step(self):
        assets = Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets"
        text = (assets / "ant.xml").read_text().replace("<worldbody>", '<size memory="10K"/><worldbody>')
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "small.xml")
            path.write_text(text)  # too little memory for the contacts that come when the ant lands
            env = make_batch_env("Ant-v5", 2, env_kwargs={"xml_file": str(path)})
        env.reset([0, 1])
        with self.assertRaisesRegex(EnvError, "Ant-v5: failed in step .*environment 0.*out of memory"):
            for _ in range(100):
                env.step(np.zeros((2, 8), np.float32))


@needs_batch
class StateTest(unittest.TestCase):
    def test_every_task_continues_exactly_in_a_new_object(self):
        for task in TASKS:
            with self.subTest(task):
                original, restored = (make_batch_env(task, 2, max_episode_steps=60) for _ in range(2))
                self.assertIsInstance(original, MujocoEnv)
                rng = np.random.default_rng(3)
                original.reset([5, 6])
                for _ in range(97):  # in the second episode or later
                    original.step(random_actions(original.spec, 2, rng))
                last_obs = original._result.obs.copy()
                np.testing.assert_array_equal(restored.restore(original.save()), last_obs)
                num_ends = 0
                for _ in range(210):
                    action = random_actions(original.spec, 2, rng)
                    one, other = original.step(action), restored.step(action)
                    for field in ("obs", "reward", "terminated", "truncated"):
                        np.testing.assert_array_equal(getattr(one, field), getattr(other, field), field)
                    ended = one.terminated | one.truncated
                    np.testing.assert_array_equal(one.final_obs[ended], other.final_obs[ended])
                    num_ends += ended.sum()
                self.assertGreater(num_ends, 5)

    def test_a_restored_environment_forgets_what_it_did_before(self):
        env = make_batch_env("Humanoid-v5", 2)
        env.reset([5, 6])
        rng = np.random.default_rng(3)
        actions = [random_actions(env.spec, 2, rng) for _ in range(90)]
        for action in actions[:30]:
            env.step(action)
        state = env.save()
        runs = []
        for _ in range(2):
            env.restore(state)
            runs.append([(step.obs.copy(), step.reward.copy()) for step in map(env.step, actions[30:])])
        for (obs, reward), (obs_again, reward_again) in zip(*runs, strict=True):
            np.testing.assert_array_equal(obs, obs_again)
            np.testing.assert_array_equal(reward, reward_again)

    def test_saved_states_are_arrays_and_plain_values(self):
        def check(value):
            if isinstance(value, dict | list):
                for item in value.values() if isinstance(value, dict) else value:
                    check(item)
            else:
                self.assertIsInstance(value, int | str | np.ndarray | None)

        for task in ("HalfCheetah-v5", "Humanoid-v5", "Reacher-v5"):
            env = make_batch_env(task, 2)
            env.reset([0, 1])
            check(env.save())

    def test_a_state_of_another_task_or_number_is_refused(self):
        env = make_batch_env("Hopper-v5", 2)
        env.reset([0, 1])
        for env_id, num_envs in (("Hopper-v5", 3), ("Walker2d-v5", 2)):
            with self.assertRaisesRegex(EnvError, "does not fit"):
                make_batch_env(env_id, num_envs).restore(env.save())


if __name__ == "__main__":
    unittest.main()
