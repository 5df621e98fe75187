"""What goes wrong in an environment ends the whole run with one readable message."""

import unittest

import torch

from tests.support.process import (
    FIXTURE,
    FolderTestCase,
)
from tests.support.results import (
    load,
    tensors,
)

# Either of the two actors may be the first to say what happened in its third environment.
THIRD_ENVIRONMENT = r"^ddp-ppo: actor (0 of rank 0 .*environment 2 |1 of rank 0 .*environment 5 )"


class FailureTest(FolderTestCase):
    """What goes wrong in an environment ends the whole run with one readable message."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        text = FIXTURE.replace("Count-v0", "Misbehaving-v0").replace("envs_per_actor: 2", "envs_per_actor: 3")
        config = cls.config("tiny", text + "actor_timeout_seconds: 5\nmax_actor_restarts: 0\n")
        kinds = {
            "raise": "{how: raise, at: 40, number: 2}",
            "hang": "{how: hang, at: 40, number: 2}",
            "nan_obs": "{how: nan_obs, at: 50, number: 2}",
            "inf_reward": "{how: inf_reward, at: 50, number: 2}",
        }
        cls.ended = {}
        for pair in (("raise", "hang"), ("nan_obs", "inf_reward")):
            started = {kind: cls.start(config, f"env_kwargs={kinds[kind]}", f"run_name={kind}") for kind in pair}
            cls.ended |= {kind: program.end(30) for kind, program in started.items()}

    def test_an_exception_is_shown_with_its_traceback_and_place(self):  # O-39
        ended = self.ended["raise"]
        self.assertEqual((ended.code, ended.left), (1, []))
        headline, *rest = ended.err.splitlines()
        self.assertRegex(headline, THIRD_ENVIRONMENT + ".*boom-17")
        self.assertIn("ValueError: boom-17", rest)
        self.assertNotIn("EOFError", ended.err)

    def test_a_hang_ends_at_the_time_limit(self):  # O-40
        ended = self.ended["hang"]
        self.assertEqual((ended.code, ended.left), (1, []))
        (line,) = ended.err.splitlines()
        self.assertRegex(line, r"^ddp-ppo: actor [01] of rank 0 .*sampling round 3 within actor_timeout_seconds=5")
        self.assertLess(ended.seconds, 25.0)  # 5 s until it is given up, 5 s to close, and the start

    def test_an_observation_that_is_no_number_is_named(self):  # O-21
        self.assert_named(self.ended["nan_obs"], "observation")

    def test_a_reward_that_is_not_finite_is_named(self):  # O-22
        self.assert_named(self.ended["inf_reward"], "reward")

    def assert_named(self, ended, what):
        self.assertEqual((ended.code, ended.left), (1, []))
        # The 50th step is the second one of the fourth round of 16.
        headline = ended.err.splitlines()[0]
        self.assertRegex(headline, THIRD_ENVIRONMENT)
        for part in ("round 4", "step 2 of the rollout", what):
            self.assertIn(part, headline)

    def test_no_file_holds_a_number_that_is_not_finite(self):
        for path in (self.work / "output").rglob("*.pt"):
            if path.name.startswith("evidence_"):  # which exists to hold it
                continue
            for tensor in tensors(load(path)):
                self.assertTrue(torch.isfinite(tensor).all(), path)


if __name__ == "__main__":
    unittest.main()
