"""Exported policies: what the files hold, how near they act, and the command."""

import contextlib
import hashlib
import io
import json
import subprocess
import sys
import unittest
from pathlib import Path
from unittest import mock

import numpy as np

from ddp_ppo.__main__ import main
from ddp_ppo.export.export import export, export_text, has_extra, runner_act, write_numpy
from ddp_ppo.export.parity import beginning, largest_error, measure, observations, torch_act
from ddp_ppo.export.run_policy import TOLERANCE
from ddp_ppo.runs.model import save_model
from tests.support.files import OwnFolderTestCase
from tests.support.models import CHEETAH_STATE, HOPPER_STATE, every_kind, random_model

needs_extra = unittest.skipUnless(has_extra(), "needs onnx and onnxruntime: pip install 'ddp-ppo[export]'")


def saved(model, folder, name="m.pt"):
    """Writes the model's file."""
    path = folder / name
    about = {"env_arguments": model.env_arguments, **model.info}
    save_model(path, model.network, model.env, model.parameters, model.obs_rms_state, about)
    return path


def run(*words):
    """Exit status, what was printed and what was said on stderr."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main(["export", *map(str, words)])
    return status, out.getvalue(), err.getvalue()


class NumpyTest(OwnFolderTestCase):
    """Without the extra."""

    def test_the_runner_acts_as_the_policy_of_every_kind(self):
        for name, model in every_kind():
            obs = observations(model)
            write_numpy(model, self.folder, obs)
            (parity,) = measure(model, {"runner": runner_act(model, self.folder)}, obs)
            with self.subTest(name):
                self.assertTrue(parity.has_passed, parity)

    def test_a_missing_extra_is_one_line_that_names_it(self):
        path = saved(random_model("CartPole-v1"), self.folder)
        with mock.patch.dict(sys.modules, {"onnx": None}):
            status, out, err = run(path)
        self.assertEqual((status, out), (2, ""))
        self.assertEqual(err, "ddp-ppo: export needs onnx and onnxruntime: pip install 'ddp-ppo[export]'\n")
        self.assertEqual([each.name for each in self.folder.iterdir()], ["m.pt"])


@needs_extra
class ExportTest(OwnFolderTestCase):
    def test_the_document_says_which_value_each_column_of_a_discrete_observation_is(self):  # H-h
        model = random_model("tests.support.brought:brought/Numbers-v0")
        export(saved(model, self.folder), self.folder)
        columns = json.loads((self.folder / "policy.json").read_text())["obs"]["columns"]
        named = [(column["name"], column["value"]) for column in columns]
        self.assertEqual(named, [("is 5", 5), ("is 6", 6), ("is 7", 7)])

    def test_a_right_export_of_a_wide_policy_passes(self):  # S-1
        state = {"mean": np.zeros(1000), "var": np.geomspace(1e-8, 1.0, 1000), "count": 100.0}
        model = random_model("tests.support.brought:brought/Wide-v0", hidden_sizes=(64, 64), state=state)
        exported = export(saved(model, self.folder), self.folder)
        self.assertTrue(exported.has_passed, exported.parities)
        self.assertAlmostEqual(exported.document["parity"]["tolerance"], 1e-5 * (1000 / 256) ** 0.5, 9)
        self.assertIn("allowed is 2e-05", export_text(exported))
        words = subprocess.run(
            [sys.executable, self.folder / "run_policy.py"], capture_output=True, text=True, timeout=60
        )
        self.assertRegex(words.stdout, "^PASS: .* allowed 2e-05")

    def test_the_document_says_what_the_columns_are(self):
        model = random_model("HalfCheetah-v5", state=CHEETAH_STATE)
        exported = export(saved(model, self.folder), self.folder / "to")
        document = json.loads((self.folder / "to" / "policy.json").read_text())
        self.assertEqual(document, exported.document)
        first = {"name": "rootz.position", "unit": "m", "source": "qpos[1]", "frame": "axis 0 0 1 of torso"}
        self.assertEqual(document["obs"]["columns"][0], first | {"mean": -1.0, "std": 0.01})
        self.assertEqual(document["obs"]["shape"], ["N", 17])
        thigh = {"name": "bthigh", "unit": "120 N m", "source": "ctrl[0]", "frame": "axis 0 1 0 of bthigh"}
        self.assertEqual(document["action"]["columns"][0], thigh | {"low": -1.0, "high": 1.0})
        self.assertEqual((document["dt_seconds"], document["frame_skip"]), (0.05, 5))
        self.assertEqual(document["env"]["max_episode_steps"], 1000)
        self.assertIn("does not validate it on a real robot", document["note"])
        self.assertLessEqual({"torch", "numpy", "onnx", "onnxruntime", "ddp_ppo"}, set(document["versions"]))

    def test_hashes_are_those_of_the_files(self):
        path = saved(random_model("CartPole-v1"), self.folder)
        folder = self.folder / "m_export"
        document = export(path).document
        written = {each.name for each in folder.iterdir()}
        self.assertEqual(written, {"policy.onnx", "policy.npz", "run_policy.py", "policy.json"})
        for name, about in document["files"].items():
            self.assertEqual(about["sha256"], hashlib.sha256((folder / name).read_bytes()).hexdigest())
        self.assertEqual(document["source"]["sha256"], hashlib.sha256(path.read_bytes()).hexdigest())

    def test_bounds_that_are_not_finite_are_null_and_choices_have_values(self):
        for name, key, expected in (
            ("HalfOpen", "columns", [{"low": -0.5, "high": None}, {"low": None, "high": 2.0}]),
            ("OneOfThree", "choices", [{"value": -1}, {"value": 0}, {"value": 1}]),
        ):
            model = random_model(f"tests.support.models:{name}-v0")
            document = export(saved(model, self.folder), self.folder / name).document
            values = [{k: v for k, v in row.items() if k in expected[0]} for row in document["action"][key]]
            self.assertEqual(values, expected)

    def test_of_a_policy_with_convolutions_there_is_the_graph_alone(self):
        model = random_model("ddp_ppo.tasks.catch:Catch-v0", is_image=True, conv_channels=(4,))
        folder = self.folder / "image"
        exported = export(saved(model, self.folder), folder)
        self.assertTrue(exported.has_passed)
        self.assertEqual({path.name for path in folder.iterdir()}, {"policy.onnx", "policy.json"})
        self.assertNotIn("run_policy", export_text(exported))

    def test_choices_of_a_grid_say_which_action_of_the_box_they_are(self):
        model = random_model("Pendulum-v1", discretize_actions=3)
        choices = export(saved(model, self.folder), self.folder / "grid").document["action"]["choices"]
        found = [(choice["name"], choice["unit"], choice["value"], choice["box"]) for choice in choices]
        expected = [("torque -2", "N m", 0, [-2.0]), ("torque 0", "N m", 1, [0.0]), ("torque 2", "N m", 2, [2.0])]
        self.assertEqual(found, expected)

    def test_a_file_that_was_changed_does_not_pass(self):
        model = random_model("Hopper-v5", state=HOPPER_STATE)
        export(saved(model, self.folder), self.folder)
        text = (self.folder / "run_policy.py").read_text()
        (self.folder / "run_policy.py").write_text(text.replace('-arrays["clip"], arrays["clip"]', "-9, 9"))
        obs = observations(model)
        state = beginning(model, len(obs))
        got, expected = (act(obs, state) for act in (runner_act(model, self.folder), torch_act(model)))
        self.assertGreater(largest_error(got, expected, model.env.action), TOLERANCE)


@needs_extra
class CommandTest(OwnFolderTestCase):
    def test_a_run_is_exported_and_the_exit_status_is_0(self):
        run_folder, result = self.folder / "tiny-a", self.folder / "result.json"
        run_folder.mkdir()
        saved(random_model("CartPole-v1"), run_folder, "model_best.pt")
        status, out, err = run(run_folder, "--json", result)
        self.assertEqual((status, err), (0, ""))
        document = json.loads(result.read_text())
        self.assertEqual(document["folder"], str(run_folder / "model_best_export"))
        self.assertEqual(document["source"]["seed"], 3)
        self.assertTrue(document["parity"]["has_passed"])
        self.assertEqual([each["name"] for each in document["parity"]["results"]][1:], ["policy.onnx", "run_policy.py"])
        self.assertIn("2,048 real and 8,192 extreme observations", out)
        self.assertRegex(out, r"policy\.onnx +\d\.\de-0[6-9] +\d\.\de-0[6-9]")
        self.assertRegex(out, r"does not validate it on a real robot")
        self.assertRegex(out, r"python \S+/model_best_export/run_policy\.py\n\Z")

    def test_paths_count_from_where_it_was_started_wherever_the_environment_goes(self):
        self.enterContext(contextlib.chdir(self.folder))
        path = saved(random_model("tests.support.models:Wandering-v0"), Path())
        status, _, err = run(path, "--out", "a b", "--json", "result.json")
        self.assertEqual((status, err), (0, ""))
        self.assertTrue((self.folder / "a b" / "policy.json").exists())
        self.assertTrue((self.folder / "result.json").exists())

    def test_what_differs_from_the_policy_fails(self):
        model = random_model("CartPole-v1")
        model.parameters[:] = 3e38  # outputs overflow
        with np.errstate(all="ignore"):
            status, out, _ = run(saved(model, self.folder), "--out", self.folder / "to")
        self.assertEqual(status, 1)
        self.assertIn("FAIL           do not use these files", out)
        document = json.loads((self.folder / "to" / "policy.json").read_text())
        self.assertFalse(document["parity"]["has_passed"])

    def test_mistakes_are_one_line_and_exit_2(self):
        path = saved(random_model("CartPole-v1"), self.folder)
        for words, text in (
            ((self.folder / "none.pt",), "none.pt: no such file"),
            ((path, "--out", path / "to"), "--out: cannot create"),
            ((path, "--json", self.folder / "none" / "a.json"), "--json: .*cannot be written"),
        ):
            status, out, err = run(*words)
            with self.subTest(words):
                self.assertEqual((status, out), (2, ""))
                self.assertRegex(err, rf"\Addp-ppo: .*{text}.*\n\Z")


if __name__ == "__main__":
    unittest.main()
