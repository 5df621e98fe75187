"""Environments by id, module or class: what is built, how it is described, what is refused."""

import os
import pickle
import subprocess
import sys
import tempfile
import unittest
import warnings
from pathlib import Path

import gymnasium
import numpy as np
from gymnasium import spaces

from ddp_ppo.envs.build import EnvError, describe_env, make_batch_env
from ddp_ppo.protocols import EnvSpec, Step
from tests.support.script_env import ScriptEnv


class FixedSpec:
    """Offers a description that nobody can change."""

    num_envs = 1
    reset = step = save = restore = reward_terms = close = print

    @property
    def spec(self):
        return EnvSpec("own", 1, "discrete", 2, backend="own")

    def __init__(self, num_envs):
        pass


class OwnBatchEnv:
    """A vectorised environment of a user's own."""

    def __init__(self, num_envs, size=1, wrong=None, state=None):
        self.num_envs = num_envs + (wrong == "num_envs")
        self.spec = "my spec" if wrong == "spec" else EnvSpec("own", size, "discrete", 2, backend="own")
        if wrong == "method":
            self.step = None
        self.obs = np.zeros((num_envs, size), np.float32)
        self.state = state

    def reset(self, seeds):
        return self.obs

    def step(self, action):
        flags = np.zeros(self.num_envs, np.bool_)
        return Step(self.obs, np.ones(self.num_envs), flags, flags, self.obs)

    def save(self):
        return self.state and {"x": [np.array(self.state)]}

    def restore(self, state):
        return self.obs

    def reward_terms(self):
        return {}

    def close(self):
        pass


class DescriptionTest(unittest.TestCase):
    def test_a_spec_holds_plain_values_that_survive_pickling(self):
        spec = describe_env("Pendulum-v1", max_episode_steps=50)
        self.assertEqual(spec, EnvSpec("Pendulum-v1", 3, "box", 1, (-2.0,), (2.0,), max_episode_steps=50))
        self.assertEqual(pickle.loads(pickle.dumps(spec)), spec)

    def test_time_limits_come_from_the_registration_or_a_wrapper_and_may_be_absent(self):
        for env_id, limit in {
            "CartPole-v1": 500,
            "envs/Script-v0": None,
            "envs/OuterLimit-v0": 20,
            "envs/InnerLimit-v0": 20,
        }.items():
            self.assertEqual(describe_env(env_id).max_episode_steps, limit, env_id)

    def test_discrete_observations_and_unbounded_actions_are_described(self):
        self.assertEqual(describe_env("FrozenLake-v1").obs_size, 16)
        box = spaces.Box(-np.inf, np.inf, (2, 3), np.float32)
        spec = describe_env("envs/Script-v0", env_kwargs={"action_space": box})
        self.assertEqual((spec.action_size, spec.action_low[0], spec.action_high[5]), (6, -np.inf, np.inf))

    def test_warnings_are_shown_by_describe_env_and_not_again_by_each_actor(self):
        def build():
            warnings.warn("old assets", stacklevel=1)
            return ScriptEnv()

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            gymnasium.register("envs/Warning-v0", build)
            make_batch_env("envs/Warning-v0", 2)
            self.assertEqual(caught, [])
            describe_env("envs/Warning-v0")
            self.assertIn("old assets", str(caught[-1].message))


