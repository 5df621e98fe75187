"""Environments as they are registered by users: found, or refused with what to do."""

import re
import unittest
from contextlib import closing

import numpy as np

from ddp_ppo.envs.build import EnvError, make_batch_env
from ddp_ppo.envs.gymnasium_env import build_env
from ddp_ppo.envs.registered import find_registered
from tests.support.script_env import discrete

BROUGHT = "tests.support.brought"


class UsersTest(unittest.TestCase):
    """Environments as users bring them."""

    def test_a_class_may_have_an_argument_of_the_name_of_the_time_limit(self):  # N-14
        env = make_batch_env(f"{BROUGHT}:brought/Timed-v0", 1, env_kwargs={"max_episode_steps": 3})
        self.addCleanup(env.close)
        env.reset([1])
        self.assertEqual([bool(env.step(discrete(0)).truncated[0]) for _ in range(4)], [False, False, True, False])

    def test_an_id_of_a_package_that_is_not_loaded_is_given_with_its_module(self):  # N-22
        for env_id, advice in {
            "ALE/Pong-v5": "put the package's module in front, which registers it: ale_py:ALE/Pong-v5",
            "zoo/Thing-v0": "put the package's module in front, which registers it: my_module:zoo/Thing-v0",
            "Hopper-v99": "the nearest known one is 'Hopper-v5'",
            "cartpole-v1": "the nearest known one is 'CartPole-v1'",
            f"{BROUGHT}:zoo/Thing-v0": f"module '{BROUGHT}' does not register it: gymnasium.register has to run",
        }.items():
            with self.subTest(env_id), self.assertRaisesRegex(EnvError, f"is registered; {re.escape(advice)}"):
                find_registered(env_id)

    def test_a_wrapper_that_gymnasium_cannot_build_is_refused_with_what_to_write(self):  # N-30
        for name in ("Class", "Bare"):
            with self.subTest(name), self.assertRaises(EnvError) as caught:
                build_env(f"{BROUGHT}:brought/{name}-v0", {})
            words = f"or give WrapperSpec('OwnFlatten', '{BROUGHT}:OwnFlatten', kwargs={{}})"
            self.assertIn(words, str(caught.exception))
            self.assertEqual(len(str(caught.exception).splitlines()), 1)
        for name in ("Right", "Known"):
            with self.subTest(name), closing(make_batch_env(f"{BROUGHT}:brought/{name}-v0", 2)) as env:
                np.testing.assert_array_equal(env.reset([1, 2]), [[1, 0], [1, 0]])

    def test_a_dict_is_refused_with_the_wrapper_that_flattens_it(self):  # N-30
        with self.assertRaisesRegex(EnvError, r"wrappers=\(gymnasium.wrappers.FlattenObservation.wrapper_spec\(\),\)"):
            make_batch_env(f"{BROUGHT}:brought/Goal-v0", 1)


if __name__ == "__main__":
    unittest.main()
