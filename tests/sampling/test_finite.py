"""The first value of a rollout that is not finite: found where it arose, whatever follows from it."""

import math
import unittest

import numpy as np
import torch

from ddp_ppo.learners.ppo.learner import standardize
from ddp_ppo.policies.network import NetworkSpec
from ddp_ppo.sampling.finite import (
    SIMULATION_STATE,
    NotFinite,
    first_in_annotations,
    first_in_parameters,
    first_in_rollout,
    first_in_steps,
)

T, K, D, A = 6, 3, 4, 2


def columns(**bad):
    """Finite columns of an actor but for one NaN at each of the given places."""
    arrays = {
        "obs": np.zeros((T + 1, K, D), np.float32),
        "act": np.zeros((T, K, A), np.float32),
        "reward": np.zeros((T, K), np.float32),
        "truncated": np.zeros((T, K), np.bool_),
        "final_obs": np.zeros((T, K, D), np.float32),
        "value": np.zeros((T + 1, K), np.float32),
        "final_value": np.zeros((T, K), np.float32),
        "logp": np.zeros((T, K), np.float32),
        "adv": np.zeros((T, K), np.float32),
        "ret": np.zeros((T, K), np.float32),
    }
    for name, place in bad.items():
        arrays[name][place] = np.nan
    return arrays


class StepsTest(unittest.TestCase):
    def test_finite_steps_have_none(self):
        self.assertIsNone(first_in_steps(columns()))

    def test_observation_is_that_of_the_step_that_brought_it(self):  # O-21
        self.assertEqual(first_in_steps(columns(obs=(4, 1, 2))), NotFinite("observation", 1, 4, 2, "nan"))

    def test_observation_before_the_first_step_has_step_0(self):
        self.assertEqual(first_in_steps(columns(obs=(0, 2, 3))), NotFinite("observation", 2, 0, 3, "nan"))

    def test_action_and_reward_are_numbered_from_1(self):  # O-22
        self.assertEqual(first_in_steps(columns(act=(4, 1, 1))), NotFinite("action", 1, 5, 1, "nan"))
        self.assertEqual(first_in_steps(columns(reward=(4, 1))), NotFinite("reward", 1, 5, None, "nan"))

    def test_infinite_values_are_told_by_their_sign(self):  # O-22
        for value in (np.inf, -np.inf):
            arrays = columns()
            arrays["reward"][2, 0] = value
            self.assertEqual(first_in_steps(arrays), NotFinite("reward", 0, 3, None, str(value)))

    def test_earliest_step_wins_over_the_order_of_kinds(self):
        self.assertEqual(first_in_steps(columns(reward=(1, 0), obs=(4, 0, 0))).stage, "reward")
        self.assertEqual(first_in_steps(columns(reward=(4, 0), obs=(1, 0, 0))).stage, "observation")

    def test_within_a_step_the_observation_comes_before_the_action_before_the_reward(self):
        # obs row 3 is what step 3 brought; action row 3 is the one of step 4, decided on it.
        self.assertEqual(first_in_steps(columns(obs=(3, 0, 0), act=(3, 0, 0), reward=(3, 0))).stage, "observation")
        self.assertEqual(first_in_steps(columns(act=(3, 0, 0), reward=(3, 0), obs=(4, 0, 0))).stage, "action")
        self.assertEqual(first_in_steps(columns(reward=(3, 0), obs=(4, 0, 0))).stage, "reward")

    def test_final_observation_counts_only_where_an_episode_was_truncated(self):
        arrays = columns(final_obs=(3, 1, 2))
        self.assertIsNone(first_in_steps(arrays))
        arrays["truncated"][3, 0] = True
        self.assertIsNone(first_in_steps(arrays))
        arrays["truncated"][3, 1] = True
        self.assertEqual(first_in_steps(arrays), NotFinite("final observation", 1, 4, 2, "nan"))

    def test_whole_numbers_are_finite(self):
        self.assertIsNone(first_in_steps(columns() | {"act": np.zeros((T, K), np.int64)}))


