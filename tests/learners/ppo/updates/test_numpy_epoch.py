"""An epoch by both trunks together and by each apart, Adam by hand, and a norm that is not finite."""

import dataclasses
import unittest

import numpy as np

from ddp_ppo.learners.ppo.updates.numpy_epoch import Trained, TrunkTrainer, run_epoch
from ddp_ppo.learners.ppo.updates.numpy_gradient import Samples, SampleStats
from ddp_ppo.policies.network import NetworkSpec
from ddp_ppo.sampling.finite import NonFiniteError
from tests.support.against_autograd import SETTINGS, random_batch
from tests.support.fixtures import random_parameters

NETWORK = NetworkSpec(5, "gaussian", 3, (16,), "tanh")
FREE = dataclasses.replace(SETTINGS, max_grad_norm=None)  # no trunk has to know the other's norm


def fresh():
    """Parameters before the first step of Adam."""
    parameters = random_parameters(NETWORK)
    return Trained(parameters, np.zeros_like(parameters), np.zeros_like(parameters), np.zeros((), np.float32))


def samples(num_samples):
    """Samples with the column of ones, and where their statistics go."""
    obs, *others = (array.numpy() for array in random_batch(NETWORK, num_samples))
    with_one = np.concatenate([obs, np.ones((num_samples, 1), np.float32)], axis=1)
    return Samples(with_one, *others), SampleStats(*np.zeros((3, num_samples), np.float32))


def run(trained, *trunks, settings=FREE, exchange=lambda norm: norm, **changes):
    """Two epochs of four mini-batches with these trunks; the norms."""
    trainer = TrunkTrainer(NETWORK, settings, trained, trunks)
    own, stats = samples(50)
    norms = []
    for epoch in range(2):
        options = {"minibatch_size": 16, "learning_rate": 1e-2, "first_step": 1.0 + 4 * epoch, "exchange": exchange}
        norms += run_epoch(trainer, own, stats, **options | changes)
    return norms


class EpochTest(unittest.TestCase):
    def test_trunks_that_are_trained_apart_are_to_the_bit_those_that_are_trained_together(self):
        together, apart = fresh(), fresh()
        norms = run(together, "actor", "critic")
        parts = [run(apart, trunk) for trunk in ("actor", "critic")]
        for name, array in vars(together).items():
            np.testing.assert_array_equal(array, vars(apart)[name], name)
        np.testing.assert_allclose(norms, np.hypot(*parts), rtol=1e-6)
        self.assertEqual(len(norms), 8)

    def test_one_trunk_leaves_the_other_s_parameters_alone(self):
        trained = fresh()
        run(trained, "critic")
        actor, critic = NETWORK.part("actor"), NETWORK.part("critic")
        np.testing.assert_array_equal(trained.parameters[actor], random_parameters(NETWORK)[actor])
        self.assertTrue((trained.parameters[critic] != random_parameters(NETWORK)[critic]).all())

    def test_the_first_step_of_adam_is_as_long_as_the_learning_rate(self):
        trained = fresh()
        settings = dataclasses.replace(FREE, adam_eps=1e-12)
        trainer = TrunkTrainer(NETWORK, settings, trained)
        trainer.load()
        trainer.gradient[:] = np.linspace(-2.0, 2.0, len(trainer.gradient))
        moving = trainer.gradient != 0.0
        trainer.adam(1.0, 1.0, 0.25)
        trainer.store()
        step = trained.parameters - random_parameters(NETWORK)
        np.testing.assert_allclose(step[moving], -0.25 * np.sign(trainer.gradient[moving]), rtol=1e-5)

    def test_a_gradient_is_clipped_by_the_norm_of_all_trunks(self):
        trained = fresh()
        trainer = TrunkTrainer(NETWORK, dataclasses.replace(SETTINGS, max_grad_norm=0.5), trained)
        trainer.load()
        trainer.gradient[:] = 1.0
        trainer.adam(10.0, 1.0, 0.0)  # the norm is what the trunks have exchanged
        trainer.store()
        np.testing.assert_allclose(trained.exp_avg, (1.0 - 0.9) * 0.5 / 10.0, rtol=1e-5)
        np.testing.assert_allclose(trained.exp_avg_sq, (1.0 - 0.999) * (0.5 / 10.0) ** 2, rtol=1e-5)

    def test_what_is_averaged_is_what_the_norm_is_of(self):
        trained = fresh()
        trainer = TrunkTrainer(NETWORK, FREE, trained)
        own, stats = samples(8)

        def average():
            trainer.gradient[:] = 2.0

        options = {"minibatch_size": 8, "learning_rate": 0.0, "first_step": 1.0, "exchange": lambda norm: norm}
        (norm,) = run_epoch(trainer, own, stats, average=average, **options)
        self.assertAlmostEqual(norm, 2.0 * len(trained.parameters) ** 0.5, 4)

    def test_a_norm_that_is_not_finite_leaves_what_is_trained_as_it_was_before_the_epoch(self):
        trained, norms = fresh(), iter([1.0, 1.0, np.inf])
        with self.assertRaisesRegex(NonFiniteError, "the norm of the gradient is inf; no step was taken with it"):
            run(trained, "actor", "critic", exchange=lambda norm: next(norms))
        for name, array in vars(fresh()).items():
            np.testing.assert_array_equal(vars(trained)[name], array, name)


if __name__ == "__main__":
    unittest.main()