class ErrorTest(unittest.TestCase):
    def assert_refused(self, *words, env_id="envs/Script-v0", num_envs=1, **arguments):
        with self.assertRaises(EnvError) as caught:
            make_batch_env(env_id, num_envs, **arguments)
        message = str(caught.exception)
        self.assertNotIn("\n", message)
        for word in words:
            self.assertIn(word, message)
        return caught.exception

    def test_an_unknown_id_names_the_nearest_registered_one(self):
        self.assert_refused("HalfCheeta-v5", "'HalfCheetah-v5'", env_id="HalfCheeta-v5")
        self.assert_refused("'CartPole-v1'", env_id="CartPole")

    def test_a_wrong_argument_shows_the_constructors_complaint(self):
        error = self.assert_refused("CartPole-v1", "gravty", env_id="CartPole-v1", env_kwargs={"gravty": 1})
        self.assertIsInstance(error.__cause__, TypeError)
        self.assert_refused("gravty", env_id="HalfCheetah-v5", env_kwargs={"gravty": 1})

    def test_an_environment_that_raises_when_built_is_quoted(self):
        self.assert_refused("envs/Broken-v0", "RuntimeError: no licence", env_id="envs/Broken-v0")

    def test_unsupported_observation_spaces_are_named(self):
        box, number = spaces.Box(0, 1, (2,)), spaces.Discrete(3)
        for space in (
            spaces.Dict(a=box),
            spaces.Tuple((number, number)),
            spaces.MultiDiscrete([2, 3]),
            spaces.MultiBinary(4),
            spaces.Graph(box, None),
            spaces.Sequence(number),
            spaces.Text(5),
        ):
            with self.subTest(space):
                self.assert_refused(type(space).__name__, "observation", env_kwargs={"observation_space": space})

    def test_unsupported_action_spaces_are_named(self):
        integers = spaces.Box(0, 5, (2,), np.int32)
        for space in (spaces.MultiDiscrete([2, 3]), spaces.MultiBinary(2), spaces.Dict(a=integers), integers):
            with self.subTest(space):
                self.assert_refused(type(space).__name__, "action", env_kwargs={"action_space": space})

    def test_ids_with_modules_are_checked_part_by_part(self):
        self.assert_refused("a name is missing after the colon", env_id="my_envs:")
        self.assert_refused("no_such_module", env_id="no_such_module:Tiny-v0")
        self.assert_refused("'Tiny-v0'", "registered", env_id="json:Tiny-v0")

    def test_backends_and_counts_are_checked(self):
        self.assert_refused("'warp'", "auto, gymnasium, mujoco", env_id="CartPole-v1", backend="warp")
        self.assert_refused("mujoco", env_id="CartPole-v1", backend="mujoco")
        self.assert_refused("positive", num_envs=0)
        self.assert_refused("positive", max_episode_steps=0)

    def test_a_limit_that_wrappers_of_the_environment_would_undercut_is_refused(self):
        self.assert_refused("TimeLimit", "700", env_id="envs/InnerLimit-v0", max_episode_steps=700)
        self.assertEqual(describe_env("envs/InnerLimit-v0", max_episode_steps=10).max_episode_steps, 10)
        self.assertEqual(describe_env("envs/OuterLimit-v0", max_episode_steps=700).max_episode_steps, 700)


class ModuleTest(unittest.TestCase):
    def run_in_folder(self, code, files):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                Path(folder, name).write_text(text)
            (Path(folder) / "use.py").write_text(code)
            environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
            command = [sys.executable, "-P", "use.py"]  # -P: the folder is not on sys.path by itself
            result = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout.split()

    def test_a_module_of_the_current_directory_registers_its_environment_quietly_and_without_torch(self):
        module = (
            "import gymnasium\n"
            "for _ in range(2): gymnasium.register('Tiny-v0', 'gymnasium.envs.classic_control:CartPoleEnv')\n"
        )
        code = (
            "import sys\nfrom ddp_ppo.envs.build import make_batch_env\n"
            "print(make_batch_env('my_envs:Tiny-v0', 3).reset(range(3)).shape, 'torch' in sys.modules)\n"
            "print('mujoco' in sys.modules)"
        )
        self.assertEqual(self.run_in_folder(code, {"my_envs.py": module}), ["(3,", "4)", "False", "False"])

    def test_a_class_of_ones_own_is_built_with_the_number_of_environments(self):
        own = f"{__name__}:OwnBatchEnv"
        for arguments in ({"env_id": own}, {"env_id": "robot", "backend": own}):
            env = make_batch_env(num_envs=3, env_kwargs={"size": 2}, **arguments)
            self.assertEqual(env.reset([1, 2, 3]).shape, (3, 2))
            self.assertEqual(env.spec.env_id, arguments["env_id"])  # not what it calls itself: a subclass keeps that
        self.assertEqual(describe_env(own).backend, "own")

    def test_a_class_whose_description_says_another_id_and_cannot_be_set_is_refused(self):
        with self.assertRaisesRegex(EnvError, "attribute spec says env_id 'own' and cannot be set"):
            make_batch_env(f"{__name__}:FixedSpec", 1)

    def test_a_class_that_is_no_batch_environment_is_refused(self):
        own = f"{__name__}:OwnBatchEnv"
        for wrong, word in {"method": "step", "spec": "EnvSpec", "num_envs": "num_envs must be 2"}.items():
            with self.assertRaisesRegex(EnvError, word):
                make_batch_env(own, 2, env_kwargs={"wrong": wrong})
        with self.assertRaisesRegex(EnvError, "siez"):
            make_batch_env(own, 2, env_kwargs={"siez": 1})
        with self.assertRaisesRegex(EnvError, "save, restore, reward_terms"):
            make_batch_env("tests.support.script_env:CheckpointedEnv", 2, env_kwargs={})
        with self.assertRaisesRegex(EnvError, "no class 'Missing'"):
            make_batch_env("robot", 2, backend=f"{__name__}:Missing")

    def test_a_time_limit_for_a_vectorised_class_is_refused_with_what_to_write(self):  # N-14
        with self.assertRaisesRegex(EnvError, r"as in env_kwargs=\{max_episode_steps: 5\}"):
            make_batch_env(f"{__name__}:OwnBatchEnv", 2, max_episode_steps=5)


if __name__ == "__main__":
    unittest.main()
