"""The file policy.onnx: it acts as the policy does, and says what it is."""

import json
import unittest

import numpy as np

from ddp_ppo.envs.columns import describe_interface
from ddp_ppo.export.export import has_extra, onnx_act, write_onnx
from ddp_ppo.export.parity import beginning, measure, observations, torch_act
from ddp_ppo.export.run_policy import TOLERANCE
from tests.support.files import OwnFolderTestCase
from tests.support.models import CHEETAH_STATE, HOPPER_STATE, every_kind, random_model

needs_extra = unittest.skipUnless(has_extra(), "needs onnx and onnxruntime: pip install 'ddp-ppo[export]'")


@needs_extra
class OnnxTest(OwnFolderTestCase):
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
        first = random_model("tests.support.models:ChannelsFirst-v0", conv_channels=(4,))
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
        self.assertIn("does not validate it on a real robot", session.get_modelmeta().description)
        self.assertLessEqual(onnx.load(path).opset_import[0].version, 17, "of 2022: older runtimes read it")

    def test_choices_are_integers_in_the_numbers_of_the_space(self):
        model = random_model("tests.support.models:OneOfThree-v0")
        self.act(model)
        import onnxruntime

        session = onnxruntime.InferenceSession(self.folder / "policy.onnx", providers=["CPUExecutionProvider"])
        obs = np.linspace(-50, 50, 101, dtype=np.float32)[:, None]
        action, output = session.run(["action", "output"], {"obs": obs})
        self.assertEqual((action.dtype, action.shape), (np.int64, (101,)))
        np.testing.assert_array_equal(action, output.argmax(1) - 1)
        self.assertGreater(len(set(action.tolist())), 1)


if __name__ == "__main__":
    unittest.main()
