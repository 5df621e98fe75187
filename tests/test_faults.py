"""Faults of whole runs that no module owns: machine limits, live folders, damaged files, unusual environments."""

import os
import signal
import socket
import unittest
from pathlib import Path

import numpy as np
import torch

from ddp_ppo.config.load import load_config
from ddp_ppo.config.settings import ConfigError
from ddp_ppo.envs.build import make_batch_env
from ddp_ppo.policies.numpy_policy import NumpyPolicy
from ddp_ppo.runs.checkpoint import find_checkpoint
from ddp_ppo.runs.model import load_model
from ddp_ppo.sampling.drive import Player
from ddp_ppo.sampling.episodes import evaluation_seeds, run_block
from tests.long.mounts import can_mount
from tests.support.process import FIXTURE, ROOT, TINY, FolderTestCase, Program, files_in, read_csv, succeeded
from tests.support.results import load, numbers, tensors

MOUNTS = ROOT / "tests" / "long" / "mounts.py"
LIMITED = (
    "import os, resource, sys\n"
    "resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]),) * 2)\n"
    "os.execv(sys.executable, [sys.executable, *sys.argv[2:]])"
)


def own(name, text=FIXTURE):
    """A configuration of one actor in an environment of tests/long."""
    return text.replace("tests.support.fixtures:Count", f"tests.long.environments:{name}").replace(
        "num_actors: 2", "num_actors: 1"
    )


class LiveRunTest(FolderTestCase):
    """A run that lives, another one that wants its folder, and one that goes on after a SIGKILL."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        config = cls.config("tiny", TINY)
        words = ("eval_interval=0", "checkpoint_interval=1", "run_name=a")
        program = cls.start(config, *words, "total_env_steps=1e7")
        program.wait_until(lambda: "round 3/" in program.out, "third round")
        commands = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in program.alive() if pid != program.process.pid]
        cls.children = [command.replace(b"\0", b" ").decode() for command in commands]
        cls.refused = cls.start(config, *words, "resume=output/tiny-a").end(30)
        program.process.kill()
        cls.killed = program.end(10)
        cls.home = cls.work / "output" / "tiny-a"
        cls.saved = find_checkpoint(cls.home)[1]["round"]
        cls.leftovers = [cls.home / "checkpoints" / ".checkpoint_9.pt.1.tmp", cls.home / ".model.pt.1.tmp"]
        cls.leftovers += [cls.home / ".metrics.csv.1.tmp", cls.home / ".model_tiny.pt.1.tmp"]
        for path in cls.leftovers:
            path.write_bytes(b"half of a file")
        newest, before = sorted((cls.home / "checkpoints").glob("*.pt"))[:-3:-1]
        os.truncate(newest, newest.stat().st_size // 2)
        cls.newest, cls.before = newest.name, before.name
        cls.resumed = succeeded(cls.start(config, *words, f"total_env_steps={64 * (cls.saved + 3)}", "resume=auto"))

    def test_actors_are_spawned_and_not_forked(self):  # O-48
        self.assertEqual(sum("multiprocessing.spawn" in command for command in self.children), 2, self.children)

    def test_a_second_run_in_the_folder_is_refused_while_the_first_lives(self):  # O-59
        self.assertEqual((self.refused.code, self.refused.left), (2, []))
        self.assertRegex(self.refused.err, "tiny-a: another run is alive in this folder")

    def test_killing_the_launcher_leaves_no_process(self):  # O-37
        self.assertEqual((self.killed.code, self.killed.left), (-signal.SIGKILL, []))

    def test_the_run_goes_on_from_the_newest_checkpoint_that_is_whole_and_names_the_other(self):  # O-57
        self.assertRegex(self.resumed.out, f"skipped .*{self.newest}")
        self.assertRegex(self.resumed.out, f"resuming from .*{self.before} after round {self.saved - 1}")
        rounds = numbers(read_csv(self.home / "metrics.csv"), "round")
        self.assertEqual(rounds, [*range(1, self.saved + 4)])

    def test_temporary_files_of_the_killed_run_are_removed(self):  # O-57
        self.assertEqual([str(path) for path in self.leftovers if path.exists()], [])


class ModelAloneTest(FolderTestCase):
    """CartPole that observes 1000 times its state plus 500: without its normaliser a model is worth nothing."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        text = own("Shifted", TINY.replace("CartPole-v1", "tests.long.environments:Shifted-v0"))
        config = cls.config("shifted", text)
        words = (
            "envs_per_actor=8",
            "rollout_length=128",
            "total_env_steps=12288",
            "num_epochs=6",
            "learning_rate=3e-3",
        )
        cls.train(config, *words, "run_name=a", "eval_interval=0", "eval_episodes=5")
        cls.home = cls.work / "output" / "shifted-a"

    def evaluate(self, has_state=True):
        """The mean return of the model's own file in this process, which has not trained."""
        model = load_model(self.home, "current")
        env = make_batch_env(num_envs=5, **model.env_arguments)
        self.addCleanup(env.close)
        policy = NumpyPolicy(model.network, model.env, 5, 1)
        policy.load(model.parameters, model.obs_rms_state if has_state else None)
        episodes = run_block(env, lambda: Player(policy, 5), evaluation_seeds(1, 5))
        return np.mean([episode.episode_return for episode in episodes])

    def test_the_model_file_alone_gives_the_return_that_training_reported(self):  # O-29, O-60
        reported = numbers(read_csv(self.home / "metrics.csv"), "eval/return_mean")[-1]
        self.assertGreater(reported, 60.0)
        self.assertEqual(self.evaluate(), reported)

    def test_the_normaliser_is_what_makes_it_act(self):  # O-29
        self.assertLess(self.evaluate(has_state=False), 30.0)


