"""Evaluations of trained models; right values by hand or from what a run logged."""

import contextlib
import io
import json
import math
import tempfile
import unittest
from dataclasses import replace
from pathlib import Path

import numpy as np

from ddp_ppo.__main__ import main
from ddp_ppo.config.settings import Config
from ddp_ppo.envs.build import describe_env
from ddp_ppo.evaluation.evaluate import evaluate, evaluation_text, own_seeds, write_csv
from ddp_ppo.policies.network import NetworkSpec
from ddp_ppo.runs.files import CheckpointError
from ddp_ppo.runs.model import Model, load_model
from ddp_ppo.runs.model_env import in_environment
from ddp_ppo.sampling.finite import NonFiniteError
from tests.support.process import TINY, FolderTestCase, read_csv


def model_in(name, *, log_std=0.0, info=None, **env_kwargs):
    """A linear policy of zeros in an environment of tests/support/fixtures.py."""
    arguments = Config(env_id=f"tests.support.fixtures:{name}-v0", env_kwargs=env_kwargs).env_arguments
    env = describe_env(**arguments)
    network = NetworkSpec.for_env(env, (), "tanh")
    parameters = np.zeros(network.num_parameters, np.float32)
    parameters[network.log_std_slice] = log_std
    return Model(Path("zeros.pt"), "zeros", network, env, arguments, parameters, None, info or {})


class EpisodesTest(unittest.TestCase):
    def test_each_seed_has_its_return_length_and_end(self):
        seeds = [4, 1, 3, 2, 6, 5]  # SeedLength's first episode has as many steps of reward 1
        evaluation = evaluate(model_in("SeedLength"), seeds)
        self.assertEqual([tuple(episode) for episode in evaluation.episodes], [(s, s, s, "terminated") for s in seeds])
        summary = evaluation.summary
        self.assertEqual((summary["return_mean"], summary["length_mean"]), (3.5, 3.5))
        self.assertEqual(summary["return_iqm"], (2 + 3 + 4 + 5) / 4)
        self.assertAlmostEqual(summary["return_std"], math.sqrt(35 / 12))
        self.assertEqual(summary["ends"], {"terminated": 6})
        low, high = summary["mean_interval"]
        self.assertTrue(1.0 < low < 3.5 < high < 6.0, summary)

    def test_one_episode_has_no_interval(self):
        summary = evaluate(model_in("SeedLength"), [3]).summary
        self.assertEqual((summary["return_mean"], summary["mean_interval"], summary["iqm_interval"]), (3.0, None, None))

    def test_stochastic_actions_are_samples_of_the_policy_s_distribution(self):
        model = model_in("Echo", log_std=-2.0, length=100)  # the reward is the action: 0, or normal around it
        seeds = list(range(200))
        self.assertEqual(set(evaluate(model, seeds).returns), {0.0})
        returns = evaluate(model, seeds, actions="stochastic").returns
        deviation = 10 * math.exp(-2.0)  # of a sum of 100 actions
        self.assertAlmostEqual(returns.std(), deviation, delta=0.2 * deviation)
        self.assertAlmostEqual(returns.mean(), 0.0, delta=0.3 * deviation)

    def test_stochastic_actions_are_the_same_each_time_and_do_not_depend_on_later_seeds(self):
        model = model_in("Echo", length=7)
        first = evaluate(model, [3, 9, 4], actions="stochastic")
        again = evaluate(model, [3, 9, 4, 8, 1, 7], actions="stochastic")
        self.assertEqual(again.episodes[:3], first.episodes)
        self.assertEqual(len(set(again.returns)), 6)

    def test_choices_are_sampled_too(self):
        model = model_in("Count", length=3)
        self.assertEqual(evaluate(model, [1, 2], actions="stochastic").returns.tolist(), [3.0, 3.0])

    def test_a_return_that_is_not_finite_is_named_with_its_seed(self):
        model = model_in("Script", rewards=[math.inf], obs=[1], reset_obs=0, term_at=0)
        with self.assertRaisesRegex(NonFiniteError, r"zeros\.pt: reward inf in step 1 .*seed 8"):
            evaluate(model, [8])

    def test_an_environment_that_has_changed_is_refused(self):
        model = model_in("Count")
        with self.assertRaisesRegex(CheckpointError, "environment has changed"):
            evaluate(replace(model, env=replace(model.env, obs_size=3)), [1])

    def test_seeds_are_those_of_the_run_unless_others_are_asked_for(self):
        model = model_in("Count", info={"seed": 9, "eval_episodes": 4})
        self.assertEqual(own_seeds(model), own_seeds(model_in("Count"), 9, 4))
        self.assertEqual(len(own_seeds(model)), 4)
        self.assertEqual(own_seeds(model, num_episodes=6)[:4], own_seeds(model))
        self.assertNotEqual(own_seeds(model, 10), own_seeds(model))


