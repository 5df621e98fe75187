"""The runner that is exported: right values by hand, and alone with NumPy in a process of its own."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np

from ddp_ppo.export import run_policy
from ddp_ppo.export.export import write_numpy
from ddp_ppo.export.parity import observations
from tests.support.models import HOPPER_STATE, random_model

# one hidden unit over two columns: relu((obs - [1, 2]) * [1, 0.5], held inside +-10), then +1 and -2 times it
ARRAYS = {
    "activation": np.array("relu"),
    "mean": np.float32([1, 2]),
    "inv_std": np.float32([1, 0.5]),
    "clip": np.float32(10),
    "weight0": np.float32([[1], [1]]),
    "bias0": np.float32([0.25]),
    "weight1": np.float32([[1, -2]]),
    "bias1": np.float32([0, 0.5]),
}
BOUNDS = {
    "action_kind": np.array("box"),
    "action_low": np.float32([-1, -np.inf]),
    "action_high": np.float32([3, np.inf]),
}


class PolicyTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name) / "policy.npz"

    def policy(self, **arrays):
        np.savez(self.path, **{**ARRAYS, **arrays})
        return run_policy.Policy(self.path)

    def test_the_action_is_the_mean_within_its_limits(self):
        policy = self.policy(**BOUNDS)
        for obs, action in (
            ([1, 2], [0.25, 0.0]),
            ([2, 4], [2.25, -4.0]),
            ([1e6, 2], [3.0, -20.0]),  # 10 after the clip of observations
            ([-1e6, 2], [0.0, 0.5]),
        ):
            np.testing.assert_array_equal(policy(obs), np.float32(action))
        np.testing.assert_array_equal(policy([[1, 2], [2, 4]]), np.float32([[0.25, 0.0], [2.25, -4.0]]))
        self.assertEqual(policy([1, 2]).dtype, np.float32)

    def test_a_choice_is_the_likeliest_and_starts_where_the_space_does(self):
        policy = self.policy(action_kind=np.array("discrete"), action_start=np.array(-1))
        self.assertEqual(policy([2, 4]), -1)
        np.testing.assert_array_equal(policy([[2, 4], [-9, -9]]), [-1, 0])

    def test_activations(self):
        for activation, expected in (("tanh", np.tanh(-1.5)), ("relu", 0.0), ("elu", np.exp(-1.5) - 1)):
            policy = self.policy(activation=np.array(activation), bias0=np.float32([-1.5]), **BOUNDS)
            with self.subTest(activation):
                self.assertAlmostEqual(float(policy.output([1, 2])[0]), expected, places=6)

    def test_unfit_observations_are_refused(self):
        policy = self.policy(**BOUNDS)
        for obs, text in (
            ([1.0], "2 columns"),
            ([1, 2, 3], "2 columns"),
            ([1, np.nan], "column 1"),
            ([np.inf, 2], "0"),
        ):
            with self.subTest(obs), self.assertRaisesRegex(ValueError, text):
                policy(obs)

    def test_the_source_has_less_than_a_hundred_lines(self):
        self.assertLess(len(Path(run_policy.__file__).read_text().splitlines()), 100)


class AloneTest(unittest.TestCase):
    """In an interpreter that finds NumPy and the standard library, and nothing else."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder, cls.packages = Path(folder.name) / "export", Path(folder.name) / "packages"
        cls.folder.mkdir()
        cls.packages.mkdir()
        home = Path(np.__file__).parents[1]
        for name in ("numpy", "numpy.libs"):
            if (home / name).exists():
                (cls.packages / name).symlink_to(home / name)
        cls.model = random_model("Hopper-v5", state=HOPPER_STATE)
        cls.obs = observations(cls.model)
        write_numpy(cls.model, cls.folder, cls.obs)

    def run_alone(self, *words):
        return subprocess.run(
            [sys.executable, "-S", "-s", *words],
            cwd=self.folder,
            env={"PYTHONPATH": str(self.packages), "PYTHONDONTWRITEBYTECODE": "1", "OPENBLAS_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            timeout=60,
        )

    def test_nothing_else_can_be_imported(self):
        for package in ("torch", "gymnasium", "mujoco", "onnxruntime", "ddp_ppo", "yaml"):
            self.assertIn("ModuleNotFoundError", self.run_alone("-c", f"import {package}").stderr)

    def test_it_checks_itself(self):
        done = self.run_alone("run_policy.py")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(done.stdout, r"\APASS: largest difference from training on 128 observations \d\.\de-0[6-9]")

    def test_other_weights_fail_its_check(self):
        path = self.folder / "policy.npz"
        whole = path.read_bytes()
        self.addCleanup(path.write_bytes, whole)
        with np.load(path) as file:
            arrays = dict(file)
        arrays["bias1"][0] += 1e-3
        np.savez(path, **arrays)
        done = self.run_alone("run_policy.py")
        self.assertEqual(done.returncode, 1)
        self.assertIn("FAIL", done.stdout)

    def test_rows_of_a_file_become_actions(self):
        np.savetxt(self.folder / "obs.csv", self.obs[:7], "%.9g", ",")
        done = self.run_alone("run_policy.py", "obs.csv")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        actions = np.array([line.split(",") for line in done.stdout.splitlines()], np.float32)
        expected = run_policy.Policy(self.folder / "policy.npz")(self.obs[:7])
        np.testing.assert_allclose(actions, expected, atol=1e-6)

    def test_a_file_of_no_observations_is_one_line(self):
        for name, text in (("short.csv", "1,2\n"), ("words.csv", "a,b\n"), ("gone.csv", None)):
            if text is not None:
                (self.folder / name).write_text(text)
            done = self.run_alone("run_policy.py", name)
            with self.subTest(name):
                self.assertEqual((done.returncode, done.stdout), (1, ""))
                self.assertRegex(done.stderr, rf"\A{name}: .+\n\Z")

    def test_it_says_that_it_is_no_validation_on_a_robot(self):
        self.assertIn("does not validate it on a real robot", (self.folder / "run_policy.py").read_text())


if __name__ == "__main__":
    unittest.main()