class UnusualEnvironmentsTest(FolderTestCase):
    def test_choices_that_do_not_start_at_0_reach_the_environment(self):  # O-13
        self.train(
            self.config("minus", own("FromMinusOne")), "total_env_steps=5000", "num_epochs=4", "learning_rate=0.01"
        )
        rows = read_csv(self.run_folder(pattern="minus-*") / "metrics.csv")
        self.assertEqual(rows[-1]["eval/return_mean"], "5")  # 5 steps, each with the action -1

    def test_an_environment_of_the_current_folder_trains_and_is_evaluated(self):  # O-41
        lines = ["import gymnasium", "from tests.support.fixtures import Count", "class Own(Count): pass"]
        lines += ["gymnasium.register('Own-v0', entry_point='own_envs:Own', kwargs={'length': 7})"]
        (self.work / "own_envs.py").write_text("\n".join(lines * 2))  # it registers twice
        ended = self.train(self.config("module", FIXTURE.replace("tests.support.fixtures:Count", "own_envs:Own")))
        rows = read_csv(self.run_folder(pattern="module-*") / "metrics.csv")
        self.assertEqual((rows[-1]["eval/length_mean"], rows[-1]["rollout/episode_length_mean"]), ("7", "7"))
        self.assertLessEqual(ended.err.count("UserWarning"), 1)  # once, not in every actor

    def test_a_folder_that_an_environment_leaves_and_a_thread_that_it_starts_do_not_matter(self):
        text = FIXTURE.replace("tests.support.fixtures:Count", "tests.support.fixtures:Unwell")
        for how in ("move", "thread"):
            with self.subTest(how):
                self.train(self.config(how, text), f"env_kwargs={{how: {how}}}", "total_env_steps=64")
                self.assertTrue((self.run_folder(pattern=f"{how}-*") / "metrics.csv").exists())

    def test_absurd_forces_end_in_finite_files(self):  # O-25
        text = FIXTURE.replace("tests.support.fixtures:Count", "tests.long.mujoco_environments:WildAnt")
        words = ("max_episode_steps=60", "total_env_steps=384", "num_actors=1", "eval_interval=0")
        ended = self.start(self.config("wild", text), *words).end()
        self.assertIn(ended.code, (0, 1))
        self.assertEqual(ended.left, [])
        self.assertNotIn("Traceback", ended.err if ended.code == 0 else "")
        self.assertNotIn("MUJOCO_LOG.TXT", files_in(self.work))
        for path in self.run_folder(pattern="wild-*").rglob("*.pt"):
            self.assertTrue(all(torch.isfinite(tensor).all() for tensor in tensors(load(path))), path)


class UnequalLearnersTest(FolderTestCase):
    def test_learners_that_stop_their_epochs_apart_stay_together(self):  # O-34
        config = self.config("unequal", own("ByRank").replace("num_actors: 1", "num_actors: 2"))
        words = ("device=cpu", "num_gpus=2", "total_env_steps=1280", "target_kl=1e-4", "normalize_reward=false")
        self.train(config, *words, "num_epochs=4", "learning_rate=3e-3", "eval_interval=0", nproc=2)
        rows = read_csv(self.run_folder(pattern="unequal-*") / "metrics.csv")
        self.assertEqual(len(rows), 20)
        # the metric is the learners' mean: not whole where they took different numbers of epochs
        self.assertTrue(any(value % 1 for value in numbers(rows, "train/epochs")), "they never stopped apart")
        self.assertEqual(set(numbers(rows, "sync/distinct_parameters")), {1.0})


