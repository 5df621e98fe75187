"""What is found out before a run starts, and what a user's mistake looks like from outside."""

import contextlib
import io
import json
import multiprocessing
import os
import tempfile
import time
import unittest
from dataclasses import replace
from pathlib import Path

import torch

from ddp_ppo.__main__ import main
from ddp_ppo.config.load import load_config
from ddp_ppo.config.settings import Config
from ddp_ppo.distributed.topology import resolve_training_topology
from ddp_ppo.policies.network import NetworkSpec
from ddp_ppo.protocols import EnvSpec
from ddp_ppo.runs.checkpoint import save_checkpoint
from ddp_ppo.training.plan import learner_threads, prepare
from tests.support.disco_golden import WEIGHTS
from tests.support.fixtures import whole_checkpoint
from tests.support.go1 import OWN_ROBOT
from tests.support.process import FIXTURE, ROOT, TORCHRUN_VARIABLES, FolderTestCase, Program, files_in, succeeded

CONFIG = """
env_id: tests.support.fixtures:Count-v0
num_actors: 2
envs_per_actor: 2
rollout_length: 16
total_env_steps: 100
minibatch_size: 24
num_epochs: 3
hidden_sizes: [8]
"""
COUNT = EnvSpec("tests.support.fixtures:Count-v0", 1, "discrete", 2)


