"""Environments as arrays: spaces, episodes, errors, saved states and backends, on real environments."""

import collections
import enum
import os
import pickle
import random
import subprocess
import sys
import tempfile
import unittest
import warnings
from pathlib import Path

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.wrappers import ClipReward, TimeLimit

from ddp_ppo.envs.build import EnvError, describe_env, make_batch_env
from ddp_ppo.envs.state import require_plain
from ddp_ppo.protocols import EnvSpec, Step
from ddp_ppo.runs.files import load_plain, save_plain

STATE_BOX = spaces.Box(-np.inf, np.inf, (1,), np.float32)


class ScriptEnv(gymnasium.Env):
    """Counts its steps; every piece of behaviour can be replaced. Observation: steps of the episode + 10 * episode."""

    def __init__(self, *, observation_space=STATE_BOX, action_space=None, reward=None, obs=None, ends=None):
        self.observation_space = observation_space
        self.action_space = action_space or spaces.Discrete(2)
        self.reward = reward or (lambda env, action: 1.0)
        self.obs = obs or (lambda env: np.array([env.num_steps + 10 * env.num_episodes]))
        self.ends = ends or (lambda env: (False, False))
        self.num_steps = self.num_episodes = self.total_steps = 0
        self.seeds, self.actions = [], []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.seeds.append(seed)
        self.num_steps = 0
        self.num_episodes += 1
        return self.obs(self), {}

    def step(self, action):
        self.actions.append(action)
        self.num_steps += 1
        self.total_steps += 1
        return self.obs(self), self.reward(self, action), *self.ends(self), {}


class BrokenEnv(ScriptEnv):
    def __init__(self, fail_at=None, num=40):
        if fail_at is None:
            raise RuntimeError("no licence")
        super().__init__(ends=lambda env: (env.num_steps == 7, False))
        self.fail_at, self.num = fail_at, num

    def step(self, action):
        if self.fail_at == "step" and action == 1:
            raise ValueError("boom-17")
        return super().step(action)

    def reset(self, *, seed=None, options=None):
        if self.fail_at == "reset" and seed is None:
            raise KeyError("no map")
        return super().reset(seed=seed)


class CheckpointedEnv(ScriptEnv):
    """Offers get_state and set_state; draws from its own generator in every step."""

    def __init__(self, extra=None):
        super().__init__(ends=lambda env: (env.num_steps == 5, False))
        self.obs = lambda env: env.np_random.random(1) + env.num_steps
        self.extra = extra

    def get_state(self):
        return {"num_steps": self.num_steps, "extra": self.extra}

    def set_state(self, state):
        self.num_steps = state["num_steps"]


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


gymnasium.register("envs/Script-v0", ScriptEnv)
gymnasium.register("envs/Script500-v0", ScriptEnv, max_episode_steps=500)
gymnasium.register("envs/InnerLimit-v0", lambda: ClipReward(TimeLimit(ScriptEnv(), 20), 0, 1))
gymnasium.register("envs/OuterLimit-v0", lambda: TimeLimit(ScriptEnv(), 20))
gymnasium.register("envs/Broken-v0", BrokenEnv)
gymnasium.register("envs/Checkpointed-v0", CheckpointedEnv)
gymnasium.register("envs/WrappedCartPole-v0", lambda: ClipReward(gymnasium.make("CartPole-v1"), 0, 1))


def script(num_envs=1, *, env_id="envs/Script-v0", max_episode_steps=None, **env_kwargs):
    return make_batch_env(env_id, num_envs, env_kwargs=env_kwargs, max_episode_steps=max_episode_steps)


def inner(env, index=0):
    return env._envs[index]


def discrete(*actions):
    return np.array(actions, np.int64)


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
            make_batch_env(f"{__name__}:CheckpointedEnv", 2, env_kwargs={})
        with self.assertRaisesRegex(EnvError, "no class 'Missing'"):
            make_batch_env("robot", 2, backend=f"{__name__}:Missing")
        with self.assertRaisesRegex(EnvError, "max_episode_steps"):
            make_batch_env(own, 2, max_episode_steps=5)


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

    def test_images_are_described_by_their_shape_and_what_makes_bytes_small(self):
        for dtype, scale in ((np.uint8, 1 / 255), (np.float32, 1.0)):
            space = spaces.Box(0, 255, (4, 5, 3), dtype)
            spec = describe_env("envs/Script-v0", env_kwargs={"observation_space": space})
            self.assertEqual((spec.image, spec.obs_scale, spec.obs_size), ((4, 5, 3), scale, 60))
        for shape in ((4,), (4, 5), (2, 2, 2, 2)):
            space = spaces.Box(0, 255, shape, np.uint8)
            spec = describe_env("envs/Script-v0", env_kwargs={"observation_space": space})
            self.assertEqual((spec.image, spec.obs_scale), ((), 1.0))

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


