"""`ddp-ppo play` as its users run it: on every kind of model, with and without something that draws."""

import json
import shutil
import unittest

import numpy as np
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from ddp_ppo.config.settings import ConfigError
from ddp_ppo.envs.build import make_batch_env
from ddp_ppo.evaluation.evaluate import evaluate, own_seeds
from ddp_ppo.evaluation.play import Wanted, default_folder, play, play_text, tasks_of
from ddp_ppo.policies.network import NetworkSpec
from ddp_ppo.runs.model import Model, load_model
from tests.support.fixtures import random_parameters
from tests.support.process import FIXTURE, TINY, FolderTestCase

# Nothing is drawn: MuJoCo may not, and no window is tried.
BLIND = {"MUJOCO_GL": "disable", "DISPLAY": "", "WAYLAND_DISPLAY": ""}
PAINTER = FIXTURE.replace("tests.support.fixtures:Count-v0", "tests.support.drawing:Painter-v0")


def untrained(env_id, folder, **env_kwargs):
    """A model of random parameters."""
    env = make_batch_env(env_id, 2, env_kwargs=env_kwargs).spec
    network = NetworkSpec.for_env(env, (8,), "tanh")
    arguments = {"env_id": env_id, "env_kwargs": env_kwargs}
    return Model(folder / "a.pt", "a", network, env, arguments, random_parameters(network), None, {"seed": 1})


