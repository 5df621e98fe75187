"""The MuJoCo backend against Gymnasium's own classes, its saved states, and the settings of the MuJoCo library."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import gymnasium
import mujoco
import numpy as np

from ddp_ppo.envs.build import EnvError, describe_env, make_batch_env
from ddp_ppo.envs.mujoco.env import MujocoEnv
from ddp_ppo.envs.mujoco.profiler_clock import remove_profiler_clock
from ddp_ppo.envs.mujoco.tasks import covers
from tests.support.mujoco_tasks import TASKS, UNNAMED, VARIANTS, random_actions
from tests.support.process import PROGRAMS, ROOT

ONLY_V5 = "only Gymnasium's MuJoCo tasks of version 5 run as arrays"


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

    def test_the_terms_add_up_to_the_reward(self):
        for task in TASKS:
            if task in UNNAMED:
                continue
            env = make_batch_env(task, 2)
            env.reset([0, 1])
            step = env.step(random_actions(env.spec, 2, np.random.default_rng(0)))
            np.testing.assert_allclose(sum(env.reward_terms().values()), step.reward, rtol=1e-6, err_msg=task)


class CoverageTest(unittest.TestCase):
    def test_auto_takes_the_mujoco_backend_for_every_task(self):
        for task in TASKS:
            self.assertIsNone(covers(task, {}))
            self.assertEqual(describe_env(task).backend, "mujoco")

    def test_both_backends_describe_a_task_alike(self):
        one, other = (vars(describe_env("Ant-v5", backend=backend)) for backend in ("mujoco", "gymnasium"))
        self.assertEqual({**one, "backend": ""}, {**other, "backend": ""})

    def test_what_concerns_rendering_runs_on_gymnasium(self):
        for argument in ({"render_mode": "rgb_array"}, {"width": 64}, {"default_camera_config": None}):
            name = next(iter(argument))
            self.assertIn(repr(name), covers("Hopper-v5", argument))
            with self.assertRaisesRegex(EnvError, name):
                make_batch_env("Hopper-v5", 1, env_kwargs=argument, backend="mujoco")
        self.assertEqual(describe_env("Hopper-v5", env_kwargs={"width": 64}).backend, "gymnasium")

    def test_every_v5_task_of_gymnasium_is_covered_and_no_other(self):
        for env_id, registered in gymnasium.registry.items():
            is_mujoco = str(registered.entry_point).startswith("gymnasium.envs.mujoco.")
            if is_mujoco and registered.namespace is None:
                with self.subTest(env_id):
                    self.assertEqual(covers(env_id, {}), None if registered.version == 5 else ONLY_V5)

    def test_other_environments_run_on_gymnasium(self):
        for env_id in ("CartPole-v1", "HalfCheetah-v4"):
            self.assertEqual(covers(env_id, {}), ONLY_V5)
            self.assertEqual(describe_env(env_id).backend, "gymnasium")
        with self.assertRaisesRegex(EnvError, f"HalfCheetah-v4: backend mujoco does not cover it: {ONLY_V5}"):
            make_batch_env("HalfCheetah-v4", 1, backend="mujoco")

    def test_what_gymnasium_refuses_to_build_is_refused_in_its_words(self):
        with self.assertRaisesRegex(EnvError, "Pusher-v4.*mujoco<3"):
            make_batch_env("Pusher-v4", 1)

    def test_a_registration_of_ones_own_counts_by_its_class_and_its_arguments(self):
        entry_point = "gymnasium.envs.mujoco.hopper_v5:HopperEnv"
        gymnasium.register("tasks/Hop-v0", entry_point, max_episode_steps=50, kwargs={"healthy_reward": 5.0})
        env = make_batch_env("tasks/Hop-v0", 1)
        self.assertEqual((env.spec.backend, env.spec.max_episode_steps), ("mujoco", 50))
        env.reset([0])
        env.step(np.zeros((1, 3), np.float32))
        self.assertEqual(env.reward_terms()["reward_survive"], [5.0])
        wrapper = gymnasium.wrappers.ClipReward.wrapper_spec(min_reward=0, max_reward=1)
        gymnasium.register("tasks/Hop-v1", entry_point, additional_wrappers=(wrapper,))
        self.assertIn("wrappers", covers("tasks/Hop-v1", {}))
        self.assertEqual(describe_env("tasks/Hop-v1").backend, "gymnasium")

    def test_wrong_arguments_show_the_complaint_of_gymnasiums_class(self):
        for argument, word in (({"gravty": 1}, "gravty"), ({"xml_file": "missing.xml"}, "missing.xml")):
            with self.assertRaisesRegex(EnvError, f"Hopper-v5.*{word}"):
                make_batch_env("Hopper-v5", 1, env_kwargs=argument)


class LookTest(unittest.TestCase):
    def test_a_simulation_is_shown_as_gymnasium_s_class_after_the_same_reset(self):
        env = make_batch_env("Hopper-v5", 3, env_kwargs={"reset_noise_scale": 0.3})
        obs = env.reset([7, 8, 9])
        qpos, qvel = (getattr(env.gymnasium_env(1).unwrapped.data, name) for name in ("qpos", "qvel"))
        np.testing.assert_array_equal(obs[1], np.float32([*qpos[1:], *np.clip(qvel, -10, 10)]))


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


class LibraryTest(unittest.TestCase):
    def run_child(self, name, *words, cwd=None):
        command, environ = [sys.executable, PROGRAMS / f"{name}.py", *words], {**os.environ, "PYTHONPATH": str(ROOT)}
        result = subprocess.run(command, cwd=cwd, env=environ, capture_output=True, text=True, timeout=60)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result

    def test_trajectories_are_the_same_with_and_without_the_profiler_clock(self):
        digest, has_clock = self.run_child("mujoco_digest", "remove").stdout.split()
        self.assertEqual(has_clock, "False")
        self.assertEqual(self.run_child("mujoco_digest").stdout.split()[0], digest)

    @unittest.skipUnless(sys.platform == "linux", "the library is known to be found on Linux")
    def test_mujoco_s_own_call_does_not_remove_the_clock(self):
        found = self.run_child("clock_after_import").stdout
        self.assertEqual(found, "True\n", "MuJoCo removes it now: profiler_clock.py can go")

    @unittest.skipUnless(sys.platform == "linux", "the library is known to be found on Linux")
    def test_the_clock_is_removed_where_the_library_is_known(self):
        self.assertTrue(remove_profiler_clock())
        self.assertTrue(remove_profiler_clock())

    def test_the_clock_stays_where_the_library_is_not_found(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(mujoco, "__file__", f"{folder}/__init__.py"):
            with self.assertLogs("ddp_ppo.envs.mujoco.profiler_clock", "DEBUG") as logs:
                self.assertFalse(remove_profiler_clock())
            self.assertEqual(len(logs.output), 1)
            Path(folder, "libmujoco.so.9").write_bytes(b"no library")
            self.assertFalse(remove_profiler_clock())

    @unittest.skipUnless(sys.platform == "linux", "the library is known to be found on Linux")
    def test_a_clock_that_someone_else_has_set_stays(self):
        self.assertEqual(self.run_child("foreign_clocks").stdout.split(), ["False", "True"] * 3)

    def test_an_unstable_simulation_is_logged_with_a_count_and_leaves_no_file(self):
        with tempfile.TemporaryDirectory() as folder:
            lines = self.run_child("unstable_simulation", cwd=folder).stderr.splitlines()
            self.assertEqual(os.listdir(folder), [])
        self.assertEqual(len(lines), 4, lines)  # 1st, 2nd, 4th and 8th; nothing about Gymnasium's model files
        self.assertIn("no. 8", lines[-1])
        self.assertIn("unstable", lines[-1])


if __name__ == "__main__":
    unittest.main()
