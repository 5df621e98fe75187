"""Which settings are tried, and one that is measured."""

import io
import unittest

from ddp_ppo.check.bench import Candidate, candidates, run
from ddp_ppo.config.settings import Config
from ddp_ppo.runs.console import Console

CONFIG = Config(env_id="CartPole-v1", num_actors=2, envs_per_actor=4, rollout_length=32, hidden_sizes=(8,))


class CandidatesTest(unittest.TestCase):
    def test_the_configuration_s_own_setting_comes_first_and_all_others_have_as_many_samples(self):
        first, *others = candidates(CONFIG, num_cores=4)
        self.assertEqual((first.num_actors, first.num_envs, first.rollout_length), (2, 8, 32))
        self.assertGreater(len(others), 3)
        for one in others:
            self.assertEqual(one.num_envs * one.rollout_length, 256, one)
            self.assertEqual(one.num_envs % one.num_actors, 0, one)
            self.assertGreaterEqual(one.rollout_length, 16)
        self.assertEqual(len({one.words for one in (first, *others)}), 1 + len(others))

    def test_samples_that_cannot_be_spread_alike_are_not_tried(self):
        odd = Config(env_id="CartPole-v1", num_actors=1, envs_per_actor=1, rollout_length=17)
        self.assertEqual([one.words for one in candidates(odd, num_cores=2)], [Candidate(1, 1, 17).words])

    def test_words_are_those_of_the_command_line(self):
        self.assertEqual(Candidate(2, 8, 32).words, "num_actors=2 num_envs=8 rollout_length=32")


class RunTest(unittest.TestCase):
    def test_without_time_the_configuration_s_own_setting_is_measured_and_is_the_quickest(self):
        stream = io.StringIO()
        (one,) = run(CONFIG, environ={}, seconds=0.0, console=Console(stream))
        self.assertGreater(min(one.steps_per_second, one.sample_seconds, one.train_seconds), 0.0)
        last = [line for line in stream.getvalue().splitlines() if line.startswith("fastest")]
        self.assertIn(f"{one.words}: 1.00 times the configuration's own speed", last[0])


if __name__ == "__main__":
    unittest.main()