class TextTest(unittest.TestCase):
    def text(self, model, seeds, **words):
        return evaluation_text([evaluate(model, seeds, **words)])

    def test_the_standard_is_a_verdict_of_its_own(self):
        for solved, verdict in ((2.0, "reached"), (2.1, "not reached")):
            text = self.text(model_in("SeedLength", info={"solved_return": solved}), [1, 3])
            self.assertIn("loop       runs: 2 episodes, 2 terminated", text)
            self.assertIn(f"solved_return {solved:g}: {verdict} (2.0)", text)
        self.assertNotIn("standard", self.text(model_in("SeedLength"), [1, 3]))
        stochastic = self.text(model_in("SeedLength", info={"solved_return": 2.0}), [1, 3], actions="stochastic")
        self.assertNotIn("standard", stochastic)  # which is one of the likeliest actions

    def test_a_return_that_differs_from_the_logged_one_is_told(self):
        model = model_in("Count", length=5, info={"seed": 1, "eval_episodes": 2, "eval_return": 5.5, "round": 3})
        self.assertIn("5.5 in round 3: now 5.0", self.text(model, own_seeds(model)))
        self.assertNotIn("logged", self.text(model, [1, 2]))
        self.assertNotIn("logged", self.text(model, own_seeds(model), actions="stochastic"))

    def test_an_episode_without_end_is_told(self):
        self.assertIn("10,000 steps were counted", self.text(model_in("Count"), [1]))

    def test_models_stand_side_by_side_with_how_likely_each_is_better(self):
        first, second = (evaluate(model_in("SeedLength"), seeds) for seeds in ([1, 2], [2, 3]))
        summary, episodes, _ = evaluation_text([first, second]).split("\n\n")
        self.assertIn("P(> first)", summary.splitlines()[0])
        # 2 = 2, 2 > 1, 3 > 1, 3 > 2: 3.5 of 4
        self.assertTrue(summary.splitlines()[2].endswith(" 0.88"), summary)
        self.assertIn("1.00 in 1, terminated  2.00 in 2, terminated", episodes)

    def test_models_of_different_environments_are_told(self):
        models = [model_in("Count", length=2), model_in("Count", length=3)]
        for others, is_told in ((models, True), (models[:1] * 2, False)):
            text = evaluation_text([evaluate(model, [1, 2]) for model in others])
            self.assertEqual("returns may not compare" in text, is_told)

    def test_many_episodes_are_left_to_the_file(self):
        model = model_in("Count", length=1)
        self.assertEqual(len(self.text(model, list(range(20))).split("\n\n")), 3)
        self.assertEqual(len(self.text(model, list(range(21))).split("\n\n")), 2)

    def test_the_file_has_a_row_for_each_episode(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "evaluation.csv"
            write_csv(path, [evaluate(model_in("SeedLength", info={"round": 8}), [2, 1])])
            rows = read_csv(path)
        expected = {"model": "zeros", "path": "zeros.pt", "round": "8", "actions": "deterministic", "changed": ""}
        self.assertEqual(rows[0], {**expected, "seed": "2", "return": "2.0", "length": "2", "end": "terminated"})
        self.assertEqual(len(rows), 2)


class ChangedTest(unittest.TestCase):
    """A policy in another environment than that of its training: N-10."""

    def setUp(self):
        info = {"eval_return": 3.0, "round": 8, "eval_episodes": 2, "solved_return": 1.0}
        self.model = model_in("Count", info=info, length=3)

    def evaluated(self, *words):
        model = in_environment(self.model, words)
        return evaluate(model, own_seeds(model))

    def test_it_is_marked_as_not_comparable_everywhere(self):
        changed = 'env_kwargs: {"length": 3} -> {"length": 5}'
        found = self.evaluated("env_kwargs={length: 5}")
        self.assertEqual((found.return_mean, found.logged_return), (5.0, None))
        self.assertEqual(found.summary["changed"], [changed])
        text = evaluation_text([found])
        self.assertIn(f"changed    {changed}: not comparable with what the run logged", text)
        self.assertNotIn("standard", text)
        with tempfile.TemporaryDirectory() as folder:
            write_csv(Path(folder) / "evaluation.csv", [found])
            self.assertEqual({row["changed"] for row in read_csv(Path(folder) / "evaluation.csv")}, {changed})

    def test_without_a_change_it_is_compared(self):
        for words in ((), ("env_kwargs={length: 3}",)):
            self.assertEqual(self.evaluated(*words).logged_return, 3.0)


class RunTest(FolderTestCase):
    """Runs of either policy, seven episodes an evaluation: one whole block and one that is padded."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        text = TINY.replace("CartPole-v1", "Pendulum-v1").replace("eval_episodes: 2", "eval_episodes: 7")
        config = cls.config("tiny", text + "max_episode_steps: 40\nseed: 5\n")
        cls.runs = {backend: cls.work / "output" / f"tiny-{backend}" for backend in ("numpy", "torch")}
        for backend in cls.runs:
            cls.train(config, f"run_name={backend}", f"policy_backend={backend}")

    def command(self, *words, code=0):
        """The command's output, or its complaint."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            self.assertEqual(main(["evaluate", *map(str, words)]), code, err.getvalue())
        return out.getvalue() if code == 0 else err.getvalue()

    def logged(self, run):
        """The evaluation returns in the metrics."""
        cells = [row["eval/return_mean"] for row in read_csv(run / "metrics.csv")]
        return [float(cell) for cell in cells if cell not in ("", "nan")]

    def test_the_best_model_s_logged_return_comes_out_again_to_the_last_bit(self):
        for backend, run in self.runs.items():
            with self.subTest(backend):
                model = load_model(run)
                evaluation = evaluate(model, own_seeds(model))
                self.assertEqual(evaluation.summary["return_mean"], max(self.logged(run)))
                self.assertEqual(evaluation.logged_return, max(self.logged(run)))
                self.assertIn("the same to the last bit", evaluation_text([evaluation]))

    def test_a_checkpoint_of_the_same_round_gives_the_same(self):
        run = self.runs["numpy"]
        model = load_model(run / "checkpoints")
        evaluation = evaluate(model, own_seeds(model))
        self.assertEqual(evaluation.summary["return_mean"], self.logged(run)[-1])
        self.assertIsNone(evaluation.logged_return)

    def test_fewer_episodes_are_the_first_ones(self):
        model = load_model(self.runs["numpy"])
        seven, three = (evaluate(model, own_seeds(model, num_episodes=number)) for number in (7, 3))
        self.assertEqual(three.episodes, seven.episodes[:3])

    def test_the_command_takes_settings_of_the_environment(self):  # N-10
        run, report = self.runs["numpy"], self.folder / "changed.json"
        csv = ("--csv", self.folder / "changed.csv")
        out = self.command(run, "max_episode_steps=50", "--episodes", "2", *csv, "--json", report)
        changed = ["max_episode_steps: 40 -> 50", "time limit: 40 -> 50"]
        self.assertIn(f"changed    {'; '.join(changed)}: not comparable", out)
        self.assertEqual(out.splitlines()[-1], f"look at it     ddp-ppo play {run} max_episode_steps=50")
        (one,) = json.loads(report.read_text())["evaluations"]
        self.assertEqual((one["changed"], one["length_mean"]), (changed, 50.0))
        self.assertIn("gamma: only the settings of the environment", self.command(run, "gamma=0.5", code=2))
        self.assertIn("name a run folder", self.command("max_episode_steps=50", code=2))

    def test_the_command_writes_a_table_and_files_and_says_what_is_next(self):
        run, report = self.runs["numpy"], self.folder / "report.json"
        out = self.command(run, run / "model.pt", "--stochastic", "--episodes", "3", "--json", report)
        self.assertIn("tiny-numpy/model_best  deterministic", out)
        self.assertIn("tiny-numpy/model       stochastic", out)
        self.assertEqual(out.splitlines()[-1], f"look at it     ddp-ppo play {run}")
        self.assertEqual(len(read_csv(run / "evaluation.csv")), 2 * 2 * 3)
        content = json.loads(report.read_text())
        self.assertEqual(content["seeds"], own_seeds(load_model(run), num_episodes=3))
        self.assertEqual(len(content["evaluations"]), 4)
        first = content["evaluations"][0]
        self.assertEqual(
            (first["model"], first["actions"], first["ends"]),
            ("tiny-numpy/model_best", "deterministic", {"truncated": 3}),
        )
        mean = sum(episode["episode_return"] for episode in first["episodes"]) / 3
        self.assertAlmostEqual(first["return_mean"], mean)

    def test_a_mistake_is_one_line(self):
        run = self.runs["numpy"]
        self.assertRegex(self.command(self.folder / "gone", code=2), r"\Addp-ppo: .*gone: no such file.*\n\Z")
        nowhere = self.folder / "nowhere" / "a.csv"
        self.assertRegex(
            self.command(run, "--csv", nowhere, code=2), r"\Addp-ppo: --csv: .*a\.csv cannot be written.*\n\Z"
        )
        for option in ("--csv", "--json"):
            text = self.command(run, option, self.folder, code=2)
            self.assertEqual(text.count("\n"), 1, text)
            self.assertIn(f"ddp-ppo: {option}: {self.folder} cannot be written; name a file", text)
        for words in (("--episodes", "0"), ("--episodes", "many"), ("--seed", "-1")):
            with self.subTest(words), self.assertRaises(SystemExit) as caught:
                self.command(run, *words)
            self.assertEqual(caught.exception.code, 2)


if __name__ == "__main__":
    unittest.main()
