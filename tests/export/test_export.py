"""Exported policies: what the files hold, how near they act, and the command."""

import contextlib
import hashlib
import io
import json
import os
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete

from ddp_ppo.__main__ import main
from ddp_ppo.envs.columns import describe_interface
from ddp_ppo.export.export import export, export_text, has_extra, onnx_act, runner_act, write_numpy, write_onnx
from ddp_ppo.export.parity import TOLERANCE, beginning, largest_error, measure, observations, torch_act
from ddp_ppo.runs.checkpoint import save_model
from tests.export.test_parity import HOPPER_STATE, random_model
from tests.support.fixtures import Count

CHEETAH_STATE = {"mean": np.linspace(-1, 2, 17), "var": np.geomspace(1e-4, 9.0, 17), "count": 9.0}
needs_extra = unittest.skipUnless(has_extra(), "needs onnx and onnxruntime: pip install 'ddp-ppo[export]'")


class Shifted(Count):
    """Three choices, numbered from -1; another number is an error."""

    def __init__(self):
        super().__init__(length=20)
        self.action_space = Discrete(3, start=-1)

    def step(self, action):
        assert self.action_space.contains(action), action
        return super().step(action)


class Wandering(Count):
    """Goes to another folder in its first step."""

    def step(self, action):
        os.chdir("/")
        return super().step(action)


class HalfOpen(Count):
    """Two continuous actions, each with one limit."""

    def __init__(self):
        super().__init__(length=20)
        self.action_space = Box(np.float32([-0.5, -np.inf]), np.float32([np.inf, 2.0]))


class ChannelsFirst(Count):
    """Observes bytes [2, 5, 6] of its own generator."""

    def __init__(self):
        super().__init__(length=20)
        self.observation_space = Box(0, 255, (2, 5, 6), np.uint8)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.picture(), {}

    def step(self, action):
        return self.picture(), *super().step(action)[1:]

    def picture(self):
        return self.np_random.integers(0, 256, (2, 5, 6)).astype(np.uint8)


for _class in (Shifted, Wandering, HalfOpen, ChannelsFirst):
    gymnasium.register(f"{_class.__name__}-v0", entry_point=f"{__name__}:{_class.__name__}")


def every_kind():
    """Policies of all kinds by name."""
    for activation in ("tanh", "relu", "elu"):
        yield activation, random_model("Hopper-v5", activation=activation, state=HOPPER_STATE, hidden_sizes=(32, 16))
    yield "linear", random_model("Hopper-v5", state=HOPPER_STATE, hidden_sizes=())
    yield "raw observations", random_model("Hopper-v5")
    yield "choices", random_model("CartPole-v1")
    yield "choices from -1", random_model(f"{__name__}:Shifted-v0")
    yield "limits on one side", random_model(f"{__name__}:HalfOpen-v0")


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


class FolderCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)


class NumpyTest(FolderCase):
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
class OnnxTest(FolderCase):
    def act(self, model):
        write_onnx(model, self.folder, describe_interface(model.env_arguments))
        return onnx_act(model, self.folder)

    def test_it_acts_as_the_policy_of_every_kind(self):
        for name, model in every_kind():
            (parity,) = measure(model, {"onnx": self.act(model)}, observations(model))
            with self.subTest(name):
                self.assertTrue(parity.has_passed, parity)

    def test_it_sees_images_as_the_policy_does_in_both_orders(self):
        state = {"mean": np.linspace(0, 200, 64), "var": np.geomspace(1.0, 1e4, 64), "count": 9.0}
        for each in (None, state):
            for hidden_sizes in ((), (8,)):
                options = {"hidden_sizes": hidden_sizes, "conv_channels": (4, 5), "activation": "relu", "state": each}
                model = random_model("ddp_ppo.tasks.catch:Catch-v0", is_image=True, **options)
                (parity,) = measure(model, {"onnx": self.act(model)}, observations(model))
                with self.subTest(is_normalised=each is not None, hidden_sizes=hidden_sizes):
                    self.assertTrue(parity.has_passed, parity)
        first = random_model(f"{__name__}:ChannelsFirst-v0", conv_channels=(4,))
        (parity,) = measure(first, {"onnx": self.act(first)}, observations(first))
        self.assertTrue(parity.has_passed, parity)

    def test_any_number_of_observations_fits(self):
        model = random_model("Hopper-v5", state=HOPPER_STATE)
        act, obs = self.act(model), observations(model)
        expected = torch_act(model)(obs, beginning(model, len(obs)))
        for size in (0, 1, 7, 1000):
            got = act(obs[:size], beginning(model, size))
            self.assertEqual(got.action.shape, (size, 3))
            np.testing.assert_allclose(got.action, expected.action[:size], atol=TOLERANCE)

    def test_the_file_speaks_for_itself(self):
        import onnx
        import onnxruntime

        model = random_model("HalfCheetah-v5", state=CHEETAH_STATE)
        self.act(model)
        path = self.folder / "policy.onnx"
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        shapes = {each.name: (each.type, each.shape) for each in (*session.get_inputs(), *session.get_outputs())}
        expected = {"obs": ["N", 17], "action": ["N", 6], "output": ["N", 6]}
        self.assertEqual(shapes, {name: ("tensor(float)", shape) for name, shape in expected.items()})
        texts = session.get_modelmeta().custom_metadata_map
        self.assertEqual(texts["env_id"], "HalfCheetah-v5")
        self.assertEqual(json.loads(texts["obs_columns"])[1], "rooty.angle")
        self.assertEqual(json.loads(texts["action_columns"])[0], "bthigh")
        self.assertIn("no validation on a real robot", session.get_modelmeta().description)
        self.assertLessEqual(onnx.load(path).opset_import[0].version, 17, "of 2022: older runtimes read it")

    def test_choices_are_integers_in_the_numbers_of_the_space(self):
        model = random_model(f"{__name__}:Shifted-v0")
        self.act(model)
        import onnxruntime

        session = onnxruntime.InferenceSession(self.folder / "policy.onnx", providers=["CPUExecutionProvider"])
        obs = np.linspace(-50, 50, 101, dtype=np.float32)[:, None]
        action, output = session.run(["action", "output"], {"obs": obs})
        self.assertEqual((action.dtype, action.shape), (np.int64, (101,)))
        np.testing.assert_array_equal(action, output.argmax(1) - 1)
        self.assertGreater(len(set(action.tolist())), 1)


@needs_extra
class ExportTest(FolderCase):
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
        self.assertIn("no validation on a real robot", document["note"])
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
            ("Shifted", "choices", [{"value": -1}, {"value": 0}, {"value": 1}]),
        ):
            document = export(saved(random_model(f"{__name__}:{name}-v0"), self.folder), self.folder / name).document
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
class CommandTest(FolderCase):
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
        self.assertRegex(out, r"no validation on a real robot")
        self.assertRegex(out, r"python \S+/model_best_export/run_policy\.py\n\Z")

    def test_paths_count_from_where_it_was_started_wherever_the_environment_goes(self):
        self.enterContext(contextlib.chdir(self.folder))
        path = saved(random_model(f"{__name__}:Wandering-v0"), Path())
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