class AnnotationsTest(unittest.TestCase):
    def test_finite_annotations_have_none(self):
        self.assertIsNone(first_in_annotations(columns()))

    def test_each_is_named_with_environment_and_step(self):
        for name, stage in (("value", "value"), ("logp", "logp"), ("adv", "advantage"), ("ret", "return")):
            self.assertEqual(first_in_annotations(columns(**{name: (4, 1)})), NotFinite(stage, 1, 5, None, "nan"))
        logits = np.zeros((T, K, 2), np.float32)
        logits[4, 1, 0] = np.nan
        self.assertEqual(first_in_annotations({"logits": logits}), NotFinite("logits", 1, 5, 0, "nan"))

    def test_what_is_computed_first_is_named_first(self):
        everywhere = {name: (2, 1) for name in ("value", "final_value", "logp", "adv", "ret")}
        for name, stage in (("value", "value"), ("final_value", "final value"), ("logp", "logp"), ("adv", "advantage")):
            self.assertEqual(first_in_annotations(columns(**everywhere)).stage, stage)
            del everywhere[name]

    def test_fields_that_a_learner_does_not_have_are_left_out(self):
        self.assertIsNone(first_in_annotations({"value": np.zeros((T + 1, K), np.float32)}))


class RolloutTest(unittest.TestCase):
    def test_steps_come_before_what_is_computed_from_them(self):
        self.assertEqual(first_in_rollout(columns(reward=(5, 0), adv=(0, 0))).stage, "reward")
        self.assertEqual(first_in_rollout(columns(adv=(0, 0))).stage, "advantage")
        self.assertIsNone(first_in_rollout(columns()))


class WordsTest(unittest.TestCase):
    def test_they_hold_the_place_and_the_names_that_are_known(self):
        bad = NotFinite("observation", 1, 4, 2, "nan")
        expected = "the observation of environment 9 is nan in step 4 of the rollout, column 2"
        self.assertEqual(bad.words(8), expected)
        self.assertEqual(bad._replace(name="cfrc_ext[3]").words(8), f"{expected} (cfrc_ext[3])")

    def test_the_state_of_a_simulation_says_where_it_was_seen(self):
        bad = NotFinite(SIMULATION_STATE, 1, 4, 2, "nan", "qpos[2] (rooty.angle)")
        expected = "the simulation state of environment 1 is nan in step 4 of the rollout: qpos[2] (rooty.angle)"
        self.assertEqual(bad.words(), f"{expected}; seen in the observation, column 2")
        self.assertEqual(bad._replace(column=None).words(), f"{expected}; seen in the reward")


class ParametersTest(unittest.TestCase):
    def test_the_first_one_is_named_as_in_a_state_dict(self):
        network = NetworkSpec(D, "gaussian", A, (5,), "tanh")
        # The actor's block [5, 5] is its weight [5, 4] transposed over its bias; then [6, 2], log_std [2], the critic.
        for place, expected in {
            0: "actor.0.weight[0, 0]",
            7: "actor.0.weight[2, 1]",
            24: "actor.0.bias[4]",
            25: "actor.2.weight[0, 0]",
            38: "log_std[1]",
            39: "critic.0.weight[0, 0]",
        }.items():
            flat = np.zeros(network.num_parameters, np.float32)
            self.assertEqual(first_in_parameters(network, flat), "")
            flat[place] = -np.inf
            self.assertEqual(first_in_parameters(network, flat), f"{expected} is -inf")


class StandardizedTest(unittest.TestCase):
    def test_a_bad_advantage_does_not_pass_as_equal_advantages(self):
        # Equal advantages become zeros; with a NaN among them their spread is NaN, which is above no limit either.
        for bad in (math.nan, math.inf):
            adv = standardize(torch.tensor([1.0, bad, 2.0]), torch.ones(3))
            self.assertFalse(torch.isfinite(adv).all())


if __name__ == "__main__":
    unittest.main()
