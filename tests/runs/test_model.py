"""Model files, safe to load and bit for bit what was saved; policies read from everything that a run leaves behind."""

import os
import shutil
import unittest

import numpy as np
import torch

from ddp_ppo.config.settings import Config
from ddp_ppo.policies.network import NetworkSpec, from_named
from ddp_ppo.protocols import EnvSpec
from ddp_ppo.runs.files import CheckpointError
from ddp_ppo.runs.model import acting_policy, load_model, save_model
from tests.support.files import OwnFolderTestCase, Payload
from tests.support.fixtures import random_parameters
from tests.support.process import TINY, FolderTestCase

ENV = EnvSpec("A-v0", 3, "box", 2, (-1.0, -2.0), (1.0, float("inf")), 0, 200, "gymnasium")
NETWORK = NetworkSpec.for_env(ENV, (4,), "tanh")


class RunTest(FolderTestCase):
    """One short run, and all that can be named of it."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.settings = TINY + "solved_return: 400\nmax_episode_steps: 30\nseed: 7\n"
        cls.train(cls.config("tiny", cls.settings), "run_name=a")
        cls.run_folder = cls.work / "output" / "tiny-a"
        cls.checkpoint = max((cls.run_folder / "checkpoints").iterdir())

    def saved(self, name):
        """The parameters of a model file of the run, read by hand."""
        content = torch.load(self.run_folder / name, weights_only=True)
        named = {f"{t}.{name}": tensor.numpy() for t in ("actor", "critic") for name, tensor in content[t].items()}
        return from_named(load_model(self.run_folder).network, named)

    def copied(self, *names):
        """A folder with a copy of these files of the run only."""
        folder = self.folder / self.id().rpartition(".")[2]
        for name in names:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(self.run_folder / name, folder / name)
        return folder

    def test_a_run_folder_is_its_best_model_or_its_current_one(self):
        for words, name in ((), "model_best"), (("best",), "model_best"), (("current",), "model"):
            with self.subTest(words):
                model = load_model(self.run_folder, *words)
                self.assertEqual(model.path, self.run_folder / f"{name}.pt")
                self.assertEqual(model.name, f"tiny-a/{name}")
                self.assertEqual(model.parameters.tolist(), self.saved(f"{name}.pt").tolist())

    def test_a_checkpoint_is_the_policy_of_its_moment(self):
        by_file = load_model(self.checkpoint)
        by_folder = load_model(str(self.checkpoint.parent))
        current = load_model(self.run_folder, "current")  # the run's last round left a checkpoint and a model
        self.assertEqual(by_file.name, "tiny-a/checkpoint_0000010")
        for model in (by_file, by_folder):
            self.assertEqual(model.path, self.checkpoint)
            self.assertEqual(model.parameters.tolist(), current.parameters.tolist())
            for name in ("obs_rms_state", "return_rms_state"):
                state, expected = getattr(model, name), getattr(current, name)
                self.assertEqual(state["mean"].tolist(), expected["mean"].tolist())
                self.assertEqual(state["var"].tolist(), expected["var"].tolist())
                self.assertEqual(state["count"], expected["count"])
            self.assertEqual((model.env, model.network), (current.env, current.network))
            self.assertEqual(model.env_arguments, current.env_arguments)

    def test_what_is_known_of_it_comes_along(self):
        expected = {"config": "tiny", "seed": 7, "round": 10, "env_steps": 640, "eval_episodes": 2}
        expected |= {"solved_return": 400.0, "policy_backend": "auto"}
        for place in (self.run_folder / "model.pt", self.checkpoint):
            with self.subTest(place.name):
                info = load_model(place).info
                self.assertEqual({name: info[name] for name in expected}, expected)
        self.assertGreater(load_model(self.run_folder).info["eval_return"], 0.0)
        self.assertNotIn("eval_return", info)  # a checkpoint's is that of an earlier round, or may be

    def test_the_environment_is_built_as_in_the_run(self):
        model = load_model(self.run_folder)
        self.assertEqual(model.env_arguments["env_id"], "CartPole-v1")
        self.assertEqual(model.env_arguments["max_episode_steps"], 30)
        self.assertEqual(model.env.max_episode_steps, 30)

    def test_a_run_without_a_model_yet_is_its_newest_checkpoint(self):
        folder = self.copied("config.yaml", f"checkpoints/{self.checkpoint.name}")
        self.assertEqual(load_model(folder).path, folder / "checkpoints" / self.checkpoint.name)

    def test_a_copy_elsewhere_goes_by_its_own_name(self):
        self.assertEqual(load_model(self.copied("model.pt") / "model.pt").name, "model")
        self.assertEqual(load_model(self.work / "output" / "model_tiny_best.pt").name, "model_tiny_best")

    def test_its_policy_is_frozen_and_acts_on_the_normalised_observation(self):
        model = load_model(self.run_folder)
        obs = np.random.default_rng(1).standard_normal((100, 4)).astype(np.float32)
        content, state = torch.load(model.path, weights_only=True), model.obs_rms_state
        actor = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
        actor.load_state_dict(content["actor"])
        scaled = (obs - state["mean"]) / np.sqrt(state["var"] + 1e-8)
        logits = actor(torch.from_numpy(scaled.astype(np.float32)).clamp(-10, 10)).detach()
        choices = acting_policy(model, 100).mode(obs).tolist()
        self.assertEqual(choices, logits.argmax(-1).tolist())
        self.assertEqual(set(choices), {0, 1})

    def test_a_checkpoint_without_statistics_acts_on_raw_observations(self):
        self.train(self.config("raw", self.settings), "run_name=b", "normalize_obs=false", "total_env_steps=64")
        for which in ("best", "current"):
            self.assertIsNone(load_model(self.work / "output" / "raw-b", which).obs_rms_state)
        self.assertIsNone(load_model(self.work / "output" / "raw-b" / "checkpoints").obs_rms_state)

    def refused(self, place):
        with self.assertRaises(CheckpointError) as caught:
            load_model(place)
        (line,) = str(caught.exception).splitlines()
        self.assertIn(str(place), line)
        return line

    def test_what_is_no_model_is_refused_in_one_line(self):
        empty = self.folder / "empty"
        empty.mkdir()
        self.assertIn("no such file", self.refused(self.folder / "gone.pt"))
        self.assertIn("neither a model nor a checkpoint", self.refused(empty))
        self.assertIn("not a readable model file", self.refused(self.run_folder / "metrics.csv"))
        foreign = self.folder / "foreign.pt"
        for content in ({"weight": torch.zeros(2)}, [1, 2], {"spec": "x"}):
            torch.save(content, foreign)
            self.assertIn("not a model of ddp_ppo", self.refused(foreign))
        damaged = self.copied("model.pt") / "model.pt"
        damaged.write_bytes(damaged.read_bytes()[:-500])
        self.assertIn("not a readable model file", self.refused(damaged))

    def test_another_format_is_refused(self):
        path = self.copied("model.pt") / "model.pt"
        content = torch.load(path, weights_only=True)
        content["spec"]["format"] = 99
        torch.save(content, path)
        self.assertIn("format 99", self.refused(path))

    def test_a_parameter_that_is_not_finite_is_refused(self):
        model = load_model(self.run_folder)
        parameters = model.parameters.copy()
        parameters[5] = np.nan
        path = self.folder / "nan.pt"
        about = {"env_arguments": Config(env_id="CartPole-v1").env_arguments}
        save_model(path, model.network, model.env, parameters, None, about)
        self.assertIn("parameter 5 is not finite", self.refused(path))

    def test_a_model_that_does_not_tell_its_environment_is_refused(self):
        model = load_model(self.run_folder)
        path = self.folder / "bare.pt"
        save_model(path, model.network, model.env, model.parameters, None, {})
        self.assertIn("does not say how its environment is built", self.refused(path))


class FileTest(OwnFolderTestCase):
    def setUp(self):
        super().setUp()
        self.path = self.folder / "model.pt"
        self.parameters = random_parameters(NETWORK)
        self.state = {"mean": np.array([0.1, 2.0, -3.0]), "var": np.array([1.0, 0.0, 1e-12]), "count": 7.0}

    def save(self, state):
        about = {"config": "smoke", "eval_return": 1.5, "env_arguments": {"env_id": "A-v0"}}
        save_model(self.path, NETWORK, ENV, self.parameters, state, about)

    def test_file_loads_with_torch_s_safe_loader_into_plain_layers(self):  # C17, O-58
        self.save(self.state)
        content = torch.load(self.path, weights_only=True)
        self.assertLessEqual({"actor", "obs_rms_state", "spec"}, content.keys())
        actor = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
        log_std = content["log_std"]
        actor.load_state_dict(content["actor"])
        np.testing.assert_array_equal(log_std, self.parameters[NETWORK.log_std_slice])
        block = NETWORK.trunk("actor")[0].view(self.parameters)
        np.testing.assert_array_equal(actor[0].weight.detach(), block[:-1].T)
        np.testing.assert_array_equal(actor[0].bias.detach(), block[-1])
        np.testing.assert_array_equal(content["obs_rms_state"]["mean"], self.state["mean"])

    def test_spec_holds_plain_values_only(self):  # C17
        self.save(None)
        plain = [torch.load(self.path, weights_only=True)["spec"]]
        for value in plain:
            if isinstance(value, dict):
                plain += [*value.keys(), *value.values()]
            elif isinstance(value, (list, tuple)):
                plain += value
            else:
                self.assertIn(type(value), (str, int, float, bool, type(None)))
        self.assertGreater(len(plain), 10)

    def test_model_comes_back_bit_for_bit(self):
        self.save(self.state)
        model = load_model(self.path)
        self.assertEqual((model.network, model.env), (NETWORK, ENV))
        self.assertEqual(model.parameters.tobytes(), self.parameters.tobytes())
        for name, value in self.state.items():
            np.testing.assert_array_equal(model.obs_rms_state[name], value)
        self.assertEqual(model.obs_rms_state["mean"].dtype, np.float64)
        self.assertEqual(
            (model.info, model.env_arguments), ({"config": "smoke", "eval_return": 1.5}, {"env_id": "A-v0"})
        )

    def test_model_without_normaliser_has_none(self):
        self.save(None)
        self.assertIsNone(load_model(self.path).obs_rms_state)

    def test_code_in_a_pickle_is_refused_and_not_run(self):  # O-58
        marker = self.folder / "marker"
        torch.save({"spec": {"format": 1}, "payload": Payload(marker)}, self.path)
        with self.assertRaisesRegex(CheckpointError, "more than tensors and plain values is in it"):
            load_model(self.path)
        self.assertFalse(marker.exists())

    def test_damaged_or_other_files_are_refused_and_named(self):
        self.save(self.state)
        data = self.path.read_bytes()
        content = torch.load(self.path, weights_only=True)
        del content["spec"]["env"]
        torch.save(content, self.folder / "b.pt")
        (self.folder / "c.pt").write_bytes(data[: len(data) // 2])
        flipped = bytearray(data)
        flipped[data.index(self.parameters[NETWORK.log_std_slice].tobytes())] ^= 1
        (self.folder / "d.pt").write_bytes(flipped)
        for path in (self.folder / f"{name}.pt" for name in ("b", "c", "d", "absent")):
            with self.assertRaises(CheckpointError) as caught:
                load_model(path)
            self.assertIn(str(path), str(caught.exception))

    def test_file_takes_no_more_room_than_its_numbers(self):
        self.save(self.state)
        self.assertLess(os.path.getsize(self.path), 20_000)


if __name__ == "__main__":
    unittest.main()
