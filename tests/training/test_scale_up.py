"""More environments: the arithmetic by hand, and what does not come out whole."""

import contextlib
import io
import json
import tempfile
import unittest
from pathlib import Path

from ddp_ppo.__main__ import main
from ddp_ppo.config.settings import Config, ConfigError
from ddp_ppo.training.scale_up import scale_up, scale_up_text

# 2 actors x 8 environments x 128 steps = 2048 transitions; 32 mini-batches of 64; 10 x 32 = 320 gradient steps;
# 1,000,000 / 2048 = 488.3: 489 rounds, 156,480 gradient steps.
BASE = {"num_actors": 2, "envs_per_actor": 8, "rollout_length": 128, "minibatch_size": 64, "num_epochs": 10}
BASE |= {"total_env_steps": 1_000_000}


class ArithmeticTest(unittest.TestCase):
    def scaled(self, environments, keep, *, num_learners=1, **settings):
        config, result = scale_up(Config(**(BASE | settings)), environments, keep, num_learners=num_learners)
        for name, value in result.settings.items():
            self.assertEqual(getattr(config, name), value)
        return result

    def test_the_present_is_shown_beside_what_would_be(self):
        before = {name: row[0] for name, row in self.scaled("4x", "transitions").rows.items()}
        expected = {"environments": 16, "rollout_length": 128, "transitions a round": 2048, "minibatch_size": 64}
        expected |= {"mini-batches an epoch": 32, "gradient steps per round": 320, "rounds": 489}
        expected |= {"transitions of the run": 1_001_472, "gradient steps of the run": 156_480}
        self.assertEqual(before, expected)

    def test_kept_transitions_shorten_the_rollouts_and_change_nothing_else(self):
        result = self.scaled("4x", "transitions")
        self.assertEqual(result.settings, {"num_envs": 64, "rollout_length": 32})
        changed = {name: row for name, row in result.rows.items() if row[0] != row[1]}
        self.assertEqual(changed, {"environments": (16, 64), "rollout_length": (128, 32)})

    def test_a_kept_mini_batch_multiplies_the_gradient_steps_of_a_round(self):
        result = self.scaled("4x", "minibatch_size")
        self.assertEqual(result.settings, {"num_envs": 64})
        self.assertEqual(result.rows["transitions a round"], (2048, 8192))
        self.assertEqual(result.rows["minibatch_size"], (64, 64))
        self.assertEqual(result.rows["gradient steps per round"], (320, 1280))
        self.assertEqual(result.rows["rounds"], (489, 123))  # 122.07
        self.assertIn("4x the gradient steps", " ".join(result.notes))

    def test_kept_updates_multiply_the_mini_batch_and_lessen_the_gradient_steps_of_the_run(self):
        result = self.scaled("4x", "updates")
        self.assertEqual(result.settings, {"num_envs": 64, "minibatch_size": 256})
        self.assertEqual(result.rows["gradient steps per round"], (320, 320))
        self.assertEqual(result.rows["gradient steps of the run"], (156_480, 39_360))  # 123 * 320
        self.assertIn("0.0006", " ".join(result.notes))  # 3e-4 times the square root of 4

    def test_a_remainder_stays_a_remainder(self):
        # 2 x 3 x 100 = 600 = 9 x 64 + 24; four times: 2400 = 9 x 256 + 96
        result = self.scaled("4x", "updates", envs_per_actor=3, rollout_length=100)
        self.assertEqual(result.rows["mini-batches an epoch"], (10, 10))

    def test_a_number_counts_the_environments_of_the_whole_run(self):
        self.assertEqual(self.scaled("64", "updates").settings, self.scaled("4x", "updates").settings)
        half = self.scaled("8", "transitions")
        self.assertEqual(half.settings, {"num_envs": 8, "rollout_length": 256})
        self.assertEqual(half.settings, self.scaled("0.5x", "transitions").settings)

    def test_several_learners_add_up(self):
        result = self.scaled("2x", "minibatch_size", num_learners=2, num_gpus=2, num_actors=4)
        self.assertEqual(result.rows["environments"], (32, 64))
        self.assertEqual(result.rows["transitions a round"], (4096, 8192))
        self.assertEqual(result.rows["rounds"], (245, 123))  # 244.1, 122.1

    def test_rollouts_below_the_horizon_of_the_advantages_are_noted(self):
        # x = 0.99 * 0.95 = 0.9405, 1 / (1 - x) = 16.8; x (1 - x^T) / (T (1 - x)) for T = 128, 32, 8
        for environments, words in (("4x", "after 32: 42% of .*, now 12%"), ("16x", "after 8: 77% of .*, now 12%")):
            notes = " ".join(self.scaled(environments, "transitions").notes)
            self.assertRegex(notes, f"about 17 steps ahead.*{words}")
        self.assertEqual(self.scaled("4x", "transitions", rollout_length=2048, minibatch_size=1024).notes, ())
        self.assertEqual(self.scaled("0.5x", "transitions").notes, ())

    def test_fewer_environments_are_noted_too(self):
        result = self.scaled("0.5x", "updates")  # 1024 a round: 977 rounds of 320 gradient steps
        self.assertEqual(result.rows["gradient steps of the run"], (156_480, 312_640))
        self.assertRegex(" ".join(result.notes), r"takes 2x the gradient steps: lower .*0\.00021\)")  # 3e-4 / 1.414

    def test_intervals_that_count_rounds_are_given_for_the_longer_ones(self):
        notes = " ".join(self.scaled("4x", "updates", eval_interval=200, checkpoint_interval=3).notes)
        self.assertIn("there are 123 in place of 489; as often in environment steps: eval_interval=50 check", notes)
        self.assertIn("checkpoint_interval=1", notes)  # 0.75
        notes = " ".join(self.scaled("0.5x", "minibatch_size", eval_interval=0).notes)
        self.assertRegex(notes, r"environment steps: checkpoint_interval=100(?! eval)")
        self.assertNotIn("intervals", " ".join(self.scaled("4x", "transitions").notes))

    def refused(self, environments, keep, **settings):
        with self.assertRaises(ConfigError) as caught:
            self.scaled(environments, keep, **settings)
        return str(caught.exception)

    def test_what_does_not_come_out_whole_is_refused_with_the_nearest_that_does(self):
        self.assertIn("begin with rollout_length=126 or 129", self.refused("3x", "transitions"))
        self.assertIn("begin with num_envs=14 or 16", self.refused("0.5x", "updates", num_envs=15, envs_per_actor=None))
        two = self.refused("65", "updates", num_learners=2, num_gpus=2)
        self.assertIn("65 cannot be shared equally by 2 learners; nearest: 64 or 66", two)
        self.assertIn("allowed: a factor such as 4x", self.refused("four", "updates"))
        self.assertIn("allowed: a factor such as 4x", self.refused("0x", "updates"))
        with self.assertRaisesRegex(ConfigError, "not of learner: disco"):
            scale_up(Config(env_id="CartPole-v1", learner="disco"), "2x", "updates", num_learners=1)

    def test_the_text_names_the_settings_to_write(self):
        text = scale_up_text(self.scaled("4x", "updates"))
        self.assertIn("write          num_envs=64 minibatch_size=256   (updates kept)", text)
        self.assertRegex(text, r"transitions a round +2,048 +8,192")


