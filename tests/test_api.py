"""The public API as programs use it: real runs, in this process, in a thread, and in a process without a script."""

import csv
import math
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
from tests.support.counting_model import EXPECTED, counting_model
from tests.support.process import ROOT

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

    def test_a_mistake_is_one_line_and_starts_nothing(self):
        for task, settings, error, words in (
            ("CartPole-v1", {"gamma": 2.0}, ConfigError, "gamma: got 2.0; allowed"),
            ("CartPole-v1", {"gama": 0.5}, ConfigError, "gama: unknown setting; did you mean gamma"),
            ("Nowhere-v0", {}, EnvError, "Nowhere"),
            ("nowhere.yaml", {}, ConfigError, "nowhere.yaml"),
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


class MakeEnvTest(unittest.TestCase):
    def test_environments_are_arrays(self):
        env = ddp_ppo.make_env("HalfCheetah-v5", num_envs=3, max_episode_steps=5)
        self.assertEqual(env.reset([1, 2, 3]).shape, (3, 17))
        step = env.step(np.zeros((3, 6), np.float32))
        self.assertEqual((step.obs.shape, step.reward.shape), ((3, 17), (3,)))
        self.assertEqual(env.spec.max_episode_steps, 5)
        env.close()


if __name__ == "__main__":
    unittest.main()
