"""The public API as programs use it: real runs, in this process, in a thread, and in a process without a script."""

import contextlib
import csv
import math
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path

import numpy as np
import torch

import ddp_ppo
from ddp_ppo.config.settings import ConfigError
from ddp_ppo.errors import EnvError
from ddp_ppo.runs.checkpoint import CheckpointError
from ddp_ppo.runs.metric_table import MEASURED
from ddp_ppo.runs.model import load_model
from tests.support.counting_model import EXPECTED, counting_model
from tests.support.process import PROGRAMS, ROOT, FolderTestCase, Program

SMALL = {
    "num_actors": 2,
    "envs_per_actor": 2,
    "rollout_length": 16,
    "total_env_steps": 640,
    "minibatch_size": 32,
    "num_epochs": 2,
    "hidden_sizes": (8,),
    "eval_interval": 5,
    "eval_episodes": 2,
}


class FolderCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="ddp_ppo_test_")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)


class TrainTest(FolderCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.rows = []
        cls.run_result = ddp_ppo.train(
            "CartPole-v1",
            output_dir=str(cls.folder),
            run_name="a",
            on_round=lambda row: cls.rows.append(dict(row)),
            **SMALL,
        )

    def test_the_history_is_what_metrics_csv_holds(self):
        with open(self.run_result.folder / "metrics.csv", newline="") as file:
            table = list(csv.DictReader(file))
        self.assertEqual((self.run_result.rounds, len(table)), (10, 10))
        for name, values in self.run_result.metrics.items():
            expected = [float(row[name] or "nan") for row in table]
            np.testing.assert_array_equal(values, expected, name)

    def test_on_round_hears_each_row_as_it_is_written(self):
        self.assertEqual([row["round"] for row in self.rows], list(range(1, 11)))
        returns = [row["eval/return_mean"] for row in self.rows]
        np.testing.assert_array_equal(returns, self.run_result.metrics["eval/return_mean"])
        self.assertEqual([not math.isnan(value) for value in returns], [False] * 4 + [True] + [False] * 4 + [True])

    def test_the_packaged_configuration_of_the_task_is_the_base(self):
        text = (self.run_result.folder / "config.yaml").read_text()
        self.assertIn("cartpole.yaml", text)
        self.assertIn("total_env_steps: 640  # code", text)

    def test_the_same_settings_give_the_same_run_as_a_config(self):
        config = ddp_ppo.load_config("CartPole-v1", ["total_env_steps=640", "num_actors=2", "hidden_sizes=[8]"])
        settings = {**SMALL, "output_dir": str(self.folder), "run_name": "b"}
        again = ddp_ppo.train(config, **settings)
        for name, values in self.run_result.metrics.items():
            if not name.startswith(MEASURED):
                np.testing.assert_array_equal(values, again.metrics[name], name)

    def test_false_ends_the_run_after_its_round_with_a_model(self):
        settings = {**SMALL, "output_dir": str(self.folder), "run_name": "c", "eval_interval": 0}
        result = ddp_ppo.train("CartPole-v1", on_round=lambda row: row["round"] < 3, **settings)
        self.assertEqual((result.rounds, len(result.metrics["round"])), (3, 3))
        self.assertTrue((result.folder / "model.pt").exists())
        self.assertEqual(len(list((result.folder / "checkpoints").iterdir())), 1)

    def test_nothing_but_false_ends_a_run(self):
        answers = iter([0, "", np.zeros(1), np.zeros(2), None, math.nan, np.False_])
        settings = {**SMALL, "output_dir": str(self.folder), "run_name": "answers", "eval_interval": 0}
        result = ddp_ppo.train("CartPole-v1", on_round=lambda row: next(answers), **settings)
        self.assertEqual((result.rounds, result.stop_signal), (7, None))

    def test_what_on_round_does_to_its_row_changes_no_file(self):
        settings = {**SMALL, "output_dir": str(self.folder), "run_name": "mine", "total_env_steps": 128}
        result = ddp_ppo.train("CartPole-v1", on_round=lambda row: row.clear(), **settings)
        self.assertEqual(result.metrics["round"].tolist(), [1, 2])

    def test_whatever_on_round_raises_leaves_the_round_that_it_was_called_after(self):
        for error in (RuntimeError("mine"), KeyboardInterrupt(), SystemExit(3), GeneratorExit()):

            def raising(row, error=error):
                if row["round"] == 2:
                    raise error

            settings = {**SMALL, "output_dir": str(self.folder), "run_name": type(error).__name__, "eval_interval": 0}
            with self.subTest(error), self.assertRaises(type(error)):
                ddp_ppo.train("CartPole-v1", on_round=raising, **settings)
            folder = self.folder / f"cartpole-{type(error).__name__}"
            self.assertEqual([path.name for path in (folder / "checkpoints").iterdir()], ["checkpoint_0000002.pt"])
            self.assertEqual(load_model(folder, "current").info["round"], 2)
            self.assertEqual(len((folder / "metrics.csv").read_text().splitlines()), 3)
            self.assertIn(repr(error), (folder / "events.jsonl").read_text())

    def test_a_run_keeps_its_name_when_it_goes_on_with_its_own_file(self):
        settings = {**SMALL, "output_dir": str(self.folder), "eval_interval": 0}
        for steps, task, more in (
            (64, "CartPole-v1", {"run_name": "named"}),
            (128, self.folder / "cartpole-named" / "config.yaml", {"resume": self.folder / "cartpole-named"}),
            (192, ddp_ppo.Config(env_id="CartPole-v1"), {"resume": self.folder / "cartpole-named"}),
            (256, "CartPole-v1", {"run_name": "named", "resume": "auto"}),
        ):
            run = ddp_ppo.train(task, **{**settings, **more, "total_env_steps": steps})
            self.assertEqual((run.folder, run.env_steps), (self.folder / "cartpole-named", steps))
        self.assertEqual(list(self.folder.glob("model_config*")), [])

    def test_a_section_is_changed_key_by_key_and_another_learner_is_taken(self):
        settings = {**SMALL, "output_dir": str(self.folder), "total_env_steps": 64}
        for name in ("minibatch_size", "num_epochs"):
            del settings[name]
        run = ddp_ppo.train("CartPole-v1", run_name="section", ppo={"num_epochs": 3}, **settings)
        config = ddp_ppo.load_config(run.folder / "config.yaml")
        packaged = ddp_ppo.load_config("CartPole-v1").ppo
        self.assertEqual((config.ppo.num_epochs, config.ppo.minibatch_size), (3, packaged.minibatch_size))
        self.assertNotEqual(packaged.minibatch_size, ddp_ppo.Config().ppo.minibatch_size)
        run = ddp_ppo.train("CartPole-v1", run_name="toy", learner="tests.learners.toy:KIND", **settings)
        self.assertEqual(run.rounds, 1)

    def test_a_mistake_is_one_line_and_starts_nothing(self):
        for task, settings, error, words in (
            ("CartPole-v1", {"gamma": 2.0}, ConfigError, "gamma: got 2.0; allowed"),
            ("CartPole-v1", {"gama": 0.5}, ConfigError, "gama: unknown setting; did you mean gamma"),
            ("Nowhere-v0", {}, EnvError, "Nowhere"),
            ("nowhere.yaml", {}, ConfigError, "nowhere.yaml"),
            (
                "CartPole-v1",
                {"env_id": "Acrobot-v1"},
                ConfigError,
                "env_id: given twice, as CartPole-v1 and as Acrobot",
            ),
            ("CartPole-v1", {"on_round": 3}, ConfigError, "on_round: 3 is not a function"),
            ("CartPole-v1", {"policy_backend": "nowhere:X"}, EnvError, "policy_backend: nowhere:X cannot be imported"),
            (["CartPole-v1"], {}, ConfigError, "a configuration is named by a text or a path"),
        ):
            with self.subTest(task, **settings), self.assertRaisesRegex(error, words):
                ddp_ppo.train(task, output_dir=str(self.folder / "none"), **settings)
        self.assertFalse((self.folder / "none").exists())


class CallerTest(FolderCase):
    """What a program that calls has of its own stays what it is."""

    def settings(self, name):
        return {**SMALL, "output_dir": str(self.folder), "run_name": name, "total_env_steps": 128}

    def state(self):
        return (
            [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM)],
            torch.get_num_threads(),
            torch.get_default_dtype(),
            np.geterr(),
            np.random.get_state()[1].tolist(),
            torch.get_rng_state().tolist(),
            Path.cwd(),
        )

    def test_global_state_is_left_as_it_was(self):
        before = self.state()
        ddp_ppo.train("CartPole-v1", **self.settings("a"))
        self.assertEqual(self.state(), before)

    def test_it_prints_nothing_unless_it_is_asked_to(self):
        for verbose, expected in ((False, ""), (True, "round 2/2")):
            code = f"import ddp_ppo; ddp_ppo.train('CartPole-v1', verbose={verbose}, **{self.settings(str(verbose))})"
            result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120)
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            self.assertEqual(expected in result.stdout, True)
            self.assertEqual(bool(result.stdout), verbose)

    def test_a_thread_can_train(self):
        results = []
        thread = threading.Thread(target=lambda: results.append(ddp_ppo.train("CartPole-v1", **self.settings("t"))))
        thread.start()
        thread.join(120)
        self.assertEqual(results[0].rounds, 2)

    def test_its_files_stay_where_they_are_when_the_current_folder_changes(self):
        with contextlib.chdir(self.folder):
            run = ddp_ppo.train("CartPole-v1", **{**self.settings("relative"), "output_dir": "here"})
        self.assertEqual(run.folder, self.folder.resolve() / "here" / "cartpole-relative")
        self.assertEqual(ddp_ppo.load_policy(run.folder).model.info["round"], 2)

    def test_a_program_that_actors_cannot_import_again_learns_what_it_should_be(self):
        code = f"import ddp_ppo; ddp_ppo.train('CartPole-v1', **{self.settings('stdin')})"
        environ = {**os.environ, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-"]
        result = subprocess.run(
            command, input=code, cwd=self.folder, env=environ, capture_output=True, text=True, timeout=120
        )
        self.assertRegex(result.stderr, "while starting; a program that trains is a file, .*__main__")

    def test_a_folder_that_is_gone_and_a_worker_that_cannot_have_children_are_one_line(self):
        code = (
            "import os, tempfile, multiprocessing, torch, ddp_ppo\n"
            "def refused(_):\n"
            "    try: ddp_ppo.train('CartPole-v1')\n"
            "    except ddp_ppo.ConfigError as error: return str(error)\n"
            "if __name__ == '__main__':\n"
            "    with multiprocessing.get_context('fork').Pool(1) as pool: print(pool.map(refused, [0])[0])\n"
            "    with tempfile.TemporaryDirectory() as folder: os.chdir(folder)\n"
            "    print(refused(0))\n"
        )
        environ = {**os.environ, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-c", code]
        result = subprocess.run(command, cwd=self.folder, env=environ, capture_output=True, text=True, timeout=180)
        lines = result.stdout.splitlines()
        self.assertEqual(len(lines), 2, result.stderr)
        self.assertRegex(lines[0], "multiprocessing.Pool cannot start actors.*ProcessPoolExecutor")
        self.assertRegex(lines[1], "the current folder does not exist any more")


class InterruptTest(FolderTestCase):
    """Ctrl-C in a program that calls: it goes on, with an exception."""

    def ended(self, how, name, *, first, second=0.0):
        program = Program(PROGRAMS / "interrupted.py", how, name, folder=self.work)
        self.addCleanup(program.__exit__)
        program.wait_until(lambda: first in program.out, "start")
        program.process.send_signal(signal.SIGINT)
        if second:
            with self.assertRaises(AssertionError):
                program.wait_until(lambda: False, "a moment", seconds=second)
            program.process.send_signal(signal.SIGINT)
        return program.end()

    def test_a_loop_of_runs_ends_after_the_first_which_is_saved(self):
        ended = self.ended("loop", "loop", first="round 2")
        self.assertEqual((ended.code, ended.err), (0, ""))
        self.assertRegex(
            ended.out, r"KeyboardInterrupt: stopped and saved; resume=\S+/cartpole-loop continues the run\n"
        )
        self.assertEqual(ended.out.count("run"), 2)
        self.assertTrue(list((self.work / "output" / "cartpole-loop" / "checkpoints").iterdir()))

    def test_an_on_round_that_takes_long_is_given_up_and_its_round_saved(self):
        ended = self.ended("slow", "slow", first="round 2")
        self.assertRegex(ended.out, "KeyboardInterrupt: stopped and saved")
        (path,) = (self.work / "output" / "cartpole-slow" / "checkpoints").iterdir()
        self.assertEqual((ended.code, path.name), (0, "checkpoint_0000002.pt"))

    def test_a_second_one_raises_at_once(self):
        ended = self.ended("slow", "twice", first="round 2", second=0.6)
        self.assertEqual((ended.code, ended.out.splitlines()[-1]), (0, "the program goes on"))


class ImportTest(unittest.TestCase):
    def test_importing_the_package_loads_nothing_else(self):
        code = (
            "import sys, ddp_ppo; print(sorted({'numpy', 'torch', 'gymnasium', 'yaml'} & {*sys.modules}), dir(ddp_ppo))"
        )
        result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
        self.assertTrue(result.stdout.startswith("[] "), result.stdout + result.stderr)
        for name in ddp_ppo.__all__:
            self.assertIn(f"'{name}'", result.stdout)

    def test_loading_settings_does_not_load_torch(self):
        code = (
            "import sys, ddp_ppo; ddp_ppo.load_config('CartPole-v1'); ddp_ppo.Config(); print('torch' in sys.modules)"
        )
        result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
        self.assertEqual(result.stdout, "False\n", result.stderr)

    def test_every_public_name_is_there_and_others_are_not(self):
        for name in ddp_ppo.__all__:
            self.assertTrue(callable(getattr(ddp_ppo, name)), name)
        with self.assertRaises(AttributeError):
            ddp_ppo.nothing  # noqa: B018


class PolicyTest(FolderCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        settings = {**SMALL, "output_dir": str(cls.folder)}
        cls.cart = ddp_ppo.train("CartPole-v1", run_name="a", **settings).folder
        cls.pendulum = ddp_ppo.train("Pendulum-v1", run_name="a", **settings).folder

    def test_it_acts_on_one_observation_and_on_a_batch_of_any_size(self):
        for home, shape in ((self.cart, ()), (self.pendulum, (1,))):
            policy = ddp_ppo.load_policy(home)
            size = policy.model.env.obs_size
            obs = np.random.default_rng(0).normal(size=(7, size)).astype(np.float32)
            batch = policy(obs)
            self.assertEqual(batch.shape, (7, *shape))
            for row, action in zip(obs, batch, strict=True):
                np.testing.assert_allclose(policy(row), action, rtol=1e-5, atol=1e-6)
            self.assertEqual(policy(obs.tolist()).shape, (7, *shape))

    def test_actions_are_valid_for_gymnasium_s_own_environment(self):
        import gymnasium

        for home in (self.cart, self.pendulum):
            policy = ddp_ppo.load_policy(home)
            env = gymnasium.make(policy.model.env.env_id)
            obs, _ = env.reset(seed=3)
            for _ in range(10):
                action = policy(obs)
                self.assertTrue(env.action_space.contains(action if action.shape else action.item()))
                obs = env.step(action if action.shape else action.item())[0]
            env.close()

    def test_samples_repeat_with_their_seed_and_differ_without(self):
        policy, obs = ddp_ppo.load_policy(self.pendulum), np.zeros((5, 3), np.float32)
        one, two = (policy(obs, deterministic=False, seed=4).copy() for _ in range(2))
        np.testing.assert_array_equal(one, two)
        self.assertTrue((policy(obs, deterministic=False) != one).any())

    def test_a_choice_is_a_number_that_any_environment_takes(self):
        action = ddp_ppo.load_policy(self.cart)(np.zeros(4))
        self.assertIsInstance(action, np.int64)
        self.assertEqual({action: 1}[action], 1)

    def test_a_seed_without_samples_is_refused(self):
        with self.assertRaisesRegex(ValueError, "seed has no effect on deterministic actions"):
            ddp_ppo.load_policy(self.cart)(np.zeros(4), seed=3)

    def test_it_says_what_it_is(self):
        policy = ddp_ppo.load_policy(self.cart)
        self.assertEqual(repr(policy), f"LoadedPolicy(CartPole-v1, round 10, {self.cart / 'model_best.pt'})")
        evaluation = ddp_ppo.evaluate(policy, episodes=2)
        self.assertRegex(repr(evaluation), r"\AEvaluation\(.*deterministic, 2 episodes, return \S+ \+- \S+\)\Z")

    def test_arguments_that_are_none_are_refused_in_one_line(self):
        for arguments, words in (
            ({"episodes": 0}, "episodes must be a whole number >= 1, not 0"),
            ({"episodes": -1}, "episodes must be a whole number >= 1, not -1"),
            ({"episodes": "5"}, "episodes must be a whole number >= 1, not '5'"),
            ({"episodes": True}, "episodes must be a whole number >= 1, not True"),
            ({"seed": 1.5}, "seed must be a whole number >= 0, not 1.5"),
            ({"deterministic": "no"}, "deterministic must be True or False, not 'no'"),
        ):
            with self.subTest(arguments), self.assertRaisesRegex(ValueError, words):
                ddp_ppo.evaluate(self.cart, **arguments)
        self.assertEqual(len(ddp_ppo.evaluate(self.cart, episodes=np.int64(1)).returns), 1)

    def test_a_place_is_written_as_in_a_shell(self):
        os.environ["DDP_PPO_TEST_RUN"] = str(self.cart)
        self.addCleanup(os.environ.pop, "DDP_PPO_TEST_RUN")
        self.assertEqual(ddp_ppo.load_policy("$DDP_PPO_TEST_RUN").model.path.parent, self.cart)
        for place, words in (("", "named by a run folder"), (None, "not by None"), ("$DDP_PPO_NONE", "is not set")):
            with self.subTest(place), self.assertRaisesRegex(CheckpointError, words):
                ddp_ppo.load_policy(place)

    def test_an_observation_of_another_size_or_not_finite_is_refused(self):
        policy = ddp_ppo.load_policy(self.cart)
        with self.assertRaisesRegex(ValueError, r"CartPole-v1 has 4 numbers, not the shape \(5,\)"):
            policy(np.zeros(5))
        with self.assertRaisesRegex(ValueError, "not finite in column 2"):
            policy([0.0, 0.0, np.nan, 0.0])

    def test_an_evaluation_has_the_return_that_the_run_logged(self):
        evaluation = ddp_ppo.evaluate(ddp_ppo.load_policy(self.cart), episodes=2)
        self.assertEqual(evaluation.return_mean, evaluation.logged_return)
        self.assertEqual(ddp_ppo.evaluate(self.cart, episodes=2).return_mean, evaluation.return_mean)
        self.assertEqual(len(ddp_ppo.evaluate(self.cart, episodes=7, deterministic=False).returns), 7)

    def test_acting_and_evaluating_leave_generators_and_threads_of_the_caller(self):
        catch = {"total_env_steps": 64, "conv_channels": (4,), "run_name": "image", "output_dir": str(self.folder)}
        image = ddp_ppo.train("ddp_ppo.tasks.catch:Catch-v0", **SMALL | catch, env_kwargs={"is_image": True}).folder
        before = random.getstate(), np.random.get_state()[1].tolist(), torch.get_num_threads()
        for home in (self.cart, image):
            ddp_ppo.evaluate(home, episodes=1)
            policy = ddp_ppo.load_policy(home)
            policy(np.zeros((3, policy.model.env.obs_size)))
        self.assertEqual((random.getstate(), np.random.get_state()[1].tolist(), torch.get_num_threads()), before)

    def test_what_is_not_there_is_refused_in_one_line(self):
        with self.assertRaisesRegex(CheckpointError, "no such file or folder"):
            ddp_ppo.load_policy(self.folder / "nowhere")
        with self.assertRaisesRegex(ValueError, "which must be 'best' or 'current'"):
            ddp_ppo.load_policy(self.cart, which="worst")


class MemoryTest(unittest.TestCase):
    def test_a_policy_with_a_memory_keeps_a_state_for_each_row_until_it_is_reset(self):
        policy = ddp_ppo.LoadedPolicy(counting_model())
        obs = np.zeros((2, 1), np.float32)
        self.assertEqual([int(policy(obs)[0]) for _ in range(5)], EXPECTED[:5])
        policy.reset([True, False])
        self.assertEqual(policy(obs).tolist(), [EXPECTED[0], EXPECTED[5]])
        policy.reset()
        self.assertEqual([int(policy(obs)[1]) for _ in range(5)], EXPECTED[:5])


class ShapeTest(FolderCase):
    def test_a_policy_takes_what_its_environment_returns(self):
        import gymnasium

        settings = {**SMALL, "output_dir": str(self.folder), "total_env_steps": 64, "eval_episodes": 1}
        policy = ddp_ppo.load_policy(ddp_ppo.train("FrozenLake-v1", **settings).folder)
        env = gymnasium.make("FrozenLake-v1")
        obs, _ = env.reset(seed=1)
        for _ in range(3):
            obs = env.step(policy(obs))[0]
        self.assertEqual(policy([0, 1, 2]).shape, (3,))
        env.close()


class MakeEnvTest(unittest.TestCase):
    def test_mistakes_are_one_line(self):
        for arguments, error, words in (
            (("",), EnvError, "an environment is named by an id such as 'Ant-v5', not by ''"),
            (("half_cheetah",), EnvError, "half_cheetah is a configuration; its environment is HalfCheetah-v5"),
            (("Ant-v5", -1), ValueError, "num_envs must be a whole number >= 1, not -1"),
            (("Ant-v5", 1.5), ValueError, "num_envs must be a whole number >= 1, not 1.5"),
        ):
            with self.subTest(arguments), self.assertRaisesRegex(error, words):
                ddp_ppo.make_env(*arguments)
        with self.assertRaisesRegex(ValueError, "env_kwargs must be a mapping of names, not 3"):
            ddp_ppo.make_env("Ant-v5", env_kwargs=3)
        with self.assertRaisesRegex(TypeError, r"make_env\(\) got an unexpected keyword argument"):
            ddp_ppo.make_env("Ant-v5", nothing=3)

    def test_environments_are_arrays(self):
        env = ddp_ppo.make_env("HalfCheetah-v5", num_envs=3, max_episode_steps=5)
        self.assertEqual(env.reset([1, 2, 3]).shape, (3, 17))
        step = env.step(np.zeros((3, 6), np.float32))
        self.assertEqual((step.obs.shape, step.reward.shape), ((3, 17), (3,)))
        self.assertEqual(env.spec.max_episode_steps, 5)
        env.close()


if __name__ == "__main__":
    unittest.main()
