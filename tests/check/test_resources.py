"""The stage that judges what a run takes: memory near the limit, and an environment that keeps memory."""

import math
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from ddp_ppo.check import resources
from ddp_ppo.check.resources import check_resources
from ddp_ppo.check.trial import Report, Trial
from ddp_ppo.config.settings import Config
from ddp_ppo.machine import this_machine
from ddp_ppo.training.plan import prepare

SMALL = {"num_actors": 1, "envs_per_actor": 2, "rollout_length": 32, "minibatch_size": 32, "hidden_sizes": (8,)}
ROW = {"learner_memory_mib": 300.0, "actor_memory_mib": 200.0, "learner_cores": 0.5, "actor_cores": 0.25}
ROW = {f"resource/{name}": value for name, value in ROW.items()}


class ResourcesTest(unittest.TestCase):
    def look(self, env="Point", row=ROW, memory_gib=16.0, **settings):
        """What the stage finds after a training with this last row on a machine with so much memory."""
        config = Config(env_id=f"tests.support.planted_faults:{env}-v0", **SMALL, **settings)
        trial = Trial(prepare(config, environ={}), {}, Path(self.enterContext(tempfile.TemporaryDirectory())), [row])
        report, machine = Report(), this_machine()._replace(memory_bytes=int(memory_gib * 2**30))
        with mock.patch.object(resources, "this_machine", return_value=machine):
            check_resources(trial, report)
        return report

    def test_a_healthy_task_has_figures_and_nothing_else(self):
        report = self.look()
        self.assertEqual((report.faults, report.notes), ([], []))
        self.assertEqual(report.figures["memory"], "0.49 GiB in all, 300 MiB for a learner")
        self.assertEqual(report.figures["busy cores"], "learner 0.50, its actors 0.25")
        self.assertRegex(report.figures["memory over steps"], r"^[0-9.]+ -> [0-9.]+ MiB in [0-9,]+ steps$")

    def test_memory_near_the_limit_is_a_note_and_beyond_it_a_fault(self):
        words = "the run's processes take 0.49 GiB of 0.{} GiB; use fewer actors"
        self.assertEqual(self.look(memory_gib=0.55).notes, [words.format(55)])  # 89 %
        self.assertEqual(self.look(memory_gib=0.4).faults, [words.format(40)])

    def test_a_system_that_does_not_tell_is_not_judged(self):
        report = self.look(row=dict.fromkeys(ROW, math.nan), memory_gib=0.1)
        self.assertEqual(report.faults, [])
        self.assertNotIn("memory", report.figures)

    def test_an_environment_that_keeps_memory_is_found(self):
        (note,) = self.look("Leaking", total_env_steps=100_000).notes
        self.assertRegex(note, r"^memory grows by [0-9,]+ bytes per environment step, .* over the run: the environment")
        per_step = int(note.split(" by ")[1].split(" bytes")[0].replace(",", ""))
        self.assertAlmostEqual(per_step, 10_000, delta=2_000)  # what it keeps
        (fault,) = self.look("Leaking", total_env_steps=100_000_000).faults
        self.assertIn("GiB over the run", fault)


if __name__ == "__main__":
    unittest.main()
