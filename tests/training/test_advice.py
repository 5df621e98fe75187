"""What is said before a run, on descriptions written by hand and of every configuration that comes with the project."""

import unittest

from ddp_ppo.config.load import load_config
from ddp_ppo.config.settings import Config
from ddp_ppo.envs.build import describe_env
from ddp_ppo.protocols import EnvSpec
from ddp_ppo.training.advice import action_advice, image_advice
from tests.support.go1 import OWN_ROBOT
from tests.support.process import ROOT


class ActionTest(unittest.TestCase):
    def advice(self, *limits, init_log_std=0.0):
        low, high = zip(*limits, strict=True)
        return action_advice(Config(init_log_std=init_log_std), EnvSpec("Any-v0", 1, "box", len(low), low, high))

    def test_ranges_around_0_that_fit_the_first_actions_need_none(self):
        for limits in ((-1, 1), (-0.5, 1), (-2, 2), (-8, 8), (-float("inf"), float("inf")), (0, float("inf"))):
            with self.subTest(limits):
                self.assertEqual(self.advice((-1, 1), limits), [])

    def test_a_range_whose_limit_is_near_0_is_named_with_what_to_do(self):
        for low, high in ((0, 5), (0, 1), (-3, 0.1), (2, 3)):
            (line,) = self.advice((-1, 1), (low, high))
            self.assertRegex(line, rf"range of action 1 is {low} .. {high}: .* 0 \+- 1, half of it.*\[-1, 1\].*Rescale")

    def test_first_actions_of_another_size_than_the_range_are_named_with_one_that_fits(self):
        self.assertRegex(self.advice((-0.2, 0.2))[0], "most of it beyond the limits; .* or init_log_std near -2.3$")
        self.assertEqual(self.advice((-0.2, 0.2), init_log_std=-2.3), [])
        self.assertRegex(self.advice((-20, 20))[0], "a small part of it; .* or init_log_std near 2.3$")

    def test_choices_need_none(self):
        self.assertEqual(action_advice(Config(), EnvSpec("Any-v0", 1, "discrete", 3)), [])

    def test_no_configuration_of_the_project_needs_any(self):
        for path in sorted((ROOT / "configs").glob("*.yaml")):
            words = {"base": ["env_id=Swimmer-v5"], "go1": OWN_ROBOT}
            config = load_config(path, words.get(path.stem, []))
            with self.subTest(path.stem):
                env = describe_env(**config.env_arguments)
                self.assertEqual(action_advice(config, env) + image_advice(config, env), [])

    def test_neither_do_the_continuous_tasks_of_classic_control(self):
        for env_id in ("Pendulum-v1", "MountainCarContinuous-v0"):
            self.assertEqual(action_advice(Config(env_id=env_id), describe_env(env_id)), [])


class ImageTest(unittest.TestCase):
    def test_only_what_can_be_a_picture_is_one(self):
        for image, num_lines in (((8, 8, 1), 1), ((3, 64, 64), 1), ((1, 2, 1), 0), ((10, 5, 1), 0), ((), 0)):
            with self.subTest(image):
                env = EnvSpec("Any-v0", 2, "discrete", 2, image=image)
                self.assertEqual(len(image_advice(Config(), env)), num_lines)


if __name__ == "__main__":
    unittest.main()
