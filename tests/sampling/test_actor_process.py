"""One actor's process: what it does in turn, and how another one takes its place."""

import multiprocessing
import unittest

from ddp_ppo.config.settings import Config
from ddp_ppo.sampling.actor_process import START, ActorProcess
from tests.support.process import actor_jobs


class ActorProcessTest(unittest.TestCase):
    def setUp(self):
        options = {"env_id": "tests.support.fixtures:Count-v0", "env_kwargs": {"length": 20}}
        config = Config(num_actors=1, envs_per_actor=1, rollout_length=8, hidden_sizes=(8,), **options)
        block, (job,) = actor_jobs(config)
        self.addCleanup(block.close)
        self.actor = ActorProcess(job)
        self.addCleanup(self.stop)
        self.actor.state = self.answer()  # of START

    def stop(self):
        self.actor.stop(0.0)
        self.assertEqual(multiprocessing.active_children(), [])

    def answer(self):
        """What it answers next."""
        kind, answer = self.actor.receive()
        self.assertIn(kind, ("ready", "done"), answer)
        return answer

    def told(self):
        """The names of what it has still to answer."""
        return [command[0] for command in self.actor.to_do]

    def test_it_does_one_thing_after_the_other(self):
        for command in (("sample", 0, 0), ("sample", 1, 0), ("evaluate", [1], 0)):
            self.actor.tell(command)
        self.assertEqual(self.told(), ["sample", "sample", "evaluate"])
        self.assertEqual([self.answer().episodes, self.answer().episodes], [0, 0])  # 16 of 20 steps
        self.assertEqual((self.told(), self.answer()[0].length, self.told()), (["evaluate"], 20, []))

    def test_another_process_stands_where_it_stood_and_does_again_what_it_was_told_last(self):
        self.actor.tell(("sample", 0, 0))
        self.actor.state = self.answer().state  # after 8 steps
        self.actor.tell(("sample", 1, 0))
        before = self.actor.process.pid
        self.actor.restart()
        self.assertNotEqual(self.actor.process.pid, before)
        self.assertEqual((self.told(), self.actor.state), ([START[0], "restore", "sample"], None))
        self.answer(), self.answer()
        self.assertEqual(self.actor.state["episode_length"].tolist(), [8])
        self.assertEqual(self.answer().state["episode_length"].tolist(), [16])

    def test_steps_are_a_sign_of_life(self):
        self.actor.watch()
        self.actor._since -= 100.0
        self.assertGreaterEqual(self.actor.silent_seconds(), 100.0)
        self.actor.job.block.arrays["progress"][0] += 1
        self.assertLess(self.actor.silent_seconds(), 50.0)


if __name__ == "__main__":
    unittest.main()
