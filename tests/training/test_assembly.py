"""The parts of a run, put together in this process with real actors, and what is left when they are closed."""

import multiprocessing
import tempfile
import unittest
from contextlib import ExitStack
from pathlib import Path

from ddp_ppo.config.settings import Config
from ddp_ppo.processes.stop_request import CutShort, StopRequest
from ddp_ppo.runs.console import Console
from ddp_ppo.training.assembly import Parts
from ddp_ppo.training.plan import prepare
from ddp_ppo.training.recorder import Recorder
from ddp_ppo.training.sampler import Frozen


class AssemblyTest(unittest.TestCase):
    def setUp(self):
        self.stop = StopRequest()
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory(prefix="ddp_ppo_test_")))

    def tearDown(self):
        self.assertEqual(multiprocessing.active_children(), [])

    def assembled(self, stack, **settings):
        """The starting point and the parts of a run in which 3 rounds are done."""
        sizes = {"num_actors": 2, "envs_per_actor": 2, "rollout_length": 8, "hidden_sizes": (8,)}
        plan = prepare(Config(output_dir=str(self.folder), run_name="a", **sizes, **settings), environ={})
        start = plan.starting_point()
        arguments = {"console": Console.silent(), "stop": self.stop, "num_done": lambda: 3}
        return start, Parts(plan, start, stack=stack, **arguments)

    def test_the_parts_are_ready_to_sample_and_to_train(self):
        with ExitStack() as stack:
            start, parts = self.assembled(stack, env_id="CartPole-v1")
            self.assertIsInstance(parts.recorder, Recorder)
            self.assertEqual(parts.learner.acting_parameters().tolist(), start.parameters.tolist())
            now = Frozen(start.parameters, start.obs_rms_state, start.return_rms_state)
            data = parts.sampler.collect(0, now)
            self.assertEqual(parts.learner.train_step(data.rollout)[1]["buffer_size"], 2 * 2 * 8)
            self.assertFalse(parts.sync.is_apart)

    def test_a_stop_before_the_actors_are_ready_leaves_a_run_folder_and_no_process(self):
        self.stop.is_overdue = True
        with self.assertRaises(CutShort), ExitStack() as stack:
            self.assembled(stack, env_id="CartPole-v1")
        self.assertTrue((self.folder / "config-a" / "events.jsonl").exists())


if __name__ == "__main__":
    unittest.main()
