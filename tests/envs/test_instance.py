"""The number that a constructor reads, and what it draws from global generators."""

import os
import random
import unittest
from contextlib import closing

import gymnasium
import numpy as np

from ddp_ppo.envs.build import describe_env, make_batch_env
from ddp_ppo.envs.gymnasium_env import build_env
from ddp_ppo.envs.instance import INDEX_VARIABLE, TRAINING, Instances


class Numbered(gymnasium.Env):
    """Keeps its number and draws a goal; both are its observation."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float64)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
    fails = False

    def __init__(self):
        if Numbered.fails:
            raise OSError("no port")
        self.seen = float(os.environ["DDP_PPO_ENV_INDEX"]), np.random.random() + random.random()

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.array(self.seen), {}

    def step(self, action):
        return np.array(self.seen), 0.0, False, False, {}


gymnasium.register("instance/Numbered-v0", Numbered, max_episode_steps=9)
gymnasium.register("instance/Other-v0", Numbered, max_episode_steps=8)


def seen(env_id="instance/Numbered-v0", num_envs=2, **arguments):
    """What each of K environments was built with, [K, 2]."""
    with closing(make_batch_env(env_id, num_envs, **arguments)) as env:
        return env.reset(range(num_envs)).copy()


class InstanceTest(unittest.TestCase):
    def test_instances_of_a_batch_count_from_zero_or_from_where_they_are_told(self):
        self.assertEqual(seen()[:, 0].tolist(), [0, 1])
        self.assertEqual(seen(first_index=2, instances=Instances(offset=8))[:, 0].tolist(), [10, 11])
        mixed = seen(["instance/Numbered-v0", "instance/Other-v0"], 3, instances=Instances(offset=4))
        self.assertEqual(mixed[:, 0].tolist(), [4, 5, 6])

    def test_the_description_and_a_single_environment_have_a_number_too(self):
        self.assertEqual(describe_env("instance/Numbered-v0").obs_size, 2)
        self.assertEqual(build_env("instance/Numbered-v0", {})[0].unwrapped.seen[0], 0)

    def test_the_variable_is_gone_afterwards_also_after_an_error(self):
        self.addCleanup(setattr, Numbered, "fails", False)
        Numbered.fails = True
        with self.assertRaisesRegex(ValueError, "no port"):
            seen()
        self.assertNotIn(INDEX_VARIABLE, os.environ)

    def test_a_variable_of_the_caller_comes_back(self):
        os.environ[INDEX_VARIABLE] = "77"
        self.addCleanup(os.environ.pop, INDEX_VARIABLE, None)
        self.assertEqual(seen()[:, 0].tolist(), [0, 1])
        self.assertEqual(os.environ[INDEX_VARIABLE], "77")

    def test_a_constructor_draws_by_its_number_whoever_builds_it_and_what_was_drawn_before(self):
        both = seen(instances=Instances(seed=5, key=(TRAINING, 0)))[:, 1]
        np.random.random(7)
        second = seen(num_envs=1, first_index=1, instances=Instances(seed=5, key=(TRAINING, 0)))[:, 1]
        self.assertEqual(both[1], second[0])
        others = [
            both[0],
            seen(num_envs=1, first_index=1, instances=Instances(seed=6, key=(TRAINING, 0)))[0, 1],
            seen(num_envs=1, first_index=1, instances=Instances(seed=5, key=(TRAINING, 1)))[0, 1],
            seen(num_envs=1, first_index=1, instances=Instances(seed=5))[0, 1],
        ]
        self.assertEqual(len({*others, both[1]}), 5)

    def test_building_leaves_the_global_generators_alone(self):
        np.random.seed(1)
        random.seed(1)
        expected = np.random.random(), random.random()
        np.random.seed(1)
        random.seed(1)
        seen()
        describe_env("instance/Numbered-v0")
        self.assertEqual((np.random.random(), random.random()), expected)


if __name__ == "__main__":
    unittest.main()
