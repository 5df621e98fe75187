"""What is saved of learners that are equal, and of learners that differ; whole runs are in test_trainer."""

import unittest
from types import SimpleNamespace

import numpy as np
import torch

from ddp_ppo.learners.interface import Common
from ddp_ppo.maths.moments import empty_rms_state
from ddp_ppo.training.evaluator import Moment
from ddp_ppo.training.resume import RunState
from ddp_ppo.training.saving import Saver
from ddp_ppo.training.sync import Statistics, Sync


def own(value):
    """What one of two ranks goes on from: a learner whose parameters have this value."""
    return {"learner": {"parameters": torch.full((2,), value), "step": 3.0, "rate": value}, "actors": []}


def state(*, rounds_apart, number=7):
    return RunState(
        round=number,
        env_steps=448,
        elapsed_seconds=1.5,
        statistics=Statistics(empty_rms_state(2), empty_rms_state(1)),
        best_return=3.0,
        eval_return=2.0,
        sync={"rounds_apart": rounds_apart},
        own=own(1.0),
    )


class SaverTest(unittest.TestCase):
    def setUp(self):
        self.models, self.checkpoints = [], []
        self.ranks = [own(1.0), own(2.0)]
        group = SimpleNamespace(
            num_learners=2,
            gather=lambda value: self.ranks,
            collect=lambda name, value, seconds: self.ranks if name == "round 7" else [],
        )
        learner = SimpleNamespace(common=lambda: Common({"parameters": torch.zeros(2)}, {"step": torch.zeros(())}))
        self.saver = Saver(
            group,
            Sync(group, learner, (), interval=3, num_rounds=9),
            evaluator=SimpleNamespace(write_model=lambda moment, now: self.models.append((moment, now))),
            recorder=SimpleNamespace(checkpoint=lambda number, content: self.checkpoints.append((number, content))),
        )

    def written(self):
        """The parameters of the only model, and the only checkpoint's content."""
        ((moment, now),) = self.models
        ((number, content),) = self.checkpoints
        self.assertEqual((moment, number), (Moment(7, 448), 7))
        return now.parameters.tolist(), content

    def test_learners_that_differ_are_saved_each_as_it_is_beside_their_mean_which_is_the_model(self):  # C12
        for save in (self.saver.save, self.saver.save_alone):
            with self.subTest(save.__name__):
                self.models.clear(), self.checkpoints.clear()
                save(state(rounds_apart=2))
                parameters, content = self.written()
                self.assertEqual(parameters, [1.5, 1.5])
                np.testing.assert_array_equal(content["agreed"]["parameters"], [1.5, 1.5])
                self.assertEqual((content["agreed"]["rate"], content["sync"]), (1.0, {"rounds_apart": 2}))
                self.assertIs(content["ranks"][1], self.ranks[1])

    def test_learners_that_are_equal_are_saved_as_they_are(self):
        self.ranks = [own(1.0), own(1.0)]
        self.saver.save(state(rounds_apart=0))
        parameters, content = self.written()
        self.assertEqual(parameters, [1.0, 1.0])
        self.assertNotIn("agreed", content)

    def test_other_ranks_write_nothing(self):
        self.ranks = []
        self.saver.save(state(rounds_apart=2))
        self.saver.save_alone(state(rounds_apart=2))
        self.assertEqual((self.models, self.checkpoints), ([], []))

    def test_nothing_is_saved_alone_before_the_first_round_or_with_a_value_that_is_not_finite(self):
        self.saver.save_alone(state(rounds_apart=0, number=0))
        self.ranks[1] = own(float("nan"))
        self.saver.save_alone(state(rounds_apart=0))
        self.assertEqual((self.models, self.checkpoints), ([], []))


if __name__ == "__main__":
    unittest.main()