class StateTest(unittest.TestCase):
    def assert_continues_exactly(self, env_id, *, num_envs=3, num_steps=220, warm_up=37, **arguments):
        original = make_batch_env(env_id, num_envs, backend="gymnasium", **arguments)
        restored = make_batch_env(env_id, num_envs, backend="gymnasium", **arguments)
        rng = np.random.default_rng(5)
        spec = original.spec

        def action():
            if spec.action_kind == "discrete":
                return rng.integers(0, spec.action_size, num_envs)
            return rng.uniform(spec.action_low, spec.action_high, (num_envs, spec.action_size)).astype(np.float32)

        original.reset(range(num_envs))
        for _ in range(warm_up):
            original.step(action())
        state = original.save()
        np.testing.assert_array_equal(restored.restore(state), original._result.obs)
        num_ends = 0
        for _ in range(num_steps):
            same = action()
            one, other = original.step(same), restored.step(same)
            for field in ("obs", "reward", "terminated", "truncated"):
                np.testing.assert_array_equal(getattr(one, field), getattr(other, field), field)
            ended = one.terminated | one.truncated
            np.testing.assert_array_equal(one.final_obs[ended], other.final_obs[ended])
            num_ends += ended.sum()
        self.assertGreater(num_ends, num_envs, "the comparison has to go through several resets")

    def test_classic_control_continues_exactly(self):
        for env_id in ("CartPole-v1", "Pendulum-v1", "Acrobot-v1", "MountainCar-v0", "MountainCarContinuous-v0"):
            with self.subTest(env_id):
                self.assert_continues_exactly(env_id, max_episode_steps=60)

    def test_gymnasiums_mujoco_environments_continue_exactly(self):
        for env_id in ("Hopper-v5", "Ant-v5", "Humanoid-v5", "Pusher-v5", "Reacher-v5", "Ant-v4", "HumanoidStandup-v5"):
            with self.subTest(env_id):
                self.assert_continues_exactly(env_id, num_envs=1, max_episode_steps=60)

    def test_an_environment_may_offer_its_state_itself(self):
        self.assert_continues_exactly("envs/Checkpointed-v0")

    def test_a_saved_state_does_not_change_with_the_environment(self):
        env = make_batch_env("Acrobot-v1", 1)
        env.reset([0])
        state = env.save()
        before = state["envs"][0]["env"]["state"].copy()
        for _ in range(2):
            env.restore(state)
            env.step(discrete(2))
        np.testing.assert_array_equal(state["envs"][0]["env"]["state"], before)

    def test_unknown_environments_and_wrappers_cannot_be_saved(self):
        for env_id in ("envs/Script-v0", "envs/WrappedCartPole-v0", "FrozenLake-v1"):
            env = make_batch_env(env_id, 1)
            env.reset([0])
            self.assertIsNone(env.save(), env_id)

    def test_only_plain_values_are_saved(self):
        env = make_batch_env("envs/Checkpointed-v0", 1, env_kwargs={"extra": [1, {"who": {2, 3}}]})
        env.reset([0])
        with self.assertRaisesRegex(EnvError, r"CheckpointedEnv.get_state\(\)\['extra'\]\[1\]\['who'\] is a set"):
            env.save()

    def test_what_a_checkpoint_would_not_give_back_as_it_was_is_not_saved(self):
        class Phase(enum.IntEnum):
            WALK = 1

        Pair = collections.namedtuple("Pair", "a b")
        dtypes = ("object", "U3", "S3", "longdouble", "clongdouble", "datetime64[D]", ">f8", "i4,f8")
        odd = [Phase.WALK, Pair(1, 2), collections.OrderedDict(), {Phase.WALK: 1}, {np.str_("a"): 1}, np.float32(0.1)]
        odd += [2**2100, np.ma.zeros(2), b"", 1j, *(np.zeros(2, dtype) for dtype in dtypes)]
        for value in odd:
            with self.subTest(repr(value)), self.assertRaisesRegex(EnvError, "here.*can be saved"):
                require_plain({"a": [value]}, "here")

    def test_what_is_saved_comes_back_as_it_was(self):
        arrays = {dtype: np.ones(2, dtype) for dtype in "?bBhHiIlLqefdFD"}
        state = {"random": random.getstate(), (1, 2): -(2**2000 - 1), "text": "\udcff", "none": None, "arrays": arrays}
        require_plain(state | {"numpy": [np.float64(1), np.int64(1), np.bool_(1)]}, "here")
        with tempfile.TemporaryDirectory() as folder:
            save_plain(Path(folder) / "a.pt", state)
            found = load_plain(Path(folder) / "a.pt")
        for dtype, array in found.pop("arrays").items():
            self.assertEqual((array.dtype, array.tolist()), (np.dtype(dtype), np.ones(2, dtype).tolist()))
        del state["arrays"]
        self.assertEqual(found, state)

    def test_a_state_of_another_shape_is_refused(self):
        env = make_batch_env("CartPole-v1", 2)
        env.reset([0, 1])
        for other in (make_batch_env("CartPole-v1", 3), make_batch_env("HalfCheetah-v5", 2)):
            with self.assertRaisesRegex(EnvError, "does not fit"):
                other.restore(env.save())


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


if __name__ == "__main__":
    unittest.main()
