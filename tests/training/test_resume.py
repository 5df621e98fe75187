"""What a checkpoint holds of a run, and which part of it a learner goes on from; whole runs are in test_trainer."""

import unittest
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch

from ddp_ppo.learners.starting_point import StartingPoint
from ddp_ppo.maths.moments import empty_rms_state
from ddp_ppo.policies.network import NetworkSpec
from ddp_ppo.protocols import EnvSpec
from ddp_ppo.runs.files import CheckpointError
from ddp_ppo.training.resume import Resumed, RunState, is_finite, restore_learner
from ddp_ppo.training.sync import Statistics
from tests.support.fixtures import whole_checkpoint

ENV = EnvSpec("A-v0", 2, "discrete", 2)
NETWORK = NetworkSpec.for_env(ENV, (4,), "tanh")
OWN = {"learner": {"parameters": torch.zeros(3)}, "actors": [{"env": None}]}


def state(**changes):
    fields = {"round": 7, "env_steps": 448, "elapsed_seconds": 1.5, "best_return": 3.0, "eval_return": 2.0}
    fields |= {"statistics": Statistics(empty_rms_state(2), empty_rms_state(1)), "sync": {"rounds_apart": 0}}
    return RunState(**{**fields, "own": OWN, **changes})


class RunStateTest(unittest.TestCase):
    def test_a_checkpoint_holds_what_is_common_once_and_every_rank_s_own(self):
        content = state().content([OWN, OWN], None)
        self.assertEqual(content["ranks"], [OWN, OWN])
        self.assertEqual((content["env_steps"], content["best_return"], content["eval_return"]), (448, 3.0, 2.0))
        self.assertEqual({"network", "env", *content} - {"sync"}, whole_checkpoint(NETWORK, ENV).keys())

    def test_what_learners_that_differ_agree_on_stands_beside_their_own(self):
        content = state(sync={"rounds_apart": 2}).content([OWN, OWN], OWN["learner"])
        self.assertEqual((content["agreed"], content["sync"]), (OWN["learner"], {"rounds_apart": 2}))
        self.assertTrue(state(sync={"rounds_apart": 2}).is_apart)

    def test_what_all_ranks_share_comes_back_from_a_checkpoint(self):
        content = {"round": 7, **state().content([OWN], None)}
        self.assertEqual(repr(RunState.of(content)), repr(state(sync={}, own={})))

    def test_before_the_first_round_nothing_is_done(self):
        first = RunState.first(StartingPoint(np.zeros(3), empty_rms_state(2), empty_rms_state(1)))
        self.assertEqual((first.round, first.env_steps, first.elapsed_seconds), (0, 0, 0.0))
        self.assertTrue(np.isnan([first.best_return, first.eval_return]).all())

    def test_one_rank_with_a_parameter_that_is_not_finite_is_noticed(self):
        broken = {"learner": {"parameters": torch.tensor([0.0, float("nan")])}}
        self.assertTrue(is_finite([OWN, OWN]))
        self.assertFalse(is_finite([OWN, broken]))


class RestoreLearnerTest(unittest.TestCase):
    """Which state a rank's learner goes on from."""

    def setUp(self):
        self.said = []

    def restored(self, content, *, num_learners, rank=0, is_drifting=True):
        """The value of the state that is loaded, and what Sync goes on from."""
        loaded = []
        job = SimpleNamespace(topology=SimpleNamespace(rank=rank, num_learners=num_learners))
        learner = SimpleNamespace(is_drifting=is_drifting, load_state_dict=lambda state: loaded.append(state) or ())
        sync = restore_learner(Resumed(Path("a.pt"), content), job, learner, self.said.append)
        (found,) = loaded
        return found["value"], sync["rounds_apart"]

    def content(self, *values, agreed=None):
        """A checkpoint of learners whose states have these values."""
        ranks = [{"learner": {"value": value}} for value in values]
        is_apart = agreed is not None
        return {
            "ranks": ranks,
            "sync": {"rounds_apart": 2 * is_apart},
            **({"agreed": {"value": agreed}} if is_apart else {}),
        }

    def test_learners_that_differ_go_on_so_where_they_are_as_many_as_they_were(self):  # C18
        apart = self.content(1, 2, 6, agreed=3)
        for rank, value in enumerate((1, 2, 6)):
            self.assertEqual(self.restored(apart, num_learners=3, rank=rank), (value, 2))
        self.assertEqual(self.said, [])

    def test_another_number_of_learners_starts_from_what_they_agreed_on_and_is_told(self):  # C12
        apart = self.content(1, 2, 6, agreed=3)
        for num_learners in (1, 2, 4):
            for rank in range(num_learners):
                self.assertEqual(self.restored(apart, num_learners=num_learners, rank=rank), (3, 0))
        self.assertIn("note: the checkpoint has 3 learners, this run 2: all start from the same state", self.said)

    def test_learners_that_are_equal_after_every_step_start_equal(self):
        self.assertEqual(self.restored(self.content(1, 2, agreed=5), num_learners=2, rank=1, is_drifting=False), (5, 0))

    def test_equal_learners_keep_what_each_has_for_itself_as_far_as_there_are_as_many(self):
        equal = self.content(1, 2)
        found = [self.restored(equal, num_learners=3, rank=rank, is_drifting=False)[0] for rank in range(3)]
        self.assertEqual(found, [1, 2, 1])

    def test_a_state_of_another_learner_is_named(self):
        def load(state):
            return state["exp_avg"]

        learner = SimpleNamespace(is_drifting=True, load_state_dict=load)
        job = SimpleNamespace(topology=SimpleNamespace(rank=0, num_learners=1))
        with self.assertRaisesRegex(CheckpointError, "a.pt is not a checkpoint of this learner: it lacks 'exp_avg'"):
            restore_learner(Resumed(Path("a.pt"), self.content(1)), job, learner, self.said.append)


if __name__ == "__main__":
    unittest.main()
