"""What is found out about environments as users bring them, before anything is started."""

import threading
import unittest
from contextlib import closing

from ddp_ppo.envs.build import describe_env, make_batch_env
from ddp_ppo.envs.probe import probed_spec

BROUGHT = "tests.support.brought:brought"


class SavedTest(unittest.TestCase):
    def unsaved(self, env_id):
        return describe_env(env_id).unsaved

    def test_a_state_that_brings_the_environment_back_is_saved(self):
        for env_id in (f"{BROUGHT}/Saved-v0", "CartPole-v1", "Hopper-v5", "Pendulum-v1"):
            with self.subTest(env_id):
                self.assertEqual(self.unsaved(env_id), "")

    def test_methods_that_mean_something_else_are_found_by_trying(self):  # N-09
        for name, words in {
            "Asked": "cannot be saved: TypeError: Asked.get_state() missing 1 required positional argument: 'name'",
            "Observing": "cannot be restored: TypeError: Observing.set_state() missing 1 required positional",
            "Windless": "a step after it has been restored differs",
        }.items():
            with self.subTest(name):
                found = self.unsaved(f"{BROUGHT}/{name}-v0")
                self.assertIn(words, found)
                self.assertIn("episodes start again after a resume", found)
                self.assertEqual(len(found.splitlines()), 1)

    def test_an_environment_without_such_methods_is_not_even_reset(self):
        env = make_batch_env(f"{BROUGHT}/Line-v0", 1)
        self.addCleanup(env.close)
        self.assertEqual(probed_spec(env, 1.0).unsaved, "")
        self.assertFalse(hasattr(env.gymnasium_env(0).unwrapped, "x"))  # which reset sets

    def test_one_that_fails_is_left_to_the_actors(self):
        for how in ("reset", "step"):
            with self.subTest(how):
                spec = describe_env("tests.support.script_env:envs/Broken-v0", env_kwargs={"fail_at": how})
                self.assertEqual(spec.unsaved, "")

    def test_one_that_is_too_slow_to_be_tried_is_trusted(self):
        with closing(make_batch_env(f"{BROUGHT}/Windless-v0", 1)) as env:
            own = env.gymnasium_env(0).unwrapped
            own.step = lambda action: threading.Event().wait()
            self.assertEqual(probed_spec(env, 0.2).unsaved, "")


class NormalizerTest(unittest.TestCase):
    def test_running_normalizers_are_named_with_the_setting_that_replaces_them(self):  # N-20
        for name, wrapper, setting in (
            ("Obs", "NormalizeObservation", "normalize_obs"),
            ("Sub", "Subclassed", "normalize_obs"),
            ("Reward", "NormalizeReward", "normalize_reward"),
            ("OwnReward", "OwnNormalizer", "normalize_reward"),
        ):
            with self.subTest(name):
                (note,) = describe_env(f"{BROUGHT}/{name}-v0").notes
                self.assertRegex(note, f"^{wrapper} keeps running statistics .* remove it, {setting}: true does it$")

    def test_other_wrappers_are_not(self):
        for env_id in ("tests.support.script_env:envs/InnerLimit-v0", "CartPole-v1", "HalfCheetah-v5"):
            self.assertEqual(describe_env(env_id).notes, ())


if __name__ == "__main__":
    unittest.main()
