"""When a policy is evaluated, which models are written of it, and what counts as the best one.

What an evaluation gives back is set by the test, as is what the disk takes; whole runs are in test_trainer.
"""

import math
import unittest
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np

from ddp_ppo.config.settings import Config
from ddp_ppo.maths.moments import empty_rms_state
from ddp_ppo.processes.stop_request import CutShort
from ddp_ppo.sampling.episodes import Episode
from ddp_ppo.training.evaluator import Evaluator, Moment
from ddp_ppo.training.resume import RunState
from ddp_ppo.training.sampler import Frozen
from ddp_ppo.training.sync import Statistics

STATISTICS = Statistics(empty_rms_state(2), {"mean": np.array([1.5]), "var": np.array([4.0]), "count": 8.0})
NOTHING = {"eval/return_mean": math.nan, "eval/return_std": math.nan, "eval/length_mean": math.nan}


class Disk:
    """A recorder that keeps what it is told, and takes models as long as `is_full` is not set."""

    def __init__(self):
        self.models, self.events, self.is_full = [], [], False

    def model(self, now, about, *, is_best):
        if not self.is_full:
            self.models.append(("best" if is_best else "current", about["round"], about.get("eval_return")))
        return not self.is_full

    def best_return(self, saved):
        return saved

    def event(self, kind, round_index, what):
        self.events.append((kind, round_index, what))


