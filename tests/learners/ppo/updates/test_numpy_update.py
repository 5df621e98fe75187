"""The hand-derived gradient step against autograd, with every option."""

import dataclasses
import itertools
import unittest

import numpy as np
import torch

from ddp_ppo.learners.adam_state import AdamState
from ddp_ppo.learners.ppo.loss import Batch
from ddp_ppo.learners.ppo.loss_settings import LossSettings
from ddp_ppo.learners.ppo.updates.numpy_update import NumpyUpdate
from ddp_ppo.learners.ppo.updates.torch_update import TorchUpdate
from ddp_ppo.policies.network import NetworkSpec
from ddp_ppo.policies.torch_policy import ActorCritic
from tests.support.fixtures import random_parameters

torch.set_num_threads(1)  # threads that wait for each other make tiny products 10 times slower on a busy machine

SETTINGS = LossSettings(
    clip_range=0.2, value_clip_range=None, entropy_coef=0.01, value_coef=0.5, max_grad_norm=0.5, adam_eps=1e-5
)
OPTIONS = {
    "default": {},
    "no entropy": {"entropy_coef": 0.0},
    "much entropy": {"entropy_coef": 1.0},
    "value clip": {"value_clip_range": 0.2},
    "no gradient clip": {"max_grad_norm": None},
    "loose gradient clip": {"max_grad_norm": 100.0},
    "other coefficients": {"clip_range": 0.05, "value_coef": 2.0},
}
NETWORKS = [
    NetworkSpec(5, head, 3, hidden_sizes, activation)
    for head in ("gaussian", "categorical")
    for hidden_sizes in ((), (16,), (8, 16), (7, 3, 9))
    for activation in ("tanh", "relu", "elu")
] + [
    NetworkSpec(5, "gaussian", 3, (8,), "tanh", actor_view=actor_view, critic_view=critic_view)
    for actor_view, critic_view in (
        (((0, 3),), ()),  # an actor that sees less than its critic
        (((2, 5),), ((0, 1), (3, 5))),
    )
]


def random_batch(network, num_samples):
    """Samples of a policy near the one with `random_parameters`: ratios on both sides of both clips."""
    generator = torch.Generator().manual_seed(0)
    obs = torch.randn(num_samples, network.obs_size, generator=generator)
    if network.head == "gaussian":
        act = torch.randn(num_samples, network.action_size, generator=generator)
    else:
        act = torch.randint(network.action_size, (num_samples,), generator=generator)
    policy = ActorCritic(network, torch.from_numpy(random_parameters(network)))
    with torch.no_grad():
        logp, _, value = policy.evaluate(obs, act)
    noise = torch.randn(4, num_samples, generator=generator)
    return Batch(obs, act, logp + 0.2 * noise[0], noise[1], value + noise[2], value + 0.3 * noise[3])


class Training:
    """A policy, its optimizer and one kind of update; keeps the gradients of all mini-batches."""

    def __init__(self, update_class, network, options):
        self.policy = ActorCritic(network, torch.from_numpy(random_parameters(network)))
        zeros = torch.zeros(network.num_parameters)
        self.optimizer = AdamState(zeros.clone(), zeros.clone(), torch.tensor(0.0))
        self.gradients = []
        settings = dataclasses.replace(SETTINGS, **options)
        self.update = update_class(self.policy, self.optimizer, settings, self.keep)

    def keep(self, gradient):
        self.gradients.append(gradient.numpy().copy())

    @property
    def parameters(self):
        return self.policy.flat.detach().numpy()


def both(network, options=OPTIONS["default"]):
    return Training(NumpyUpdate, network, options), Training(TorchUpdate, network, options)


def relative_error(actual, expected):
    """Largest difference relative to the largest entry: entries near 0 are differences of large ones."""
    return float(np.abs(actual - expected).max() / np.abs(expected).max())


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