class MachineTest(FolderTestCase):
    def test_few_file_descriptors_suffice(self):
        with Program("-c", LIMITED, 48, ROOT / "train.py", self.config("few", TINY), folder=self.work) as program:
            succeeded(program)

    def test_too_few_file_descriptors_are_named_and_leave_no_process(self):
        config = self.config("too_few", TINY)
        words = ("-c", LIMITED, 32, ROOT / "train.py", config, "num_actors=16", "total_env_steps=1")
        with Program(*words, folder=self.work) as program:
            ended = program.end(30)
        self.assertEqual((ended.code, ended.left), (1, []))
        self.assertRegex(ended.err.splitlines()[0], "^ddp-ppo: .*Too many open files")

    @unittest.skipUnless(can_mount(), "needs root and mount namespaces")
    def test_a_small_shared_memory_folder_does_not_matter(self):  # O-47
        words = (MOUNTS, "/dev/shm size=4k", "-", ROOT / "train.py", self.config("shm", TINY), "rollout_length=512")
        with Program(*words, folder=self.work) as program:
            succeeded(program)

    @unittest.skipUnless(can_mount(), "needs root and mount namespaces")
    def test_a_read_only_disk_is_refused_before_anything_starts(self):  # O-68
        disk = self.folder / "read_only"
        disk.mkdir()
        words = (MOUNTS, f"{disk} ro", "-", ROOT / "train.py", self.config("ro", TINY), f"output_dir={disk}/a")
        with Program(*words, folder=self.work) as program:
            ended = program.end(30)
        self.assertEqual((ended.code, ended.left), (2, []))
        self.assertRegex(ended.err, rf"^ddp-ppo: output_dir: {disk} is not writable")

    def test_nothing_is_left_in_shared_memory_or_the_temporary_folder(self):  # O-47
        temporary = self.folder / "tmp"
        temporary.mkdir()
        before = set(os.listdir("/dev/shm")) if Path("/dev/shm").is_dir() else set()
        program = self.start(self.config("left", TINY), "total_env_steps=1e7", environ={"TMPDIR": str(temporary)})
        program.wait_until(lambda: "round 2/" in program.out, "second round")
        program.process.kill()
        program.end(10)
        self.assertEqual(list(temporary.iterdir()), [])
        if before or Path("/dev/shm").is_dir():
            self.assertEqual({name for name in os.listdir("/dev/shm") if "ddp" in name} - before, set())


class LauncherTest(FolderTestCase):
    def test_a_learner_that_is_still_loading_ends_with_its_launcher(self):  # O-45
        config = self.config("loading", TINY)
        program = self.start(config, "total_env_steps=1e7", "eval_interval=0", nproc=1)
        program.wait_until(lambda: len(program.alive()) > 1, "learner")
        with self.assertRaises(AssertionError):  # half a second: it has begun to load torch
            program.wait_until(lambda: False, "end", seconds=0.5)
        program.process.kill()
        ended = program.end(10)
        self.assertEqual((ended.code, ended.left), (-signal.SIGKILL, []))
        self.assertFalse((self.work / "output").exists())

    def test_a_learner_whose_launcher_is_gone_before_it_begins_ends_at_once(self):
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))  # a port that is taken and on which nobody listens
            environ = {"TORCHELASTIC_RUN_ID": "none", "TORCHELASTIC_USE_AGENT_STORE": "True"}
            environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(one.getsockname()[1])}
            ended = self.start(self.config("orphan", TINY), environ=environ).end(10)
        self.assertEqual((ended.code, ended.out, ended.err, ended.left), (1, "", "", []))


class NotBuiltTest(FolderTestCase):
    """Features of cases.md that are waiting: asking for them is refused, and nothing is created."""

    def test_settings_of_recurrent_policies_and_privileged_critics_are_refused(self):  # O-61, O-62
        config = self.config("waiting", TINY)
        for word in ("recurrent=true", "lstm_size=64", "critic_obs=[target]", "critic_obs=[]"):
            with self.assertRaisesRegex(ConfigError, f"{word.partition('=')[0]}: unknown setting"):
                load_config(config, [word])
        self.assertEqual(list(self.work.iterdir()), [])


if __name__ == "__main__":
    unittest.main()
