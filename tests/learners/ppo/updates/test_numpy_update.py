"""Whole rounds in NumPy against the same by autograd, and what they report."""

import dataclasses
import itertools
import unittest

import numpy as np
import torch

from ddp_ppo.learners.adam_state import AdamState
from ddp_ppo.learners.ppo.updates.numpy_update import NumpyUpdate
from ddp_ppo.policies.torch_policy import ActorCritic
from tests.support.against_autograd import (
    NETWORKS,
    OPTIONS,
    SETTINGS,
    Training,
    both,
    random_batch,
    relative_error,
)
from tests.support.fixtures import random_parameters

torch.set_num_threads(1)  # threads that wait for each other make tiny products 10 times slower on a busy machine


class TrainingTest(unittest.TestCase):
    def test_parameters_after_fifty_minibatches_equal_autograd_s(self):
        every_option = itertools.product((NETWORKS[3], NETWORKS[18]), OPTIONS.items())
        every_network = zip(NETWORKS, itertools.cycle(OPTIONS.items()))
        for network, (name, options) in (*every_option, *every_network):
            with self.subTest(name, network=network):
                samples = random_batch(network, 100)
                trainings = both(network, options)
                for training in trainings:
                    generator = np.random.default_rng(0)
                    training.update.load(samples)
                    for _ in range(10):
                        training.update.epoch(generator.permutation(100), 22, 3e-4)  # 4 of 22, 1 of 12
                fast, reference = trainings
                self.assertEqual((len(fast.gradients), len(reference.gradients)), (50, 50))
                np.testing.assert_allclose(fast.parameters, reference.parameters, rtol=0, atol=1e-6)
                self.assertGreater(np.abs(reference.parameters - random_parameters(network)).max(), 1e-3)
                for vector in ("exp_avg", "exp_avg_sq"):
                    error = relative_error(
                        *(getattr(training.optimizer, vector).numpy() for training in (fast, reference))
                    )
                    self.assertLess(error, 1e-4)
                self.assertEqual(float(fast.optimizer.step), 50.0)

    def test_minibatches_of_one_and_of_all_equal_autograd_s(self):
        for size in (1, 7, 33):
            trainings = both(NETWORKS[4])
            for training in trainings:
                training.update.load(random_batch(NETWORKS[4], 33))
                training.update.epoch(np.arange(33)[::-1].copy(), size, 3e-4)
            np.testing.assert_allclose(trainings[0].parameters, trainings[1].parameters, rtol=0, atol=1e-6)

    def test_averaged_gradient_is_what_the_step_uses(self):
        network = NETWORKS[3]
        training = Training(NumpyUpdate, network, {"max_grad_norm": None})
        zeros = torch.zeros(network.num_parameters)
        optimizer = AdamState(zeros.clone(), zeros.clone(), torch.tensor(0.0))
        settings = dataclasses.replace(SETTINGS, max_grad_norm=None, adam_eps=1e-8)
        update = NumpyUpdate(training.policy, optimizer, settings, lambda gradient: gradient.fill_(-1.0))
        before = training.parameters.copy()
        update.load(random_batch(network, 10))
        update.epoch(np.arange(10), 10, 0.01)
        np.testing.assert_allclose(training.parameters - before, 0.01, rtol=1e-4)

    def test_epochs_and_rounds_of_other_sizes_reuse_nothing_wrong(self):
        trainings = both(NETWORKS[7])
        for training in trainings:
            for num_samples in (40, 10, 64):
                training.update.load(random_batch(NETWORKS[7], num_samples))
                training.update.epoch(np.arange(num_samples), 16, 3e-4)
        np.testing.assert_allclose(trainings[0].parameters, trainings[1].parameters, rtol=0, atol=1e-6)

    def test_samples_are_left_as_they_were(self):
        network = NETWORKS[3]
        training = Training(NumpyUpdate, network, OPTIONS["value clip"])
        samples = random_batch(network, 20)
        before = [column.clone() for column in samples]
        training.update.load(samples)
        training.update.epoch(np.arange(20), 8, 1e-2)
        for column, copy in zip(samples, before, strict=True):
            torch.testing.assert_close(column, copy, rtol=0, atol=0)

    def test_statistics_are_weighted_by_samples(self):  # O-66
        network = NETWORKS[3]
        samples = random_batch(network, 100)
        policy = ActorCritic(network, torch.from_numpy(random_parameters(network)))
        with torch.no_grad():
            logp, _, _ = policy.evaluate(samples.obs, samples.act)
        samples.logp[:64] = logp[:64] - np.log(1.5)
        samples.logp[64:] = logp[64:]
        training = Training(NumpyUpdate, network, {})
        training.update.load(samples)
        self.assertAlmostEqual(training.update.epoch(np.arange(100), 64, 1e-12).clip_fraction, 0.64, 6)


if __name__ == "__main__":
    unittest.main()
