"""`ddp-ppo play` as its users run it: on every kind of model, with and without something that draws."""

import json
import shutil
import unittest

import numpy as np
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from ddp_ppo.evaluate import evaluate, own_seeds
from ddp_ppo.models import load_model
from ddp_ppo.play import Wanted, default_folder, play, play_text
from tests.process import FIXTURE, TINY, FolderTestCase

# Nothing is drawn: MuJoCo may not, and no window is tried.
BLIND = {"MUJOCO_GL": "disable", "DISPLAY": "", "WAYLAND_DISPLAY": ""}
PAINTER = FIXTURE.replace("tests.fixtures:Count-v0", "tests.drawing:Painter-v0")


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
        (one,) = self.played(self.painter)
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
        self.assertTrue(again.deviation.words.startswith("equal to the recording to the last bit"))
        self.assertIn("Replay against its recording", again.file(".html").read_text())

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
            (["output/tiny-a", "--out", "file"], "--out: file"),
            (["output/tiny-a", "--json", "gone/a"], "--json"),
        ):
            with self.subTest(words):
                code, out, err = self.command(*words)
                self.assertEqual((code, out.count("note"), err.count("\n")), (2, 0, 1), err)
                self.assertIn(what, err)


if __name__ == "__main__":
    unittest.main()