class MistakeTest(unittest.TestCase):
    """`ddp-ppo train` in an empty folder, up to the mistake."""

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name).resolve()
        self.config = self.folder / "tiny.yaml"
        self.config.write_text(CONFIG)
        self.work = self.folder / "work"
        self.work.mkdir()
        self.enterContext(contextlib.chdir(self.work))
        saved = dict(os.environ)
        self.addCleanup(lambda: (os.environ.clear(), os.environ.update(saved)))
        for name in TORCHRUN_VARIABLES:
            os.environ.pop(name, None)

    def complaint(self, *words, config=None, command="train"):
        """The one line on stderr of a command that must be refused at once and leave nothing behind."""
        out, err = io.StringIO(), io.StringIO()
        before = files_in(self.folder)
        started = time.monotonic()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main([command, str(config or self.config), *map(str, words)])
        self.assertLess(time.monotonic() - started, 5.0)
        self.assertEqual((code, out.getvalue()), (2, ""))
        self.assertEqual(multiprocessing.active_children(), [])
        self.assertEqual(files_in(self.folder), before)
        self.assertEqual(list(self.work.iterdir()), [])
        (line,) = err.getvalue().splitlines()
        self.assertRegex(line, r"^ddp-ppo: ")
        return line

    def test_an_unknown_environment_is_named_with_the_nearest_one(self):
        self.assertRegex(self.complaint("env_id=CartPol-v1"), "'CartPol-v1'.*nearest.*'CartPole-v[01]'")

    def test_an_unknown_module_is_named(self):
        self.assertIn("my_missing_envs", self.complaint("env_id=my_missing_envs:Tiny-v0"))

    def test_an_environment_that_cannot_be_built_shows_its_own_complaint(self):
        line = self.complaint("env_id=tests.support.fixtures:Unbuildable-v0")
        self.assertRegex(line, "Unbuildable-v0.*RuntimeError: no licence-4711")

    def test_an_environment_that_exits_or_hangs_is_quoted(self):
        for how, words in (
            ("exit", "cannot build the environment: SystemExit: no licence-4712"),
            ("stuck", r"not built within actor_timeout_seconds=0.2; it was in wait \(.*threading.py:"),
        ):
            with self.subTest(how):
                settings = (f"env_kwargs={{how: {how}}}", "actor_timeout_seconds=0.2")
                self.assertRegex(
                    self.complaint("env_id=tests.support.fixtures:Unwell-v0", *settings), f"Unwell-v0: {words}"
                )

    def test_more_environments_than_may_be_open_are_refused(self):  # N-02
        line = self.complaint("max_env_instances=3")
        self.assertRegex(line, "max_env_instances is 3, training needs 4 environments; lower num_actors")

    def test_an_unsupported_observation_space_is_named(self):
        self.assertRegex(self.complaint("env_id=tests.support.fixtures:DictObs-v0"), r"DictObs-v0.*observation.*Dict\(")

    def test_an_unsupported_action_space_is_named(self):
        line = self.complaint("env_id=tests.support.fixtures:TwoChoices-v0")
        self.assertRegex(line, r"TwoChoices-v0.*action.*MultiDiscrete\(")

    def test_a_wrong_argument_of_the_environment_shows_the_constructor_s_complaint(self):  # O-42
        self.assertRegex(self.complaint("env_kwargs={gravty: 1}"), "Count-v0.*unexpected keyword argument 'gravty'")

    def test_a_missing_argument_of_the_environment_is_named(self):
        self.assertRegex(
            self.complaint("env_id=tests.support.fixtures:RewardType-v0"), "RewardType-v0.*missing.*'kind'"
        )

    def test_an_output_folder_that_is_a_file_is_named(self):  # O-68
        file = self.folder / "file"
        file.write_text("text")
        self.assertRegex(self.complaint(f"output_dir={file}"), f"output_dir: {file} is a file")
        self.assertRegex(self.complaint(f"metrics_path={file}/m.csv"), f"metrics_path: {file} is a file")
        self.assertEqual(file.read_text(), "text")

    def test_an_output_folder_that_cannot_be_written_is_named(self):  # O-68
        locked = self.folder / "locked"
        locked.mkdir(mode=0o555)  # root may write here all the same, but not everywhere in /proc
        place = next((place for place in (locked, Path("/proc/1")) if not os.access(place, os.W_OK)), None)
        if place is None:
            self.skipTest("this user may write everywhere")
        self.assertRegex(self.complaint(f"output_dir={place}/runs"), f"output_dir: {place} is not writable")

    def test_an_unknown_setting_is_named_with_the_nearest_one(self):  # O-51
        self.assertRegex(self.complaint("entropy_coeff=0.01"), "entropy_coeff: unknown setting.*entropy_coef")
        self.config.write_text(CONFIG + "gama: 0.9\n")
        self.assertRegex(self.complaint(), r"tiny\.yaml:10: gama: unknown setting.*gamma\?")

    def test_actors_that_learners_cannot_share_equally_are_refused(self):
        line = self.complaint("num_gpus=2", "num_actors=3")
        self.assertRegex(line, "num_actors: 3 .*num_gpus: 2.*2 or 4")

    def test_a_standard_deviation_for_discrete_actions_is_refused(self):  # N-07
        line = self.complaint("init_log_std=-1")
        self.assertIn("command line: init_log_std has no effect, as tests.support.fixtures:Count-v0 has 2 disc", line)

    def test_a_missing_configuration_is_named(self):
        self.assertIn("nowhere.yaml", self.complaint(config=self.folder / "nowhere.yaml"))

    def test_a_run_to_resume_that_does_not_exist_is_named(self):
        self.assertIn(f"{self.folder}/gone", self.complaint(f"resume={self.folder}/gone"))

    def test_a_folder_without_a_checkpoint_is_named(self):
        self.assertRegex(self.complaint(f"resume={self.work}"), f"{self.work}: no checkpoint")

    def test_a_checkpoint_of_another_shape_is_refused_with_both_shapes(self):
        content = whole_checkpoint(NetworkSpec(1, "categorical", 2, (32, 16), "tanh"), COUNT)
        path = save_checkpoint(self.folder / "checkpoints", 7, content, 3)
        line = self.complaint(f"resume={path}")
        self.assertIn(str(path), line)
        self.assertIn("hidden_sizes=(32, 16)", line)
        self.assertIn("hidden_sizes=(8,)", line)

    def test_a_run_without_a_whole_checkpoint_is_passed_over_for_an_older_one(self):
        network, homes = NetworkSpec(1, "categorical", 2, (8,), "tanh"), []
        for seconds, name in enumerate(("old", "new"), 1):
            homes.append(self.work / "output" / f"tiny-{name}")
            path = save_checkpoint(homes[-1] / "checkpoints", 7, whole_checkpoint(network, COUNT), 3)
            os.utime(path, (seconds, seconds))
        path.write_bytes(path.read_bytes()[:-100])
        plan = prepare(load_config(self.config, ["resume=auto"]), environ={})
        self.assertEqual(plan.resumed.path.resolve(), homes[0] / "checkpoints" / path.name)
        self.assertRegex(" ".join(plan.notes), "skipped .*tiny-new.*: not a readable checkpoint")

    def test_a_damaged_checkpoint_is_named(self):
        path = self.folder / "checkpoint_0000001.pt"
        path.write_text("not a checkpoint")
        self.assertIn(str(path), self.complaint(f"resume={path}"))

    def test_a_model_that_does_not_exist_or_is_none_is_named(self):
        self.assertIn("gone.pt", self.complaint("init_from=gone.pt"))
        self.assertIn(str(self.config), self.complaint(f"init_from={self.config}"))

    def test_a_device_that_is_missing_is_named_with_those_that_are_here(self):
        if torch.cuda.is_available():
            self.skipTest("this machine has a GPU")
        self.assertRegex(self.complaint("device=cuda"), "device: got cuda.*lacks.*cpu")

    def test_contradictory_variables_of_a_launcher_are_named(self):
        os.environ["RANK"] = "0"
        self.assertRegex(self.complaint(), "RANK is set without WORLD_SIZE")

    def test_the_other_ranks_leave_the_message_to_the_first(self):
        os.environ.update(RANK="1", WORLD_SIZE="2", LOCAL_RANK="1", LOCAL_WORLD_SIZE="2", GROUP_RANK="0")
        with contextlib.redirect_stderr(io.StringIO()) as err:
            self.assertEqual(main(["train", str(self.config), "env_id=CartPol-v1"]), 2)
        self.assertEqual(err.getvalue(), "")

    def test_the_plan_command_refuses_the_same(self):
        self.assertRegex(self.complaint("env_id=CartPol-v1", command="plan"), "CartPol-v1")
        self.assertRegex(self.complaint("gama=1", command="plan"), "gama")

    def test_a_plan_shows_the_learners_that_the_same_words_would_start(self):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            self.assertEqual(main(["plan", str(self.config), "device=cpu", "num_gpus=2", "--nproc", "2"]), 0)
        lines = dict(line.split(maxsplit=1) for line in out.getvalue().splitlines() if not line.startswith("note"))
        self.assertIn("2 on cpu, gloo", lines["learners"])
        start = f"torchrun --standalone --nproc_per_node=2 {ROOT / 'train.py'} {self.config} device=cpu num_gpus=2"
        self.assertIn(start, out.getvalue().splitlines()[-1])
        self.assertNotIn("num_gpus asks for", out.getvalue())


