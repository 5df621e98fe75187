"""What an actor adds to its rollout for DiscoRL."""

import unittest

import numpy as np

from ddp_ppo.learners.disco.annotate import annotate_disco
from ddp_ppo.policies.network import NetworkSpec
from ddp_ppo.policies.numpy_policy import NumpyPolicy
from ddp_ppo.protocols import EnvSpec
from ddp_ppo.sampling.rollout import Discounting


class AnnotateTest(unittest.TestCase):
    def test_logits_are_those_of_the_policy_while_acting(self):
        network = NetworkSpec(1, "categorical", 2, (), "relu")
        policy = NumpyPolicy(network, EnvSpec("A", 1, "discrete", 2), 1, 2)
        policy.outputs[:] = [[[0.5, -1.0]], [[2.0, 3.0]]]
        columns = {"logits": np.zeros((2, 1, 2), np.float32)}
        annotate_disco(policy, columns, Discounting(0.9, 0.8, 1.0, np.inf))
        np.testing.assert_array_equal(columns["logits"], policy.outputs)


if __name__ == "__main__":
    unittest.main()