class CommandTest(unittest.TestCase):
    """`ddp-ppo plan CONFIG --environments ... --keep ...`."""

    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.config = self.folder / "tiny.yaml"
        self.config.write_text("env_id: CartPole-v1\nenvs_per_actor: 4\nrollout_length: 32\n")

    def run_plan(self, *words):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(["plan", str(self.config), *words])
        return code, out.getvalue(), err.getvalue()

    def test_it_prints_both_arithmetics_and_the_next_command_and_writes_json(self):
        path = self.folder / "result.json"
        words = ("gamma=0.9", "--environments", "2x", "--keep", "transitions", "--json", str(path))
        code, out, _ = self.run_plan(*words)
        self.assertEqual(code, 0)
        self.assertRegex(out, r"rollout_length +32 +16")
        self.assertIn(f"ddp-ppo check {self.config} gamma=0.9 num_envs=16 rollout_length=16", out)
        result = json.loads(path.read_text())
        self.assertEqual(result["settings"], {"num_envs": 16, "rollout_length": 16})
        self.assertEqual(result["rows"]["environments"], [8, 16])

    def test_mistakes_are_one_line_and_exit_2(self):
        for words in (
            ("--keep", "updates"),
            ("--environments", "2x"),
            ("--environments", "3x", "--keep", "transitions"),
        ):
            with self.subTest(words):
                code, out, err = self.run_plan(*words)
                self.assertEqual((code, out, len(err.splitlines())), (2, "", 1))


if __name__ == "__main__":
    unittest.main()
