"""Real runs in which something is wrong: what a person gets to see of it, and what a run takes of the machine."""

import unittest

from tests.support.process import FIXTURE, FolderTestCase, read_csv
from tests.support.results import events_of, numbers

# 12 steps without a reward, of 1,000 that the time limit allows; a round has 2 actors x 8 environments x 16 steps.
STEPS = 12
CONFIG = (
    FIXTURE.replace("Count-v0", "Script-v0")
    .replace("envs_per_actor: 2", "envs_per_actor: 8")
    .replace("total_env_steps: 640", "total_env_steps: 25_600")
    .replace("eval_interval: 5", "eval_interval: 50")
    + f"""
max_episode_steps: 1000
env_kwargs: {{rewards: {[0.0] * STEPS}, obs: {[*range(1, STEPS + 1)]}, reset_obs: 0, term_at: {STEPS - 1}}}
"""
)


class PlantedRunTest(FolderTestCase):
    """100 rounds of an environment that ends every episode after 12 steps and never rewards anything."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.ended = cls.train(cls.config("planted", CONFIG), "run_name=a")
        cls.home = cls.work / "output" / "planted-a"
        cls.rows = read_csv(cls.home / "metrics.csv")

    def test_nothing_met_and_short_episodes_are_events_once(self):  # N-25, D13
        rules = [event["rule"] for event in events_of(self.home)]
        self.assertEqual([rules.count(rule) for rule in ("lasting_shortness", "nothing_met")], [1, 1])

    def test_the_console_says_what_was_seen_and_what_to_check(self):
        self.assertRegex(
            self.ended.out, r"look: round \d+: nothing_met: each of [\d,]+ episodes has brought 0 \(check "
        )
        words = "lasting_shortness: episodes last 12.0 of 1,000 steps, at first 12.0 (check "
        self.assertIn(words, self.ended.out)

    def test_every_round_has_the_memory_and_the_cores_of_learner_and_actors(self):  # D17
        for name in ("learner_memory_mib", "actor_memory_mib", "largest_actor_mib"):
            self.assertTrue(all(20 < value < 4000 for value in numbers(self.rows, f"resource/{name}")), name)
        for row in self.rows:  # two actors that do the same
            largest, together = (float(row[f"resource/{name}_mib"]) for name in ("largest_actor", "actor_memory"))
            self.assertAlmostEqual(together, 2 * largest, delta=0.2 * largest)
        cores = [numbers(self.rows, f"resource/{name}_cores") for name in ("learner", "actor")]
        self.assertTrue(all(0 <= value < 2.2 for values in cores for value in values), cores)
        self.assertGreater(max(cores[0]), 0.05)

    def test_every_round_has_the_state_of_the_normaliser(self):  # D17
        self.assertEqual(numbers(self.rows, "normalizer/obs_count"), [256 * i for i in range(1, 101)])
        # The observation counts 0 to 11: mean 5.5, variance (12**2 - 1) / 12
        self.assertAlmostEqual(float(self.rows[-1]["normalizer/largest_obs_mean"]), 5.5, delta=0.1)
        self.assertAlmostEqual(float(self.rows[-1]["normalizer/obs_std_max"]) ** 2, 143 / 12, delta=0.3)
        self.assertEqual(self.rows[-1]["normalizer/obs_std_min"], self.rows[-1]["normalizer/obs_std_max"])
        self.assertAlmostEqual(float(self.rows[-1]["normalizer/reward_scale"]), 1e4, delta=1)  # 1 / sqrt(0 + 1e-8)


if __name__ == "__main__":
    unittest.main()
