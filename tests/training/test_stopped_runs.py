"""Runs that a signal ends: with a checkpoint, in time, and without a process that is left."""

import os
import signal
import time
import unittest

from tests.support.process import (
    FIXTURE,
    TINY,
    FolderTestCase,
    files_in,
    read_csv,
)
from tests.support.results import (
    differences,
    events_of,
    is_learner,
    last_checkpoint,
    load,
)


class SignalTest(FolderTestCase):
    def hanging(self, name):
        """A run whose only actor hangs in its first rollout."""
        calls = self.folder / name
        calls.mkdir()
        config = self.config(
            name, FIXTURE.replace("Count-v0", "Misbehaving-v0").replace("num_actors: 2", "num_actors: 1")
        )
        program = self.start(config, f"env_kwargs={{how: hang, at: 5, folder: {calls}}}")
        own = f"{program.process.pid}-"  # of the trial before the run
        others = lambda: [path.read_text() for path in calls.iterdir() if not path.name.startswith(own)]  # noqa: E731
        program.wait_until(lambda: "rsssss" in others(), "hanging actor")
        return program

    def test_ctrl_c_and_a_closed_terminal_end_a_run_with_a_checkpoint_of_its_last_round(self):  # O-44
        config = self.config("ctrl_c", TINY)
        words = ("total_env_steps=1e6", "checkpoint_interval=100000", "eval_interval=0")
        programs = {n: self.start(config, *words, f"run_name={n.name}") for n in (signal.SIGINT, signal.SIGHUP)}
        for number, program in programs.items():
            program.wait_until(lambda program=program: "round 2/" in program.out, "second round")
            program.signal_group(number)
        for number, program in programs.items():
            ended = program.end(10)
            self.assertEqual((ended.code, ended.left, ended.err), (128 + number, [], ""))
            (run,) = (path for path in (self.work / "output").glob(f"ctrl_c-{number.name}"))
            rows = read_csv(run / "metrics.csv")
            (checkpoint,) = (run / "checkpoints").iterdir()
            self.assertEqual(load(checkpoint)["round"], len(rows))
            self.assertFalse([name for name in files_in(run) if name.endswith(".tmp")])

    def test_a_second_ctrl_c_ends_a_run_at_once(self):  # O-44
        program = self.hanging("twice")
        program.signal_group(signal.SIGINT)
        with self.assertRaises(AssertionError):  # the first one waits for the round, which never ends here
            program.wait_until(lambda: False, "end", seconds=0.5)
        self.assertIsNone(program.process.poll())
        program.signal_group(signal.SIGINT)
        ended = program.end(3, grace_seconds=3)
        self.assertEqual((ended.code, ended.left), (130, []))
        self.assertNotIn("Traceback", ended.err)

    def test_ctrl_c_under_torchrun_ends_every_learner_with_a_checkpoint(self):  # O-44
        # It reaches the learners twice: from the terminal, and from torchrun.
        config = self.config("terminal", TINY)
        words = ("device=cpu", "num_gpus=2", "total_env_steps=1e6", "checkpoint_interval=100000", "eval_interval=0")
        program = self.start(config, *words, nproc=2)
        program.wait_until(lambda: "round 2/" in program.out, "second round")
        program.signal_group(signal.SIGINT)
        ended = program.end(15)
        self.assertEqual(ended.left, [])
        (run,) = (self.work / "output").glob("terminal-*")
        self.assertEqual(last_checkpoint(run)["round"], len(read_csv(run / "metrics.csv")))

    def test_ctrl_c_while_the_actors_start_ends_quietly(self):
        config = self.config("early", FIXTURE)
        program = self.start(config, "num_actors=8", "total_env_steps=1e8")
        program.wait_until(lambda: len(program.alive()) > 2, "actors")
        program.signal_group(signal.SIGINT)
        ended = program.end(15)
        self.assertEqual((ended.code, ended.left, ended.err), (130, [], ""))

    def test_sigterm_to_torchrun_alone_ends_every_learner_with_a_checkpoint(self):  # O-45
        config = self.config("launcher", TINY)
        words = ("device=cpu", "num_gpus=2", "total_env_steps=1e6", "checkpoint_interval=100000", "eval_interval=0")
        program = self.start(config, *words, nproc=2)
        program.wait_until(lambda: "round 2/" in program.out, "second round")
        os.kill(program.process.pid, signal.SIGTERM)
        ended = program.end(15)
        self.assertNotEqual(ended.code, 0)  # torchrun's own: 1
        self.assertEqual(ended.left, [])
        (run,) = (path for path in (self.work / "output").glob("launcher-*"))
        self.assertEqual(last_checkpoint(run)["round"], len(read_csv(run / "metrics.csv")))

    def test_a_learner_that_is_killed_ends_the_others(self):  # O-37
        config = self.config("killed", TINY)
        words = ("device=cpu", "num_gpus=2", "total_env_steps=1e6", "checkpoint_interval=1", "eval_interval=0")
        program = self.start(config, *words, nproc=2)
        program.wait_until(lambda: "round 4/" in program.out, "fourth round: the third one is saved")
        (victim,) = (pid for pid in program.alive() if is_learner(pid, rank=1))
        os.kill(victim, signal.SIGKILL)
        ended = program.end(60, grace_seconds=5)
        self.assertNotEqual(ended.code, 0)
        self.assertEqual(ended.left, [])
        self.assertRegex(ended.err, r"(?is)rank *: 1.*signal 9|rank 1.*SIGKILL|local_rank: 1.*Signal 9")
        (run,) = (path for path in (self.work / "output").glob("killed-*"))
        self.assertGreaterEqual(last_checkpoint(run)["round"], 3)


