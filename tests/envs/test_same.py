"""Instances of one environment that differ are refused, and what differs is named."""

import unittest
from dataclasses import replace

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete

from ddp_ppo.envs.build import EnvError, describe_env, make_batch_env
from ddp_ppo.envs.same import require_alike, require_same


class Spaces:
    """Stands for an environment."""

    def __init__(self, obs, act):
        self.observation_space, self.action_space = obs, act


class Varied(gymnasium.Env):
    """Every second instance has a weaker second motor."""

    num_built = 0
    observation_space = Box(-1, 1, (1,), np.float32)

    def __init__(self):
        limit = 0.5 if Varied.num_built % 2 else 1.0
        Varied.num_built += 1
        self.action_space = Box(np.float32([-1, -limit]), np.float32([1, limit]))


gymnasium.register("same/Varied-v0", Varied)


class AlikeTest(unittest.TestCase):
    def complaint(self, one, other):
        """Of two spaces of observations, and then of actions."""
        found = []
        for pair in (
            (Spaces(one, Discrete(2)), Spaces(other, Discrete(2))),
            (Spaces(Discrete(2), one), Spaces(Discrete(2), other)),
        ):
            try:
                require_alike((pair[0], None), (pair[1], None), "environment 3", "environment 0")
                found.append("")
            except EnvError as error:
                found.append(str(error).partition(";")[0].removeprefix("environment 3 differs from environment 0: "))
        return found

    def test_the_first_place_that_differs_is_named(self):
        for one, other, words in (
            (Discrete(3, start=1), Discrete(3), "{}_space.start is 1 and not 0"),
            (Discrete(3), Discrete(4), "{}_space.n is 3 and not 4"),
            (Box(0, 1, (2,), np.uint8), Box(0, 1, (3,), np.uint8), "{}_space.shape[0] is 2 and not 3"),
            (Box(0, 2, (2,), np.uint8), Box(0, 1, (2,), np.uint8), "{}_space.high[0] is 2 and not 1"),
            (MultiDiscrete([2, 3]), MultiDiscrete([2, 4]), "{}_space.nvec[1] is 3 and not 4"),
            (Discrete(2), MultiDiscrete([2]), "{}_space is Discrete and not MultiDiscrete"),
            (Dict(a=Discrete(2)), Dict(a=Discrete(3)), "{}_space['a'].n is 2 and not 3"),
            (Dict(a=Discrete(2)), Dict(b=Discrete(2)), "the parts of {}_space is ['a'] and not ['b']"),
        ):
            with self.subTest(words):
                self.assertEqual(self.complaint(one, other), [words.format("observation"), words.format("action")])

    def test_limits_of_floats_matter_for_actions_alone(self):
        found = self.complaint(Box(-1, 2, (1,), np.float32), Box(-1, 1, (1,), np.float32))
        self.assertEqual(found, ["", "action_space.high[0] is 2.0 and not 1.0"])

    def test_time_limits_are_compared(self):
        one = Spaces(Discrete(2), Discrete(2))
        with self.assertRaisesRegex(
            EnvError, "environment 1 differs from environment 0: its time limit is 7 and not 9"
        ):
            require_alike((one, 7), (one, 9), "environment 1", "environment 0")

    def test_a_batch_of_different_instances_is_refused_by_their_numbers(self):
        Varied.num_built = 0
        words = r"same/Varied-v0: environment 5 differs from environment 4: action_space.low\[1\] is -0.5 and not -1.0"
        with self.assertRaisesRegex(EnvError, words):
            make_batch_env("same/Varied-v0", 2, first_index=4)


class SameTest(unittest.TestCase):
    def test_the_field_of_a_description_that_differs_is_named(self):
        spec = describe_env("Pendulum-v1")
        require_same(spec, spec, "one", "another")
        with self.assertRaisesRegex(
            EnvError, r"one differs from another: action_high\[0\] is 1.5 and not 2.0; .* reset"
        ):
            require_same(replace(spec, action_high=(1.5,)), spec, "one", "another")
        with self.assertRaisesRegex(EnvError, "max_episode_steps is None and not 200"):
            require_same(replace(spec, max_episode_steps=None), spec, "one", "another")


if __name__ == "__main__":
    unittest.main()
