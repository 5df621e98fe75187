"""A vectorised class of a user's own: its description and the arrays of its first calls."""

import unittest
from dataclasses import replace

import numpy as np

from ddp_ppo.envs.build import make_batch_env
from ddp_ppo.envs.own_class import require_spec, watch_first_calls
from ddp_ppo.errors import EnvError
from ddp_ppo.protocols import EnvSpec, Step

BOX = EnvSpec("own", 3, "box", 2, (-1.0, -1.0), (1.0, 1.0), max_episode_steps=20)


class Own:
    """A vectorised class; what is given replaces its results."""

    def __init__(self, num_envs, spec=BOX, obs=None, **wrong):
        self.num_envs, self.spec = num_envs, spec
        self.obs = np.zeros((num_envs, 3), np.float32) if obs is None else obs
        self.wrong = wrong

    def reset(self, seeds):
        return self.obs

    def step(self, action):
        flags = np.zeros(self.num_envs, bool)
        right = Step(np.zeros((self.num_envs, 3), np.float32), np.ones(self.num_envs), flags, flags, self.obs)
        return self.wrong["step"] if "step" in self.wrong else right._replace(**self.wrong)

    def save(self):
        return None

    def restore(self, state):
        raise NotImplementedError

    def reward_terms(self):
        return {}

    def close(self):
        """Holds nothing."""


class SpecTest(unittest.TestCase):
    def test_a_description_that_contradicts_itself_is_refused_when_the_class_is_built(self):
        for change, words in (
            ({"action_low": (), "action_high": ()}, "must have 2 numbers each .action_kind box., not 0 and 0"),
            ({"action_low": (-1.0,), "action_high": (1.0,)}, "must have 2 numbers each .action_kind box., not 1 and 1"),
            ({"action_kind": "boxx"}, "action_kind must be one of box, discrete, not 'boxx'"),
            ({"action_kind": "discrete"}, "must have 0 numbers each .action_kind discrete., not 2 and 2"),
            ({"obs_size": 0}, "obs_size must be a whole number >= 1, not 0"),
            ({"action_size": 2.0}, "action_size must be a whole number >= 1, not 2.0"),
            ({"max_episode_steps": -5}, "max_episode_steps must be None or a whole number >= 1, not -5"),
        ):
            with self.subTest(change), self.assertRaisesRegex(EnvError, rf"\A\S+:Own: attribute spec: .*{words}"):
                make_batch_env(f"{__name__}:Own", 2, env_kwargs={"spec": replace(BOX, **change)})
        require_spec(BOX, "own")
        require_spec(EnvSpec("own", 3, "discrete", 2), "own")


class WatchTest(unittest.TestCase):
    def watched(self, **wrong):
        env = Own(4, **wrong)
        watch_first_calls(env)
        return env

    def test_what_numpy_would_repeat_without_a_word_is_refused(self):
        flags = np.zeros(4, bool)
        for wrong, words in (
            (
                {"reward": np.ones(1)},
                r"own: step\(\): reward must be an array of numbers of the shape .*, not float64 .1,",
            ),
            ({"reward": 1.0}, r"own: step\(\): reward must be an array of the shape \(4,\), not a float"),
            (
                {"obs": np.zeros((4, 2))},
                r"reset\(\) must be an array of numbers of the shape .*, not float64 .4, 2",
            ),
            ({"obs": np.zeros(3)}, r"reset\(\) must be an array of numbers of the shape \(4, 3\), not float64 \(3,\)"),
            ({"terminated": flags.astype(int)}, r"terminated must be an array of bool of the shape \(4,\), not int64"),
            ({"truncated": flags.tolist()}, r"truncated must be an array of the shape \(4,\), not a list"),
            ({"step": None}, r"step\(\) must return a ddp_ppo.protocols.Step, not a NoneType without obs"),
            ({"step": (1, 2)}, r"step\(\) must return a ddp_ppo.protocols.Step, not a tuple without obs"),
        ):
            env = self.watched(**wrong)
            with self.subTest(wrong), self.assertRaisesRegex(EnvError, words):
                env.reset(range(4))
                env.step(np.zeros((4, 2), np.float32))

    def test_later_calls_are_those_of_the_class(self):
        env = self.watched()
        watched = env.reset, env.step
        env.reset(range(4))
        env.step(np.zeros((4, 2), np.float32))
        self.assertNotEqual((env.reset, env.step), watched)
        self.assertEqual(env.step.__func__, Own.step)


if __name__ == "__main__":
    unittest.main()
