"""How near something acts to a policy: errors by hand, observations, and faults that must be found."""

import math
import unittest

import numpy as np

from ddp_ppo.actions.box import BoxAction
from ddp_ppo.actions.discrete import DiscreteAction
from ddp_ppo.envs.build import EnvError
from ddp_ppo.export.parity import (
    NUM_EXTREME,
    NUM_REAL,
    Acted,
    beginning,
    decide,
    largest_error,
    measure,
    observations,
    policy_act,
    tolerance_of,
    torch_act,
)
from ddp_ppo.export.run_policy import TOLERANCE
from ddp_ppo.policies.network import NetworkSpec
from ddp_ppo.policies.normalizer import OBS_CLIP, Normalizer
from ddp_ppo.protocols import EnvSpec
from tests.support.fixtures import Watched
from tests.support.models import HOPPER_STATE, random_model


def acted(output, action):
    return Acted(np.array(output, np.float32), np.array(action))


WIDE_STATE = {"mean": np.zeros(1000), "var": np.ones(1000), "count": 100.0}


class ToleranceTest(unittest.TestCase):
    def test_it_grows_with_the_root_of_the_longest_sum(self):  # S-1
        for obs_size, hidden, factor in ((11, (64,), 1.0), (11, (1024,), 2.0), (1024, (64,), 2.0), (256, (8,), 1.0)):
            network = NetworkSpec.for_env(EnvSpec("A", obs_size, "discrete", 2), hidden, "tanh")
            self.assertAlmostEqual(tolerance_of(network), factor * TOLERANCE, 12)


class ErrorTest(unittest.TestCase):
    box, choice = BoxAction((-np.inf, -np.inf), (np.inf, np.inf)), DiscreteAction(3)

    def test_it_is_the_largest_difference_where_outputs_are_small(self):
        expected = acted([[0.5, -0.25]], [[0.5, -0.25]])
        self.assertEqual(largest_error(expected, expected, self.box), 0.0)
        self.assertEqual(largest_error(acted([[0.5, -0.5]], [[0.5, -0.25]]), expected, self.box), 0.25)
        self.assertEqual(largest_error(acted([[0.5, -0.25]], [[0.375, -0.25]]), expected, self.box), 0.125)

    def test_it_is_a_part_of_the_row_s_largest_output_where_that_is_above_one(self):
        expected = acted([[1000.0, 1.0], [0.5, 0.5]], [[1.0, 1.0], [0.5, 0.5]])
        self.assertEqual(largest_error(acted([[1001.0, 1.0], [0.5, 0.5]], expected.action), expected, self.box), 0.001)

    def test_another_choice_counts_as_much_as_it_is_worse(self):
        expected = acted([[0.5, 0.5, 0.25]], [0])
        self.assertEqual(largest_error(acted(expected.output, [1]), expected, self.choice), 0.0)  # as good
        self.assertEqual(largest_error(acted(expected.output, [2]), expected, self.choice), 0.25)
        for outside in (-1, 3):
            self.assertEqual(largest_error(acted(expected.output, [outside]), expected, self.choice), math.inf)

    def test_nan_never_passes(self):
        model = random_model("tests.support.fixtures:Echo-v0", length=3)
        reference = torch_act(model)

        def sometimes_nan(obs, state):
            output, action = reference(obs, state)
            return Acted(np.where(obs == 2.0, np.nan, output), action)  # Count observes 0, 1, 2

        (parity,) = measure(model, {"a": sometimes_nan}, np.zeros((4, 1), np.float32))
        self.assertLessEqual(parity.obs_error, TOLERANCE)
        self.assertTrue(math.isnan(parity.episode_error))
        self.assertFalse(parity.has_passed)