# Quick for one round of 16 steps; the second one would take half a minute.
LONG_ROUND = "env_id=tests.long.environments:Slow-v0", "env_kwargs={seconds: 1, slow_from: 16}"


class LongRoundTest(FolderTestCase):
    """A stop request in the middle of something long: the run ends in time, with what the last whole round has left."""

    SECONDS = 10.0

    def stopped(self, name, *words, nproc=None, until="round 1/"):
        """The end and the run folder of a run that gets TERM half a second after it has said something."""
        program = self.start(self.config(name, TINY), *words, "eval_interval=0", "total_env_steps=1e6", nproc=nproc)
        program.wait_until(lambda: until in program.out, until)
        with self.assertRaises(AssertionError):
            program.wait_until(lambda: False, "end", seconds=0.5)
        asked = time.monotonic()
        os.kill(program.process.pid, signal.SIGTERM)
        ended = program.end(30)
        self.assertLess(time.monotonic() - asked, self.SECONDS)
        self.assertEqual(ended.left, [])
        (run,) = (self.work / "output").glob(f"{name}-*")
        return ended, run

    def test_a_rollout_is_cut_short_and_the_round_before_it_saved(self):  # O-45
        ended, run = self.stopped("rollout", *LONG_ROUND, "envs_per_actor=1", "checkpoint_interval=1000")
        self.assertEqual((ended.code, ended.err), (143, ""))
        self.assertIn("stopped by a signal: 1 rounds", ended.out)
        self.assertEqual((last_checkpoint(run)["round"], len(read_csv(run / "metrics.csv"))), (1, 1))
        self.assertEqual(load(run / "model.pt")["spec"]["round"], 1)  # C17
        (event,) = events_of(run)
        self.assertEqual((event["event"], event["round"]), ("cut_short", 1))

    def test_several_learners_save_the_round_before_it_too(self):  # C14
        words = (*LONG_ROUND, "envs_per_actor=1", "checkpoint_interval=1000", "device=cpu", "num_gpus=2")
        ended, run = self.stopped("learners", *words, nproc=2)
        self.assertNotEqual(ended.code, 0)
        content = last_checkpoint(run)
        self.assertEqual((content["round"], len(content["ranks"])), (1, 2))

    def test_an_update_is_cut_short_and_the_round_before_it_kept(self):
        config = self.config("update", TINY)
        self.train(config, "total_env_steps=128", "eval_interval=0", "run_name=a")
        before = last_checkpoint(self.work / "output" / "update-a")
        words = ("num_epochs=1000000", "run_name=a", "resume=auto")
        ended, run = self.stopped("update", *words, until="after round 2")
        self.assertEqual((ended.code, ended.err), (143, ""))
        self.assertEqual(differences(last_checkpoint(run), before), [])

    def test_the_start_is_cut_short(self):
        words = ("env_id=tests.long.environments:Late-v0", f"env_kwargs={{seconds: 60, folder: {self.folder}}}")
        program = self.start(self.config("start", TINY), *words)
        program.wait_until(lambda: [*self.folder.glob("*-start")], "environments that are being built")
        asked = time.monotonic()
        os.kill(program.process.pid, signal.SIGTERM)
        ended = program.end(30)
        self.assertEqual((ended.code, ended.left, ended.err), (143, [], ""))
        self.assertLess(time.monotonic() - asked, self.SECONDS)


if __name__ == "__main__":
    unittest.main()
