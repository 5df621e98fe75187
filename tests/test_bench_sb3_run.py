"""bench/peers/sb3_run.py: the same budget, seeds and evaluations as a run, in a folder that reads like a run's."""

import importlib.util
import unittest

import numpy as np

from ddp_ppo.config.settings import Config, ConfigError
from ddp_ppo.errors import EnvError
from ddp_ppo.runs.reading import read_run
from tests.support.process import ROOT, TINY, FolderTestCase, Program
from tests.support.runs import write_run

SCRIPT = ROOT / "bench" / "peers" / "sb3_run.py"
SPEC = importlib.util.spec_from_file_location("bench_sb3_run", SCRIPT)
sb3_run = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(sb3_run)
HAS_SB3 = importlib.util.find_spec("stable_baselines3") is not None


class RefusalTest(FolderTestCase):
    def made(self, name, **settings):
        config = Config(num_actors=1, envs_per_actor=2, rollout_length=5, total_env_steps=10, **settings)
        return read_run(write_run(self.folder / name, config, {"eval/return_mean": [1.0]}))

    def test_a_setting_without_a_counterpart_is_named(self):
        for name, settings in {
            "adaptive": {"learning_rate_schedule": "adaptive", "target_kl": 0.01},
            "anew": {"recompute_advantages": True},
        }.items():
            with self.subTest(name), self.assertRaisesRegex(ConfigError, "has no counterpart in stable-baselines3"):
                sb3_run.train_sb3(self.made(name, **settings))

    @unittest.skipIf(HAS_SB3, "stable-baselines3 is installed")
    def test_the_extra_is_named_where_it_is_missing(self):
        self.made("bare")
        with Program(SCRIPT, "bare", folder=self.folder) as program:
            ended = program.end()
        self.assertEqual((ended.code, ended.err.count("\n")), (2, 1))
        self.assertRegex(ended.err, r"^ddp-ppo: --against sb3: stable-baselines3 is not installed; pip install")

    @unittest.skipUnless(HAS_SB3, "needs the extra compare")
    def test_a_task_that_gymnasium_cannot_make_is_one_line(self):
        with self.assertRaisesRegex(EnvError, "No-v0 is not made by Gymnasium"):
            sb3_run.train_sb3(self.made("gone", env_id="No-v0"))


@unittest.skipUnless(HAS_SB3, "needs the extra compare")
class TrainingTest(FolderTestCase):
    """Ours and theirs, once, by the command."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.train(cls.config("tiny", TINY), "run_name=a", "seed=3", "total_env_steps=600")
        cls.code, cls.out, cls.err = cls.against("output/tiny-a")
        cls.ours, cls.theirs = (read_run(cls.work / "output" / name) for name in ("tiny-a", "tiny-sb3-seed3"))

    @classmethod
    def against(cls, *folders):
        return cls.command_line("compare", *folders, "--against", "sb3")

    def test_it_is_part_of_the_comparison(self):
        self.assertEqual((self.code, self.err), (0, ""))
        self.assertIn("trained in ", self.out)
        self.assertIn("tiny-sb3", self.out)
        self.assertRegex(self.out, r'differs +learner: "ppo" \| "sb3"')
        self.assertIn("stable-baselines3: - | ", self.out)

    def test_budget_rounds_and_evaluations_are_the_same(self):
        for name in ("round", "env_steps", "buffer_size"):
            self.assertEqual(self.theirs.column(name), self.ours.column(name), name)
        rounds = [[row for row, _ in run.known("eval/return_mean")] for run in (self.ours, self.theirs)]
        self.assertEqual(rounds[0], rounds[1])
        self.assertEqual((self.theirs.setting("seed"), self.theirs.setting("learner")), (3, "sb3"))

    def test_the_metrics_are_plausible(self):
        self.assertGreater(min(self.theirs.column("train/value_loss")), 0.0)
        entropy = np.array(self.theirs.column("train/entropy"))
        self.assertTrue(((entropy > 0.0) & (entropy <= np.log(2.0) + 1e-6)).all())
        rates = self.theirs.column("train/learning_rate")
        np.testing.assert_allclose(rates, [3e-4 * (1.0 - index / 10) for index in range(10)], rtol=1e-6)
        for _, length in self.theirs.known("rollout/episode_length_mean"):
            self.assertTrue(8 <= length <= 500)
        returns = self.theirs.known("rollout/episode_return_mean")
        self.assertEqual(returns, self.theirs.known("rollout/episode_length_mean"))  # CartPole pays 1 a step, raw

    def test_it_is_not_trained_again_nor_counted_twice(self):
        _, out, _ = self.against("output/tiny-a", "output/tiny-sb3-seed3")
        self.assertIn("taken: output/tiny-sb3-seed3", out)
        self.assertEqual(len(list((self.work / "output").glob("tiny-sb3*"))), 1)
        self.assertEqual(out.count("tiny-sb3  "), 1)

    def test_other_settings_get_a_folder_of_their_own(self):
        self.train(self.config("tiny", TINY), "run_name=b", "seed=3", "total_env_steps=64", "gamma=0.9")
        self.assertEqual(self.against("output/tiny-b")[0], 0)
        self.assertEqual(read_run(self.work / "output" / "tiny-sb3-seed3-2").setting("gamma"), 0.9)


@unittest.skipUnless(HAS_SB3, "needs the extra compare")
class MujocoTest(FolderTestCase):
    def test_continuous_actions_train_and_evaluate(self):
        config = Config(env_id="InvertedPendulum-v5", num_actors=1, rollout_length=8, total_env_steps=64, num_epochs=1)
        run = read_run(write_run(self.folder / "pendulum", config, {"eval/return_mean": [1.0]}))
        theirs = read_run(sb3_run.train_sb3(run))
        ((_, score),) = theirs.known("eval/return_mean")
        self.assertGreaterEqual(score, 1.0)
        self.assertLess(score, 1000.0)


if __name__ == "__main__":
    unittest.main()
