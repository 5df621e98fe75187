"""How many actors share the environments changes nothing of a run's result, and not where a resume continues (C2, C18).

Compared are parameters and metrics, to the last bit. The means of reward terms alone are taken over each actor's
environments first, so their last digits may differ.
"""

import unittest

import numpy as np

from tests.support.counting_model import ENV_ID, POLICY
from tests.support.process import FolderTestCase, read_csv, without_times
from tests.support.results import differences, last_checkpoint, load, numbers

# 12 environments are two blocks of 6: with 3 actors the second one has a part of each.
CONFIG = """
num_envs: 12
rollout_length: 8
total_env_steps: 288
minibatch_size: 48
num_epochs: 2
hidden_sizes: [16]
eval_interval: 0
eval_episodes: 1
checkpoint_interval: 100
learner_threads: 1
"""
ALL = ("1", "2", "3", "4", "auto")
# Words of a task, and numbers of actors; those of policies in torch take long to start.
TASKS = {
    "cheetah": (("env_id=HalfCheetah-v5", "max_episode_steps=5"), ALL),
    "cartpole": (("env_id=CartPole-v1", "max_episode_steps=14"), ("1", "3")),
    "counting": ((f"env_id={ENV_ID}", f"policy_backend={POLICY}"), ("1", "3")),
    "torch": (("env_id=HalfCheetah-v5", "max_episode_steps=5", "policy_backend=torch"), ("1", "3")),
}


class NumberOfActorsTest(FolderTestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        yaml = cls.config("run", CONFIG)
        for task, (words, counts) in TASKS.items():
            cls.run_all(*(["train", yaml, *words, f"num_actors={one}", f"run_name={task}-{one}"] for one in counts))

    def pairs(self, name, read):
        """Task, number of actors, and what a file holds: for one actor and for that number."""
        for task, (_, counts) in TASKS.items():
            first, *others = (read(self.run_of(task, one) / name) for one in counts)
            yield from ((task, one, first, other) for one, other in zip(counts[1:], others, strict=True))

    def run_of(self, task, count):
        return self.work / "output" / f"run-{task}-{count}"

    def test_parameters_and_statistics_are_the_same_to_the_last_bit(self):
        for task, count, expected, found in self.pairs("model.pt", load):
            with self.subTest(task, num_actors=count):
                self.assertEqual(found["obs_rms_state"]["count"], 288.0)
                self.assertEqual(differences(found, expected), [])

    def test_metrics_are_the_same_to_the_last_digit_but_for_means_of_reward_terms(self):
        for task, count, expected, found in self.pairs("metrics.csv", lambda path: without_times(read_csv(path))):
            with self.subTest(task, num_actors=count):
                self.assertEqual(len(found), 3)
                self.assertGreater(float(found[-1]["rollout/episodes"]), 0)
                terms = {name for name in found[0] if name.startswith("reward/")}
                self.assertEqual(
                    *([{key: row[key] for key in row.keys() - terms} for row in rows] for rows in (found, expected))
                )
                for name in terms:
                    np.testing.assert_allclose(numbers(found, name), numbers(expected, name), rtol=1e-5, atol=1e-9)

    def test_the_checkpoint_says_how_many_actors_there_were(self):
        sizes = {"1": [12], "2": [6, 6], "3": [4, 4, 4], "4": [3, 3, 3, 3]}
        for count, expected in sizes.items():
            (rank,) = last_checkpoint(self.run_of("cheetah", count))["ranks"]
            self.assertEqual([len(actor["episode_return"]) for actor in rank["actors"]], expected)


if __name__ == "__main__":
    unittest.main()
