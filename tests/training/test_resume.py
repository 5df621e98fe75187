"""What a checkpoint holds of a run, and which part of it a learner goes on from; whole runs are in test_trainer."""

import unittest
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch

from ddp_ppo.config.load import load_config
from ddp_ppo.learners.starting_point import StartingPoint
from ddp_ppo.maths.moments import empty_rms_state
from ddp_ppo.policies.network import NetworkSpec
from ddp_ppo.protocols import EnvSpec
from ddp_ppo.runs.files import CheckpointError
from ddp_ppo.training.plan import prepare
from ddp_ppo.training.resume import Resumed, RunState, is_finite, restore_learner
from ddp_ppo.training.sync import Statistics
from tests.support.fixtures import whole_checkpoint
from tests.support.process import FIXTURE, FolderTestCase, read_csv
from tests.support.results import load, numbers

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


class OlderCheckpointTest(FolderTestCase):
    """Four rounds with a reward of -1 a step; then on from the first one with -3."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        text = FIXTURE.replace("Count-v0", "Script-v0").replace("640", "256")
        cls.file = cls.config("script", text.replace("interval: 5", "interval: 1"))
        cls.home = cls.work / "output" / "script-a"
        cls.words = ("run_name=a", "keep_checkpoints=9", f"metrics_path={cls.work}/m.csv")
        cls.script = "env_kwargs={rewards: [%d], obs: [1], reset_obs: 0, term_at: 0}"
        cls.train(cls.file, *cls.words, cls.script % -1)
        cls.before = {name: (cls.home / name).read_bytes() for name in ("model.pt", "model_best.pt")}
        cls.rows = (cls.work / "m.csv").read_text()
        older = cls.home / "checkpoints" / "checkpoint_0000001.pt"
        cls.ended = cls.train(cls.file, *cls.words, cls.script % -3, f"resume={older}")
        cls.aside = cls.home / "until_round_4"

    def test_later_checkpoints_and_the_files_of_that_time_are_kept_and_it_is_said(self):  # H-c
        names = sorted(path.name for path in (self.aside / "checkpoints").iterdir())
        self.assertEqual(names, [f"checkpoint_000000{number}.pt" for number in (2, 3, 4)])
        self.assertEqual({name: (self.aside / name).read_bytes() for name in self.before}, self.before)
        self.assertEqual((self.aside / "metrics.csv").read_text(), self.rows)
        self.assertIn(f"are kept in {self.aside}", self.ended.out)
        plan = prepare(load_config(self.file, (*self.words, f"resume={self.aside}")), environ={})
        self.assertEqual(plan.resumed.content["round"], 4)

    def test_a_better_model_stays_the_best(self):  # H-c
        self.assertEqual((self.home / "model_best.pt").read_bytes(), self.before["model_best.pt"])
        self.assertEqual(load(self.home / "model.pt")["spec"]["eval_return"], -3.0)

    def test_the_metrics_go_on_behind_the_older_checkpoint(self):
        self.assertEqual(numbers(read_csv(self.work / "m.csv"), "round"), [1, 2, 3, 4])

    def test_a_metrics_file_that_another_run_has_written_since_is_refused(self):  # D10
        metrics = self.work / "m.csv"
        ours = metrics.read_bytes()
        self.addCleanup(metrics.write_bytes, ours)
        self.train(self.file, *self.words, self.script % -1, "run_name=b", "total_env_steps=64")
        theirs = metrics.read_bytes()
        code, _, err = self.command_line("train", self.file, *self.words, f"resume={self.home}")
        self.assertEqual((code, len(err.splitlines())), (2, 1))
        self.assertIn(f"metrics_path: {metrics} holds the metrics of another run", err)
        self.assertEqual(metrics.read_bytes(), theirs)

    def test_a_metrics_file_that_was_cut_is_told(self):  # H-d
        metrics = self.work / "m.csv"
        ours = metrics.read_bytes()
        self.addCleanup(metrics.write_bytes, ours)
        metrics.write_bytes(ours[:-3])
        plan = prepare(load_config(self.file, (*self.words, f"resume={self.home}")), environ={})
        self.assertIn(f"{metrics} lacks round 4: it was cut", " ".join(plan.notes))


if __name__ == "__main__":
    unittest.main()
