"""The gradient derived by hand against autograd's, with every option, layer by layer."""

import itertools
import unittest

import numpy as np
import torch

from ddp_ppo.policies.torch_policy import ActorCritic
from tests.support.against_autograd import NETWORKS, OPTIONS, both, random_batch, relative_error
from tests.support.fixtures import random_parameters

torch.set_num_threads(1)  # threads that wait for each other make tiny products 10 times slower on a busy machine


class GradientTest(unittest.TestCase):
    def test_gradient_and_statistics_equal_autograd_s(self):
        for network, (name, options) in itertools.product(NETWORKS, OPTIONS.items()):
            with self.subTest(name, network=network):
                samples = random_batch(network, 50)
                trainings = both(network, options)
                stats = []
                for training in trainings:
                    training.update.load(samples)
                    stats.append(training.update.epoch(np.arange(50), 50, 1e-3))
                (fast,), (reference,) = (training.gradients for training in trainings)
                self.assertLess(relative_error(fast, reference), 1e-5)
                for layer in network.layers:  # each block by itself, so that a small one cannot hide
                    self.assertLess(relative_error(layer.view(fast), layer.view(reference)), 1e-4, layer.name)
                np.testing.assert_allclose(stats[0], stats[1], rtol=1e-4, atol=1e-6)

    def test_samples_reach_both_sides_of_every_clip(self):
        for network in (NETWORKS[0], NETWORKS[-1]):
            samples = random_batch(network, 50)
            policy = ActorCritic(network, torch.from_numpy(random_parameters(network)))
            with torch.no_grad():
                logp, _, value = policy.evaluate(samples.obs, samples.act)
            ratio, moved = (logp - samples.logp).exp(), (value - samples.value).abs()
            for is_outside in (ratio > 1.2, ratio < 0.8, moved > 0.2):
                for sign in (1.0, -1.0):
                    self.assertGreater(int((is_outside & (samples.adv * sign > 0)).sum()), 0)
            self.assertGreater(int((moved < 0.2).sum()), 0)

    def test_absurd_old_log_probability_gives_autograd_s_gradient(self):  # O-17
        for network, logp in itertools.product((NETWORKS[3], NETWORKS[15]), (-1e4, 1e4)):
            samples = random_batch(network, 50)
            samples.logp[:2] = logp
            samples.adv[:2] = torch.tensor([1.0, -1.0])
            trainings = both(network)
            for training in trainings:
                training.update.load(samples)
                training.update.epoch(np.arange(50), 50, 1e-3)
                self.assertTrue(np.isfinite(training.parameters).all())
            self.assertLess(relative_error(trainings[0].gradients[0], trainings[1].gradients[0]), 1e-5)


if __name__ == "__main__":
    unittest.main()
