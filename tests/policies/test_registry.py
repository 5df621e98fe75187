"""The setting policy_backend and the network decide which class acts."""

import contextlib
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from ddp_ppo.errors import EnvError
from ddp_ppo.policies.network import NetworkSpec
from ddp_ppo.policies.numpy_policy import NumpyPolicy
from ddp_ppo.policies.registry import build_policy
from ddp_ppo.policies.torch_policy import TorchPolicy
from ddp_ppo.protocols import EnvSpec
from tests.support.counting_policy import CountingPolicy
from tests.support.process import ROOT

ENV = EnvSpec("A", 3 * 3, "discrete", 2, image=(3, 3, 1))
MLP, IMAGES = (NetworkSpec.for_env(ENV, (4,), "relu", channels) for channels in ((), (2,)))


class BuildPolicyTest(unittest.TestCase):
    def test_numpy_acts_where_it_covers_the_network(self):
        for backend, network, expected in (
            ("auto", MLP, NumpyPolicy),
            ("numpy", MLP, NumpyPolicy),
            ("torch", MLP, TorchPolicy),
            ("auto", IMAGES, TorchPolicy),
            ("tests.support.counting_policy:CountingPolicy", MLP, CountingPolicy),
        ):
            with self.subTest(backend, network=network):
                self.assertIs(type(build_policy(backend, network, ENV, num_envs=2)), expected)

    def test_a_custom_class_that_is_not_there_is_one_line(self):
        for backend in ("tests.nowhere:A", "tests.support.counting_policy:Missing"):
            with self.assertRaisesRegex(EnvError, f"policy_backend: {backend} cannot be imported"):
                build_policy(backend, MLP, ENV, num_envs=2)

    def test_a_custom_class_that_cannot_be_built_is_one_line(self):
        for name, words in (
            ("Keywords", r"\(network, env, 2, 1\) failed: TypeError: .*takes 1 positional argument but 5 were given"),
            ("Broken", r"\(network, env, 2, 1\) failed: AttributeError: .* has no attribute 'nope'"),
            ("Empty", " lacks state_size, head, load, begin, act, mode, logp, rollout_values of Policy"),
            ("NUMBER", " is not a class but 3"),
        ):
            backend = f"tests.support.broken_policies:{name}"
            with self.subTest(name), self.assertRaisesRegex(EnvError, rf"\Apolicy_backend: {backend}{words}"):
                build_policy(backend, MLP, ENV, num_envs=2)

    def test_a_class_in_the_current_folder_is_found(self):
        path = sys.path.copy()
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            source = "from tests.support.counting_policy import CountingPolicy as Near\n"
            Path("near_policy_module.py").write_text(source)
            try:
                self.assertIs(type(build_policy("near_policy_module:Near", MLP, ENV, num_envs=2)), CountingPolicy)
            finally:
                sys.path[:] = path

    def test_torch_is_not_loaded_for_an_mlp(self):
        code = (
            "import sys; from ddp_ppo.policies.registry import build_policy; "
            "from ddp_ppo.policies.network import NetworkSpec; from ddp_ppo.protocols import EnvSpec; "
            "env = EnvSpec('A', 3, 'discrete', 2); "
            "build_policy('auto', NetworkSpec.for_env(env, (4,), 'tanh'), env, num_envs=1); "
            "sys.exit('torch' in sys.modules)"
        )
        subprocess.run([sys.executable, "-c", code], check=True, timeout=60, cwd=ROOT)


if __name__ == "__main__":
    unittest.main()