class ResumeTest(unittest.TestCase):
    def test_auto_without_a_run_starts_a_new_one_and_says_so(self):
        with tempfile.TemporaryDirectory() as folder:
            config = Config(env_id="tests.support.fixtures:Count-v0", output_dir=folder, resume="auto", device="cpu")
            plan = prepare(config, environ={})
        self.assertIsNone(plan.resumed)
        self.assertTrue(any("no checkpoint of config" in note for note in plan.notes))


class AdviceTest(FolderTestCase):
    def test_a_range_that_the_first_actions_do_not_suit_is_a_note_of_a_run_that_begins_with_them(self):
        config = Config(env_id="InvertedPendulum-v5", num_actors=1, hidden_sizes=(8,), init_log_std=-5)
        plan = prepare(config, environ={})
        self.assertRegex(" ".join(plan.notes), "range of action 0 is -3 .. 3: .* a small part of it")
        path = save_checkpoint(self.folder / "checkpoints", 7, whole_checkpoint(plan.network, plan.env), 3)
        resumed = prepare(replace(config, resume=str(path)), environ={})
        self.assertNotIn("range of action", " ".join(resumed.notes))


class ThreadsTest(unittest.TestCase):
    def threads(self, environ=None, **settings):
        config = Config(device="cpu", **settings)
        environ = environ or {}
        topology = resolve_training_topology(config, environ=environ, num_cuda_devices=0, has_mps=False)
        return learner_threads(config, topology, environ)

    def test_a_single_learner_takes_the_cores_that_the_process_may_use(self):  # O-46
        self.assertEqual(self.threads(), len(os.sched_getaffinity(0)))

    def test_learners_share_the_cores_and_each_has_at_least_one(self):
        cores = len(os.sched_getaffinity(0))
        for world_size in (2, 64):
            environ = {"RANK": "0", "WORLD_SIZE": str(world_size), "OMP_NUM_THREADS": "1"}
            with self.subTest(world_size):
                found = self.threads(environ, num_gpus=world_size, num_actors=world_size)
                self.assertEqual(found, max(1, cores // world_size))

    def test_what_a_person_asked_for_stands(self):
        self.assertEqual(self.threads({"OMP_NUM_THREADS": "7"}), 7)
        self.assertEqual(self.threads({"OMP_NUM_THREADS": "7"}, learner_threads=3), 3)

    def test_torchrun_s_own_variable_is_no_wish(self):
        environ = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "OMP_NUM_THREADS": "1"}
        self.assertEqual(self.threads(environ), len(os.sched_getaffinity(0)))


class ProgramTest(FolderTestCase):
    """The same from outside, in processes of their own."""

    def test_a_mistake_ends_every_way_to_start_with_status_2_and_one_line(self):
        config = self.config("tiny", FIXTURE)
        ways = {
            "train.py": [ROOT / "train.py"],
            "train": ["-m", "ddp_ppo", "train"],
            "plan": ["-m", "ddp_ppo", "plan"],
        }
        for name, words in ways.items():
            with self.subTest(name):
                ended = self.begin(*words, config, "gama=1").end(30)
                self.assertEqual((ended.code, ended.out, ended.left), (2, "", []))
                self.assertRegex(ended.err, r"\Addp-ppo: command line: gama: unknown setting; did you mean gamma\?\n\Z")
                self.assertLess(ended.seconds, 10.0)
        self.assertEqual(list(self.work.iterdir()), [])

    def test_a_mistake_under_torchrun_is_said_once(self):
        config = self.config("tiny", FIXTURE)
        ended = self.start(config, "env_id=CartPol-v1", "device=cpu", "num_gpus=2", nproc=2).end(60)
        self.assertNotEqual(ended.code, 0)
        self.assertEqual(ended.err.count("ddp-ppo: "), 1)
        self.assertEqual((ended.left, list(self.work.iterdir())), ([], []))

    def test_the_plan_command_prints_the_plan_and_starts_and_writes_nothing(self):
        config, report = self.config("tiny", FIXTURE), self.folder / "plan.json"
        calls = self.folder / "calls"
        calls.mkdir()
        ended = succeeded(
            self.begin("-m", "ddp_ppo", "plan", config, f"env_kwargs={{folder: {calls}}}", "--json", report)
        )
        # 2 x 2 environments x 16 steps = 64 samples = 2 x 32; 640 / 64 = 10 rounds
        self.assertIn("16 steps x 4 environments = 64 samples", ended.out)
        self.assertIn("2 epochs x 2 mini-batches of 32 = 4 gradient steps", ended.out)
        self.assertIn("10 rounds = 640 environment steps", ended.out)
        self.assertEqual(list(self.work.iterdir()), [])
        # One environment was built to look at it, and closed.
        (made,) = (path.read_text() for path in calls.iterdir())  # one environment, tried and closed
        self.assertRegex(made, "^[rs]+c$")
        lines = json.loads(report.read_text())
        self.assertIn("10 rounds", lines["run"])

    @classmethod
    def begin(cls, *words):
        """Starts any program; ended with the class at the latest."""
        program = Program(*words, folder=cls.work)
        cls.addClassCleanup(program.__exit__)
        return program


class ConfigurationsTest(unittest.TestCase):
    def test_every_configuration_of_the_project_can_be_planned(self):
        paths = sorted((ROOT / "configs").glob("*.yaml"))
        self.assertGreater(len(paths), 5)
        for path in paths:
            with self.subTest(path.name):
                config = load_config(path, ["device=cpu", *(OWN_ROBOT if path.stem == "go1" else [])])
                if config.learner == "disco" and not WEIGHTS.is_file():
                    self.skipTest("needs DiscoRL's published weights; DDP_PPO_DISCO_WEIGHTS names the file")
                plan = prepare(config, environ={"DDP_PPO_DISCO_WEIGHTS": str(WEIGHTS)})
                self.assertGreater(plan.num_rounds, 0)


if __name__ == "__main__":
    unittest.main()
