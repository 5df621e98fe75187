"""What a checkpoint holds of a run; that runs go on from it is shown in test_trainer."""

import unittest

import torch

from ddp_ppo.maths.moments import empty_rms_state
from ddp_ppo.policies.network import NetworkSpec
from ddp_ppo.protocols import EnvSpec
from ddp_ppo.training.resume import Standing, is_finite
from tests.support.fixtures import whole_checkpoint

ENV = EnvSpec("A-v0", 2, "discrete", 2)
NETWORK = NetworkSpec.for_env(ENV, (4,), "tanh")
OWN = {"learner": {"parameters": torch.zeros(3)}, "actors": [{"env": None}]}


class StandingTest(unittest.TestCase):
    def test_a_checkpoint_holds_what_is_common_once_and_every_rank_s_own(self):
        standing = Standing(7, 448, 1.5, empty_rms_state(2), empty_rms_state(1), 3.0, 2.0, OWN)
        content = standing.content([OWN, OWN])
        self.assertEqual(content["ranks"], [OWN, OWN])
        self.assertEqual((content["env_steps"], content["best_return"], content["eval_return"]), (448, 3.0, 2.0))
        self.assertEqual({"network", "env", *content}, whole_checkpoint(NETWORK, ENV).keys())

    def test_one_rank_with_a_parameter_that_is_not_finite_is_noticed(self):
        broken = {"learner": {"parameters": torch.tensor([0.0, float("nan")])}}
        self.assertTrue(is_finite([OWN, OWN]))
        self.assertFalse(is_finite([OWN, broken]))


if __name__ == "__main__":
    unittest.main()
