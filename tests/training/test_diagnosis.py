"""What is blamed for an update that met a value which is not finite."""

import unittest

import numpy as np
import torch

from ddp_ppo.config.settings import Config
from ddp_ppo.learners.disco.agent import AgentSpec
from ddp_ppo.learners.disco.learner import DiscoLearner
from ddp_ppo.learners.ppo.learner import PPO, fresh
from ddp_ppo.policies.network import NetworkSpec
from ddp_ppo.policies.numpy_policy import NumpyPolicy
from ddp_ppo.protocols import EnvSpec
from ddp_ppo.sampling.finite import NonFiniteError, NotFinite
from ddp_ppo.training.diagnosis import find_cause
from tests.support.disco_golden import SMALL_AGENT, disco_config, random_agent, random_meta, random_rollout
from tests.support.fixtures import random_parameters, sampled_rollout

ENV = EnvSpec("A", 3, "box", 2, (-1.0, -1.0), (1.0, 1.0))
NETWORK = NetworkSpec.for_env(ENV, (8,), "tanh")
T, B = 6, 4


class FindCauseTest(unittest.TestCase):
    def setUp(self):
        parameters = random_parameters(NETWORK)
        policy = NumpyPolicy(NETWORK, ENV, B, T)
        policy.load(parameters, None)
        self.rollout = sampled_rollout(policy, PPO.rollout_fields(NETWORK), T, B)
        config = Config(num_epochs=1, minibatch_size=1, max_grad_norm=None)
        self.learner = PPO(config, NETWORK, fresh(parameters), device=torch.device("cpu"))

    def cause(self):
        """The cause that is found after the update has failed."""
        with self.assertRaises(NonFiniteError) as caught, np.errstate(all="ignore"):
            self.learner.train_step(self.rollout)
        return find_cause(self.learner, self.rollout, str(caught.exception))

    def test_an_annotation_is_named_with_its_place(self):
        for name, stage in (("logp", "logp"), ("adv", "advantage"), ("ret", "return")):
            with self.subTest(name):
                self.setUp()
                self.rollout[name][4, 1] = np.nan
                words, where = self.cause()
                self.assertEqual(words, f"the {stage} of environment 1 is nan in step 5 of the rollout")
                self.assertEqual((where.stage, where.env, where.step), (stage, 1, 5))

    def test_a_parameter_is_named_by_tensor_and_index(self):
        # The critic's first weights are stored [inputs + 1, outputs] and named as torch has them: [outputs, inputs].
        NETWORK.trunk("critic")[0].view(self.learner.policy.flat.data)[2, 5] = np.nan
        self.assertEqual(self.cause(), ("the parameter critic.0.weight[5, 2] is nan", None))

    def test_a_loss_that_overflows_is_named_by_its_sample(self):
        self.rollout["ret"][2, 3] = 1e25  # its square is infinite in float32
        words, where = self.cause()
        self.assertEqual(words, "the value loss of environment 3 is inf in step 3 of the rollout")
        self.assertEqual((where.env, where.step), (3, 3))

    def test_where_everything_is_finite_but_the_gradient_the_largest_loss_is_told(self):
        self.rollout["ret"][2, 3] = 1.8e19  # its square is finite, that of its gradient's norm is not
        words, where = self.cause()
        self.assertRegex(words, "^the norm of the gradient is inf; .*; the largest value loss is 3.24e[+]38, ")
        self.assertRegex(words, "of environment 3 in step 3 of the rollout$")
        self.assertIsNone(where)

    def test_a_learner_whose_losses_are_not_those_of_samples_tells_what_it_has_seen(self):
        learner = DiscoLearner(disco_config(), random_agent(AgentSpec(3, 2, **SMALL_AGENT)), meta=random_meta())
        rollout = random_rollout(DiscoLearner.rollout_fields(learner.network), T, B)
        self.assertEqual(find_cause(learner, rollout, "the gradient is inf"), ("the gradient is inf", None))
        rollout["logits"][4, 1, 0] = np.nan
        self.assertEqual(find_cause(learner, rollout, "").where, NotFinite("logits", 1, 5, 0, "nan"))


if __name__ == "__main__":
    unittest.main()