class ObservationsTest(unittest.TestCase):
    def test_real_ones_come_first_and_extreme_ones_go_far_in_every_column(self):
        model = random_model("Hopper-v5", state=HOPPER_STATE)
        obs = observations(model)
        self.assertEqual((obs.shape, obs.dtype), ((NUM_REAL + NUM_EXTREME, 11), np.float32))
        self.assertGreaterEqual(len(obs), 10_000)
        real, extreme = obs[:NUM_REAL], obs[NUM_REAL:]
        self.assertTrue((np.abs(real[:, 5:]) <= 10.0).all(), "Hopper clips its velocities")
        self.assertGreater(len(np.unique(real, axis=0)), NUM_REAL // 2)
        deviations = np.abs(extreme - HOPPER_STATE["mean"]) / np.maximum(np.sqrt(HOPPER_STATE["var"]), 0.01)
        self.assertTrue((deviations.max(axis=0) > 1e5).all() and (deviations.min(axis=0) < 0.1).all())
        self.assertTrue(np.isfinite(obs).all())
        np.testing.assert_array_equal(observations(model), obs)

    def test_few_columns_of_a_wide_observation_are_extreme_at_once(self):  # S-1
        obs = observations(random_model("tests.support.brought:brought/Wide-v0", state=WIDE_STATE))
        is_far = np.abs(obs[NUM_REAL:]) > 2.0  # the environment's own are at most 1
        self.assertTrue(0 < is_far.sum(axis=1).max() <= 8)
        self.assertTrue(is_far.any(axis=0).all(), "every column is far in some of them")

    def test_an_environment_that_observes_nan_is_refused(self):
        model = random_model("tests.support.fixtures:Misbehaving-v0", how="nan_obs", at=3, number=Watched.num_built + 1)
        with self.assertRaisesRegex(EnvError, "not finite"):
            observations(model)

    def test_where_nothing_normalises_they_stay_within_ten_deviations(self):
        obs = observations(random_model("CartPole-v1"))
        real, extreme = obs[:NUM_REAL], obs[NUM_REAL:]
        deviations = np.abs(extreme - real.mean(0)) / np.maximum(real.std(0), 0.01)
        self.assertTrue(8.0 < deviations.max() < 10.1, deviations.max())


class ActTest(unittest.TestCase):
    def test_training_s_actors_act_as_the_policy_in_torch(self):
        for env_id, state in (("Hopper-v5", HOPPER_STATE), ("Hopper-v5", None), ("CartPole-v1", None)):
            model = random_model(env_id, state=state)
            (parity,) = measure(model, {"actors": policy_act(model)}, observations(model))
            with self.subTest(env_id, state=bool(state)):
                self.assertTrue(parity.has_passed, parity)

    def test_the_candidate_steers_its_episode(self):
        model = random_model("tests.support.fixtures:Echo-v0", length=5)  # the reward is the action
        model.parameters[:] = 0.0

        def steady(obs, state):
            output = np.full((len(obs), 1), 0.25, np.float32)
            return Acted(output, output)

        (parity,) = measure(model, {"steady": steady}, np.zeros((1, 1), np.float32))
        self.assertEqual(parity, ("steady", 0.25, 0.25, 1.25, 5, TOLERANCE))
        self.assertFalse(parity.has_passed)


class PlantedFaultsTest(unittest.TestCase):
    """What an export may do wrong."""

    def setUp(self):
        self.model = random_model("Hopper-v5", state=HOPPER_STATE)
        self.obs = observations(self.model)[:: NUM_REAL // 256]
        self.normalizer = Normalizer(11)
        self.normalizer.load(HOPPER_STATE)

    def output(self, obs, *, inv_std=None, clip=OBS_CLIP, activation=np.tanh, cast=np.float32):
        """The actor written out, with places for faults."""
        hidden, last = (layer.view(self.model.parameters) for layer in self.model.network.trunk("actor"))
        scale = self.normalizer.inv_std if inv_std is None else inv_std
        x = np.clip((obs - self.normalizer.mean) * scale, -clip, clip)
        x = activation(x @ cast(hidden[:-1]) + cast(hidden[-1]))
        return (x @ cast(last[:-1]) + cast(last[-1])).astype(np.float32)

    def error(self, output, action=None):
        action = decide(self.model, output) if action is None else action
        expected = torch_act(self.model)(self.obs, beginning(self.model, len(self.obs)))
        return largest_error(Acted(output, action), expected, self.model.env.action)

    def test_written_out_right_it_passes(self):
        self.assertLessEqual(self.error(self.output(self.obs)), TOLERANCE)

    def test_every_fault_is_found(self):
        right = self.output(self.obs)
        scaled = 1.0 / np.sqrt(HOPPER_STATE["var"] + 1e-5)
        faults = {
            "no clip of observations": self.output(self.obs, clip=np.inf),
            "another variance floor": self.output(self.obs, inv_std=scaled.astype(np.float32)),
            "another activation": self.output(self.obs, activation=lambda x: x / (1 + np.abs(x))),
            "half precision": self.output(self.obs, cast=np.float16),
            "columns in another order": self.output(self.obs[:, ::-1]),
            "actions in another order": right[:, ::-1],
        }
        for name, output in faults.items():
            with self.subTest(name):
                self.assertGreater(self.error(output), TOLERANCE)
        with self.subTest("no clip of actions"):
            self.assertGreater(self.error(right, action=right), TOLERANCE)


if __name__ == "__main__":
    unittest.main()