class PlayTest(FolderTestCase):
    """A run on CartPole and one on an environment that draws."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for name, text in (("tiny", TINY), ("painter", PAINTER)):
            cls.train(cls.config(name, text), "run_name=a")
        cls.run_folder, cls.painter = (cls.work / "output" / f"{name}-a" for name in ("tiny", "painter"))

    def command(self, *words):
        """Exit code, output and errors of one call."""
        return self.command_line("play", *words, environ=BLIND)

    def played(self, path, folder="out", **wanted):
        """Episodes played in this process."""
        return list(play(load_model(path), self.folder / self.id() / folder, Wanted(**wanted)))

    def test_episodes_are_those_of_evaluate(self):
        model = load_model(self.run_folder)
        expected = evaluate(model, own_seeds(model, None, 3)).episodes
        found = [one.trajectory for one in self.played(self.run_folder, num_episodes=3)]
        self.assertEqual([(one.seed, one.episode_return, one.length, one.end) for one in found], list(expected))

    def test_a_run_leaves_a_folder_with_everything_and_a_next_command(self):
        code, out, err = self.command("output/tiny-a", "--episodes", "2", "--json", "a.json")
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(out.count("drawing "), out.count("  video "))  # only where something draws
        found = json.loads((self.work / "a.json").read_text())
        self.assertEqual(found["model"], "tiny-a/model_best")
        self.assertEqual(len(found["episodes"]), 2)
        for number, episode in enumerate(found["episodes"], 1):
            folder = self.run_folder / "play"
            self.assertEqual(episode["files"]["trajectory"], str(folder / f"episode_{number}.npz"))
            self.assertEqual(np.load(folder / f"episode_{number}.npz")["reward"].sum(), episode["return"])
            self.assertIn("pole angle", (folder / f"episode_{number}.html").read_text())
            self.assertIn(f"seed {episode['seed']}: return {episode['return']:.2f} in {episode['length']} steps", out)
        self.assertTrue(out.splitlines()[-1].startswith("export it "))

    def test_what_cannot_be_drawn_is_a_reason_and_no_failure(self):
        shutil.copytree(self.painter, self.folder / "broken")
        model = load_model(self.folder / "broken")
        model.env_arguments["env_kwargs"] = {"how": "abort"}
        (one,) = play(model, self.folder / "broken" / "play", Wanted())
        self.assertIsNone(one.film)
        self.assertIn("its process ended with signal SIGABRT", one.notes[0])
        self.assertIn("no video: ", play_text(one))
        self.assertEqual(
            sorted(path.name for path in (self.folder / "broken" / "play").iterdir()),
            ["episode_1.html", "episode_1.npz"],
        )
        self.assertIn("SIGABRT", one.file(".html").read_text())

    def test_a_video_is_written_shown_in_the_page_and_beside_the_curves(self):
        said = []
        (one,) = play(load_model(self.painter), self.folder / self.id(), Wanted(), say=said.append)
        self.assertEqual(said, [f"drawing        {one.film.path}; takes up to a minute without a GPU"])
        self.assertEqual(one.film.drift, 0.0)
        self.assertEqual(one.notes, ())
        html = one.file(".html").read_text()
        self.assertIn(f"data:{'video/mp4' if one.film.path.suffix == '.mp4' else 'image/gif'};base64,", html)
        events = EventAccumulator(str(self.painter / "tensorboard" / "play"), size_guidance={"images": 0}).Reload()
        self.assertEqual(events.Tags()["images"], ["play/episode_1"])
        image = events.Images("play/episode_1")[-1]
        self.assertEqual(image.encoded_image_string, one.film.still.read_bytes())
        self.assertEqual((image.step, image.width, image.height), (load_model(self.painter).info["env_steps"], 18, 8))

    def test_an_earlier_episode_s_video_does_not_stay(self):
        (one,) = self.played(self.painter)
        stale = one.file(".gif" if one.film.path.suffix == ".mp4" else ".mp4")
        stale.touch()
        self.played(self.painter)
        self.assertFalse(stale.exists())

    def test_a_recording_is_replayed_to_the_last_bit(self):
        (one,) = self.played(self.run_folder, seed=5)
        (again,) = self.played(self.run_folder, "again", actions=one.file(".npz"))
        self.assertEqual(again.trajectory.seed, one.trajectory.seed)
        self.assertTrue(again.deviation.is_equal)
        self.assertEqual(again.summary["replay"], {"is_equal": True, "words": again.deviation.words})
        self.assertIn("Replay against its recording", again.file(".html").read_text())

    def test_a_replay_writes_beside_its_recording_and_never_over_what_it_reads(self):
        folder = self.folder / self.id()
        model = untrained("tests.support.drawing:Painter-v0", folder)
        (one,) = play(model, folder, Wanted())
        recording = {path: path.read_bytes() for path in folder.iterdir()}
        self.assertEqual(len(recording), 4)
        (folder / "link.npz").symlink_to("replay_1.npz")
        for actions, name in (
            (one.file(".npz"), "replay_1"),
            (one.file(".npz"), "replay_1"),
            (folder / "replay_1.npz", "replay_2"),
            (folder / "link.npz", "replay_2"),
            (folder / ".." / folder.name / "replay_2.npz", "replay_1"),
        ):
            with self.subTest(actions):
                before = actions.read_bytes()
                (again,) = play(model, folder, Wanted(actions=actions))
                self.assertEqual((again.stem.name, again.deviation.is_equal), (name, True))
                self.assertEqual(actions.read_bytes(), before)
        self.assertEqual({path: path.read_bytes() for path in recording}, recording)

    def test_a_replay_that_ends_before_its_recording_is_not_called_equal(self):
        folder = self.folder / self.id()
        (one,) = play(untrained("tests.support.fixtures:Echo-v0", folder, length=40), folder, Wanted())
        model = untrained("tests.support.fixtures:Echo-v0", folder, length=10)
        (again,) = play(model, folder, Wanted(actions=one.file(".npz")))
        words = "equal for 10 steps, then it ended (terminated), the recording went on to 40"
        self.assertEqual(again.summary["replay"], {"is_equal": False, "words": words})
        self.assertIn(words, play_text(again))
        self.assertIn(words, again.file(".html").read_text())
        (part,) = play(model, folder, Wanted(actions=one.file(".npz"), num_steps=9))
        self.assertTrue(part.deviation.is_equal)

    def test_choices_that_do_not_start_at_0_are_kept_replayed_and_drawn_as_they_are(self):
        folder = self.folder / self.id()
        folder.mkdir()
        actions = folder / "turn.csv"
        actions.write_text("choice\n3\n1\n2\n")
        (one,) = play(untrained("tests.support.drawing:Dial-v0", folder), folder, Wanted(actions=actions))
        self.assertEqual(one.trajectory.reward.tolist(), [3.0, 1.0, 2.0])
        self.assertEqual(np.load(one.file(".npz"))["act"].tolist(), [3, 1, 2])
        self.assertEqual(one.film.drift, 0.0)
        self.assertIn("1 choice 1, 2 choice 2, 3 choice 3", one.file(".html").read_text())

    def test_actions_that_had_to_be_clipped_are_told(self):
        folder = self.folder / self.id()
        folder.mkdir()
        (folder / "far.csv").write_text("0.5\n3\n")
        (one,) = play(untrained("tests.support.fixtures:Echo-v0", folder), folder, Wanted(actions=folder / "far.csv"))
        words = "actions of 1 of 2 steps are outside the limits"
        for text in (play_text(one), one.summary["notes"][0], one.file(".html").read_text()):
            self.assertIn(words, text)

    def test_a_recording_of_one_of_several_tasks_is_replayed_in_that_one(self):
        folder = self.folder / self.id()
        (one,) = play(untrained("CartPole-v0", folder), folder, Wanted(num_steps=5))
        model = untrained(["CartPole-v1", "CartPole-v0"], folder)
        self.assertEqual([task.env.env_id for task in tasks_of(model, Wanted())], ["CartPole-v1", "CartPole-v0"])
        (task,) = tasks_of(model, Wanted(actions=one.file(".npz")))
        self.assertEqual(task.env.env_id, "CartPole-v0")
        with self.assertRaisesRegex(ConfigError, "recorded in another environment: CartPole-v0, not CartPole-v1"):
            next(play(untrained("CartPole-v1", folder), folder, Wanted(actions=one.file(".npz"))))

    def test_another_sequence_is_compared_with_the_policy_s_own(self):
        actions = self.folder / "push.csv"
        actions.write_text("1\n" * 6)
        (one,) = self.played(self.run_folder, actions=actions)
        self.assertEqual(one.trajectory.act.tolist(), [1] * 6)
        self.assertIsNone(one.deviation)
        html = one.file(".html").read_text()
        self.assertEqual("the policy&#x27;s" in html, one.trajectory.policy_act.tolist() != [1] * 6)
        self.assertIn("0 push left, 1 push right", html)

    def test_models_and_checkpoints_are_played_beside_their_own_files(self):
        for path, folder in (
            (self.run_folder / "model.pt", self.run_folder / "play"),
            (self.run_folder / "checkpoints", self.run_folder / "play"),
            (self.work / "output" / "model_tiny.pt", self.work / "output" / "model_tiny_play"),
        ):
            with self.subTest(path):
                self.assertEqual(default_folder(load_model(path)).resolve(), folder)

    def test_steps_cut_and_a_seed_chooses(self):
        (one,) = self.played(self.run_folder, num_steps=3, seed=99)
        self.assertEqual((one.trajectory.length, one.trajectory.end), (3, "cut"))
        self.assertEqual(one.trajectory.seed, own_seeds(load_model(self.run_folder), 99, 1)[0])

    def test_mistakes_are_one_line_and_exit_2(self):
        (self.work / "file").touch()
        for words, what in (
            (["gone"], "gone"),
            (["output/tiny-a", "--actions", "gone.npz"], "gone.npz"),
            (["output/tiny-a", "--actions", "gone.npz", "--episodes", "2"], "gone.npz"),
            (["output/tiny-a", "--out", "file"], "/file cannot be made"),
            (["output/tiny-a", "--json", "gone/a"], "--json"),
        ):
            with self.subTest(words):
                code, out, err = self.command(*words)
                self.assertEqual((code, out.count("note") + out.count("drawing"), err.count("\n")), (2, 0, 1), err)
                self.assertIn(what, err)


if __name__ == "__main__":
    unittest.main()