class EvaluatorTest(unittest.TestCase):
    def setUp(self):
        self.disk, self.episodes, self.seeds = Disk(), [], []
        self.is_cut = self.is_stopped = False

    def evaluator(self, *, interval=2, rank=0, num_rounds=9):
        """An evaluator of a run of so many rounds."""
        config = Config(eval_interval=interval, eval_episodes=3, seed=5)
        plan = SimpleNamespace(config=config, num_rounds=num_rounds, topology=SimpleNamespace(rank=rank))
        self.asked, self.checked = 0, []
        return Evaluator(
            plan,
            SimpleNamespace(evaluate=self.evaluate, stop=lambda: setattr(self, "is_stopped", True)),
            sync=SimpleNamespace(agreed_parameters=self.agreed),
            diagnosis=SimpleNamespace(require_finite=lambda parameters, num_done: self.checked.append(num_done)),
            recorder=self.disk,
            stop=SimpleNamespace(cuttable=self.cuttable),
        )

    def agreed(self):
        self.asked += 1
        return np.zeros(3, np.float32)

    @contextmanager
    def cuttable(self):
        if self.is_cut:
            raise CutShort
        yield

    def evaluate(self, seeds, now):
        self.seeds.append(seeds)
        return self.episodes

    def rounds(self, evaluator, returns):
        """The metrics of one round after the other; in each the policy reaches this return, None if it meets a NaN."""
        rows = []
        for number, value in enumerate(returns, 1):
            end = "reward nan" if value is None else "terminated"
            self.episodes = [Episode(7, value or 0.0, 4, end), Episode(8, value or 0.0, 6, "truncated")]
            rows.append(evaluator.after_round(Moment(number, 64 * number), STATISTICS))
        return rows

    def test_it_evaluates_in_every_interval_and_after_the_last_round(self):
        rows = self.rounds(self.evaluator(num_rounds=5), [1.0, 2.0, 3.0, 4.0, 5.0])
        found = [row["eval/return_mean"] for row in rows]
        self.assertEqual(repr(found), repr([math.nan, 2.0, math.nan, 4.0, 5.0]))
        self.assertEqual((rows[1]["eval/return_std"], rows[1]["eval/length_mean"]), (0.0, 5.0))
        self.assertEqual(self.seeds, [self.seeds[0]] * 3)
        self.assertEqual(self.checked, [2, 4, 5])

    def test_interval_0_is_the_last_round_alone(self):
        self.rounds(self.evaluator(interval=0, num_rounds=5), [1.0] * 5)
        self.assertEqual(self.checked, [5])

    def test_other_ranks_come_along_for_what_all_agree_on_and_evaluate_nothing(self):
        rows = self.rounds(self.evaluator(rank=1), [1.0, 2.0])
        self.assertEqual((repr(rows), self.asked), (repr([NOTHING] * 2), 1))
        self.assertEqual((self.seeds, self.disk.models), ([], []))

    def test_a_model_carries_its_own_return_and_the_best_is_the_first_of_the_highest(self):
        evaluator = self.evaluator(interval=1)
        self.rounds(evaluator, [1.0, 3.0, 3.0, 2.0])
        self.assertEqual(
            [model for model in self.disk.models if model[0] == "best"], [("best", 1, 1.0), ("best", 2, 3.0)]
        )
        current = [(f"{number}", value) for kind, number, value in self.disk.models if kind == "current"]
        self.assertEqual(current, [("1", 1.0), ("2", 3.0), ("3", 3.0), ("4", 2.0)])
        self.assertEqual((evaluator.eval_return, evaluator.best_return), (2.0, 3.0))

    def test_a_value_that_is_not_finite_is_named_and_never_the_best(self):
        evaluator = self.evaluator(interval=1)
        rows = self.rounds(evaluator, [None, 1.0, None])
        self.assertTrue(math.isnan(rows[0]["eval/return_mean"]) and math.isnan(evaluator.eval_return))
        self.assertEqual(evaluator.best_return, 1.0)
        what = "the evaluation of round 1 does not count: reward nan in step 4 of the episode of seed 7"
        self.assertEqual(self.disk.events[0], ("non_finite", 1, what))

    def test_episodes_that_are_cut_are_told_of_once(self):  # H-g
        evaluator = self.evaluator(interval=1)
        for number in (1, 2):
            self.episodes = [Episode(7, 1.0, 10_000, "cut"), Episode(8, 1.0, 6, "terminated")]
            evaluator.after_round(Moment(number, 64), STATISTICS)
        what = "1 of 2 evaluation episodes had no end: cut after 10,000 steps; max_episode_steps sets another limit"
        self.assertEqual(self.disk.events, [("evaluation_cut", 1, what)])

    def test_a_best_model_counts_once_it_is_written_and_is_tried_after_every_round(self):
        evaluator = self.evaluator(interval=2)
        self.disk.is_full = True
        self.rounds(evaluator, [0.0, 5.0, 0.0, 4.0])
        self.assertTrue(math.isnan(evaluator.best_return))
        self.disk.is_full = False
        self.rounds(evaluator, [0.0])  # in which none is evaluated
        self.assertEqual((self.disk.models, evaluator.best_return), ([("best", 2, 5.0)], 5.0))

    def test_an_evaluation_that_a_stop_request_cuts_short_says_nothing_and_ends_the_actors(self):
        evaluator = self.evaluator()
        self.is_cut = True
        self.assertEqual(repr(self.rounds(evaluator, [1.0, 2.0])), repr([NOTHING] * 2))
        self.assertEqual((self.disk.models, self.is_stopped), ([], True))

    def test_a_model_is_written_once_for_a_round(self):
        evaluator, now = self.evaluator(), Frozen(np.zeros(3, np.float32), *STATISTICS)
        self.rounds(evaluator, [1.0, 2.0])
        for number in (2, 3, 3):
            evaluator.write_model(Moment(number, 64 * number), now)
        self.assertEqual(self.disk.models, [("current", 2, 2.0), ("best", 2, 2.0), ("current", 3, None)])

    def test_a_model_that_could_not_be_written_is_written_with_the_next_checkpoint(self):
        evaluator, now = self.evaluator(), Frozen(np.zeros(3, np.float32), *STATISTICS)
        self.disk.is_full = True
        evaluator.write_model(Moment(3, 192), now)
        self.disk.is_full = False
        evaluator.write_model(Moment(3, 192), now)
        self.assertEqual(self.disk.models, [("current", 3, None)])

    def test_a_resumed_run_leaves_the_model_of_its_evaluation_and_a_better_one_alone(self):
        for done, written in ((4, []), (5, [("current", 5, None)])):
            with self.subTest(done):
                self.setUp()
                evaluator = self.evaluator(interval=2)
                state = RunState(
                    round=done,
                    env_steps=64,
                    elapsed_seconds=1.0,
                    statistics=STATISTICS,
                    best_return=9.0,
                    eval_return=3.0,
                )
                evaluator.resume(state)
                evaluator.write_model(Moment(done, 64), Frozen(np.zeros(3, np.float32), *STATISTICS))
                self.assertEqual(self.disk.models, written)
                self.rounds(evaluator, [0.0, 8.0])
                self.assertNotIn("best", [kind for kind, *_ in self.disk.models])


if __name__ == "__main__":
    unittest.main()
