"""How many actors share the environments changes nothing of a run's result, and not where a resume continues (C2, C18).

Compared are parameters and metrics, to the last bit. The means of reward terms alone are taken over each actor's
environments first, so their last digits may differ.
"""

import json
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
learning_rate_schedule: constant
"""
ALL = ("1", "2", "3", "4", "auto")
# Words of a task, and numbers of actors; those of policies in torch take long to start.
TASKS = {
    "cheetah": (("env_id=HalfCheetah-v5", "max_episode_steps=5"), ALL),
    "cartpole": (("env_id=CartPole-v1", "max_episode_steps=14"), ("1", "3")),
    "counting": ((f"env_id={ENV_ID}", f"policy_backend={POLICY}"), ("1", "3")),
    "torch": (("env_id=HalfCheetah-v5", "max_episode_steps=5", "policy_backend=torch"), ("1", "2")),
}


class NumberOfActorsTest(FolderTestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        yaml = cls.config("run", CONFIG)
        for task, (words, counts) in TASKS.items():
            cls.run_all(*(["train", yaml, *words, f"num_actors={one}", f"run_name={task}-{one}"] for one in counts))

        for task in ("cartpole", "counting"):
            words = (yaml, *TASKS[task][0], f"run_name={task}-resumed")
            cls.resumed = cls.run_all(
                ["train", *words, "num_actors=4", "total_env_steps=192"],
                ["train", *words, "num_actors=3", f"resume={cls.work}/output/run-{task}-resumed"],
            )

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

    def test_a_run_resumed_with_other_actors_continues_in_mid_episode_to_the_last_bit(self):
        for task in ("cartpole", "counting"):
            found, expected = (self.run_of(task, name) for name in ("resumed", "1"))
            self.assertEqual(differences(load(found / "model.pt"), load(expected / "model.pt")), [])
            found, expected = (without_times(read_csv(run / "metrics.csv"))[-1] for run in (found, expected))
            self.assertEqual(found, expected)
        self.assertIn("note: other actors than before: the global random generators", self.resumed.out)

    def test_a_run_s_files_say_how_many_actors_there_were(self):
        sizes = {"1": [12], "2": [6, 6], "3": [4, 4, 4], "4": [3, 3, 3, 3]}
        for count, expected in sizes.items():
            (rank,) = last_checkpoint(self.run_of("cheetah", count))["ranks"]
            self.assertEqual([len(actor["episode_return"]) for actor in rank["actors"]], expected)
            in_force = json.loads((self.run_of("cheetah", count) / "versions.json").read_text())
            self.assertTrue(in_force["actors"].startswith(f"{count} for each learner x {expected[0]} environments"))
            self.assertEqual((in_force["learners"], in_force["env_backend"], in_force["threads"]), ("1", "mujoco", "1"))
        self.assertIn('num_actors: "auto"', (self.run_of("cheetah", "auto") / "config.yaml").read_text())


if __name__ == "__main__":
    unittest.main()
