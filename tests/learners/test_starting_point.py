"""What a run takes over of a model, and what starts afresh."""

import dataclasses
import tempfile
import unittest
from pathlib import Path

import numpy as np

from ddp_ppo.config.load import load_config
from ddp_ppo.config.settings import Config, ConfigError
from ddp_ppo.learners.starting_point import fresh_start, warm_start
from ddp_ppo.maths.seeding import Purpose, stream
from ddp_ppo.policies.network import NetworkSpec, initial_parameters, to_named
from ddp_ppo.protocols import EnvSpec
from ddp_ppo.runs.files import CheckpointError
from ddp_ppo.runs.model import save_model
from tests.support.process import TINY, FolderTestCase, read_csv

ENV = EnvSpec("tests.support.fixtures:Count-v0", 3, "box", 2, (-1.0, -1.0), (1.0, 1.0))
NETWORK = NetworkSpec(3, "gaussian", 2, (8, 8), "tanh")
LAST_ACTOR_LAYER = ("actor.4.weight", "actor.4.bias")


class WarmStartTest(unittest.TestCase):
    """A model of NETWORK whose parameters are 0.001, 0.002, ..."""

    def setUp(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        self.path = Path(folder) / "model.pt"
        self.parameters = np.arange(1, NETWORK.num_parameters + 1, dtype=np.float32) / 1000
        self.state = {"mean": np.array([1.0, 2.0, 3.0]), "var": np.array([4.0, 5.0, 6.0]), "count": 9.0}
        self.save()

    def save(self, *, network=NETWORK, parameters=None, **about):
        parameters = self.parameters if parameters is None else parameters
        about = {"env_arguments": {}, "return_rms_state": {"mean": 7.0, "var": 8.0, "count": 6.0}, **about}
        save_model(self.path, network, ENV, parameters, self.state, about)

    def start(self, network=NETWORK, **settings):
        return warm_start(Config(init_from=str(self.path), seed=4, **settings), network)

    def assert_kept(self, network, names, saved=NETWORK):
        """These arrays are the model's, all others those of a fresh run."""
        start = self.start(network)
        model = to_named(saved, self.parameters)
        fresh = to_named(network, initial_parameters(network, stream(4, Purpose.INIT), Config.init_log_std))
        for name, array in to_named(network, start.parameters).items():
            with self.subTest(name):
                np.testing.assert_array_equal(array, model[name] if name in names else fresh[name])
        return start

    def test_a_model_of_the_same_shape_gives_its_parameters_and_statistics(self):
        start = self.start()
        self.assertEqual(start.parameters.tolist(), self.parameters.tolist())
        self.assertEqual(
            {name: np.asarray(value).tolist() for name, value in start.obs_rms_state.items()},
            {"mean": [1.0, 2.0, 3.0], "var": [4.0, 5.0, 6.0], "count": 9.0},
        )
        self.assertEqual(
            {name: np.asarray(value).tolist() for name, value in start.return_rms_state.items()},
            {"mean": [7.0], "var": [8.0], "count": 6.0},
        )
        self.assertEqual(start.notes, ())

    def test_statistics_start_anew_if_told(self):
        start = self.start(init_statistics="restart")
        self.assertEqual(start.parameters.tolist(), self.parameters.tolist())
        self.assertEqual((start.obs_rms_state["count"], start.obs_rms_state["mean"].tolist()), (0.0, [0.0] * 3))
        self.assertEqual((start.return_rms_state["count"], start.return_rms_state["var"].tolist()), (0.0, [1.0]))

    def test_with_other_observations_the_first_layers_and_their_statistics_start_afresh(self):
        kept = {*LAST_ACTOR_LAYER, "log_std"}
        kept |= {f"{name}.{kind}" for name in ("actor.2", "critic.2", "critic.4") for kind in ("weight", "bias")}
        start = self.assert_kept(NetworkSpec(5, "gaussian", 2, (8, 8), "tanh"), kept)
        self.assertEqual((start.obs_rms_state["count"], len(start.obs_rms_state["mean"])), (0.0, 5))
        self.assertEqual(start.return_rms_state["count"], 6.0)
        (note,) = start.notes
        self.assertIn(str(self.path), note)
        self.assertTrue(
            note.endswith(
                "initialised: actor.0 (5 -> 8 here, 3 -> 8 in the model), critic.0 (5 -> 8 here, 3 -> 8 in the model), "
                "observation statistics (5 columns here, 3 columns in the model)"
            ),
            note,
        )

    def test_with_other_actions_the_actor_s_last_layer_starts_afresh(self):
        kept = {f"{layer.name}.{kind}" for layer in NETWORK.layers for kind in ("weight", "bias")}
        start = self.assert_kept(NetworkSpec(3, "gaussian", 4, (8, 8), "tanh"), kept - {*LAST_ACTOR_LAYER})
        self.assertEqual(start.obs_rms_state["count"], 9.0)
        self.assertRegex(start.notes[0], r"actor\.4 \(8 -> 4 gaussian here.*log_std \(4 actions here, 2 actions in the")

    def test_logits_are_no_means_though_there_are_as_many(self):
        kept = {f"{layer.name}.{kind}" for layer in NETWORK.layers for kind in ("weight", "bias")}
        start = self.assert_kept(NetworkSpec(3, "categorical", 2, (8, 8), "tanh"), kept - {*LAST_ACTOR_LAYER})
        self.assertIn("log_std (nothing here, 2 actions in the model)", start.notes[0])

    def test_a_deeper_and_a_shallower_network_keep_the_layers_before(self):
        first = {f"{name}.{kind}" for name in ("actor.0", "critic.0") for kind in ("weight", "bias")}
        second = {f"{name}.{kind}" for name in ("actor.2", "critic.2") for kind in ("weight", "bias")}
        deeper = self.assert_kept(NetworkSpec(3, "gaussian", 2, (8, 8, 8), "tanh"), first | second | {"log_std"})
        self.assertIn("critic.6 (8 -> 1 here, nothing in the model)", deeper.notes[0])
        shallower = self.assert_kept(NetworkSpec(3, "gaussian", 2, (8,), "tanh"), first | {"log_std"})
        self.assertIn("critic.4 (nothing here, 8 -> 1 in the model)", shallower.notes[0])

    def test_a_model_of_which_no_layer_fits_is_refused_with_both_shapes(self):
        network = NetworkSpec(3, "gaussian", 2, (16,), "tanh")
        with self.assertRaises(CheckpointError) as caught:
            self.start(network)
        for part in (str(self.path), str(NETWORK), str(network)):
            self.assertIn(part, str(caught.exception))

    def test_a_model_of_another_activation_is_refused_with_what_to_set(self):
        with self.assertRaisesRegex(CheckpointError, "has activation: tanh, .* relu; set activation: tanh"):
            self.start(dataclasses.replace(NETWORK, activation="relu"))

    def test_a_model_that_acts_on_normalised_observations_is_refused_where_they_are_not(self):
        with self.assertRaisesRegex(CheckpointError, "set normalize_obs: true"):
            self.start(normalize_obs=False)

    def test_log_std_is_brought_into_its_range(self):
        self.parameters[NETWORK.log_std_slice] = (-9.0, 7.0)
        self.save()
        self.assertEqual(self.start().parameters[NETWORK.log_std_slice].tolist(), [-5.0, 2.0])

    def test_log_std_begins_where_a_person_says(self):  # N-07
        start = self.start(init_log_std=0.5)
        self.assertEqual(start.parameters[NETWORK.log_std_slice].tolist(), [0.5, 0.5])
        before = NETWORK.log_std_slice.start
        self.assertEqual(start.parameters[:before].tolist(), self.parameters[:before].tolist())
        self.assertEqual(start.notes, ("init_from: log_std begins at init_log_std: 0.5, not at the model's",))

    def test_an_inherited_value_leaves_the_model_s_log_std(self):
        base, task = (self.path.with_name(name) for name in ("base.yaml", "task.yaml"))
        base.write_text("init_log_std: 0.5\n")
        task.write_text(f"inherits: base.yaml\ninit_from: {self.path}\n")
        start = warm_start(load_config(task), NETWORK)
        self.assertEqual(start.parameters.tolist(), self.parameters.tolist())
        start = warm_start(load_config(task, ["init_log_std=0"]), NETWORK)
        self.assertEqual(start.parameters[NETWORK.log_std_slice].tolist(), [0.0, 0.0])

    def test_a_model_that_acts_on_raw_observations_is_told_where_they_are_normalised(self):
        self.state = None
        self.save()
        (note,) = self.start().notes
        self.assertIn("acts on raw observations; normalize_obs: false", note)
        self.assertEqual(self.start(normalize_obs=False).notes, ())

    def test_a_fresh_start_has_no_statistics(self):
        start = fresh_start(Config(seed=4), NETWORK)
        self.assertEqual((start.obs_rms_state["count"], start.return_rms_state["count"], start.notes), (0.0, 0.0, ()))

    def test_statistics_to_start_from_need_a_model(self):
        with self.assertRaisesRegex(ConfigError, "init_statistics: has no effect with init_from: null"):
            Config(init_statistics="restart")


class RunTest(FolderTestCase):
    """A policy for one task goes on in another one."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.tiny = cls.config("tiny", TINY.replace("[8]", "[8, 8]"))
        cls.train(cls.tiny, "run_name=first", "total_env_steps=64")
        cls.first = cls.work / "output" / "tiny-first"

    def test_a_changed_task_keeps_what_fits_and_says_what_does_not(self):
        ended = self.train(
            self.tiny, "run_name=acrobot", "env_id=Acrobot-v1", f"init_from={self.first}", "total_env_steps=64"
        )
        self.assertIn(
            f"note: init_from: {self.first}/model_best.pt fits only in part; initialised: actor.0 (6 -> 8", ended.out
        )
        self.assertEqual(len(read_csv(self.work / "output" / "tiny-acrobot" / "metrics.csv")), 1)

    def test_a_run_that_is_resumed_needs_its_model_no_more(self):
        words = ("run_name=again", "resume=auto", "total_env_steps=128")
        model = self.folder / "gone.pt"
        model.write_bytes((self.first / "model.pt").read_bytes())
        self.train(self.tiny, *words[:2], f"init_from={model}", "total_env_steps=64")
        model.unlink()
        self.train(self.tiny, *words, f"init_from={model}")
        rows = read_csv(self.work / "output" / "tiny-again" / "metrics.csv")
        self.assertEqual([row["round"] for row in rows], ["1", "2"])


if __name__ == "__main__":
    unittest.main()
