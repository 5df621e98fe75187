"""What importing or building an environment changes in the process, in real processes and against NumPy and torch."""

import random
import signal
import subprocess
import sys
import unittest
import warnings

import numpy as np
import torch

from ddp_ppo.envs.untouched import untouched
from tests.support.process import ROOT


def spoil() -> None:
    """Changes everything that is put back."""
    np.seterr(all="raise")
    warnings.simplefilter("error")
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    torch.set_default_dtype(torch.float64)
    torch.set_default_device("meta")
    torch.set_grad_enabled(False)
    torch.set_num_threads(torch.get_num_threads() + 1)
    torch.use_deterministic_algorithms(True)
    torch.set_float32_matmul_precision("medium")
    torch.autograd.set_detect_anomaly(True)


def state() -> list[object]:
    """What a training depends on, asked of NumPy, Python and torch themselves."""
    return [
        np.geterr(),
        [entry for entry in warnings.filters if entry[0] == "error"],
        signal.getsignal(signal.SIGCHLD),
        torch.zeros(1).dtype,
        torch.zeros(1).device,
        torch.is_grad_enabled(),
        torch.get_num_threads(),
        torch.are_deterministic_algorithms_enabled(),
        torch.get_float32_matmul_precision(),
        torch.is_anomaly_enabled(),
    ]


class UntouchedTest(unittest.TestCase):
    def test_everything_is_put_back_and_named(self):
        before, changed = state(), []
        with untouched(changed.append):
            spoil()
            self.assertNotEqual(state(), before)
        self.assertEqual(state(), before)
        self.assertEqual(len(changed), 10)
        self.assertIn("torch's default dtype", changed)

    def test_what_hides_warnings_or_errors_stays(self):
        changed = []
        with untouched(changed.append), np.errstate(), warnings.catch_warnings():
            np.seterr(all="ignore")
            warnings.simplefilter("ignore")
        self.assertEqual(changed, [])

    def test_global_generators_go_on_as_if_nothing_had_been_drawn(self):
        random.seed(3)
        np.random.seed(3)
        torch.manual_seed(3)
        expected = random.random(), np.random.random(), torch.rand(1).item()
        random.seed(3)
        np.random.seed(3)
        torch.manual_seed(3)
        with untouched():
            random.seed(0)
            np.random.seed(0)
            torch.manual_seed(0)
        self.assertEqual((random.random(), np.random.random(), torch.rand(1).item()), expected)

    def test_an_inner_one_leaves_it_to_the_outer_one_which_names_it(self):
        changed = []
        with untouched(changed.append):
            with untouched():
                np.seterr(under="raise")
            self.assertEqual(np.geterr()["under"], "raise")
        self.assertEqual(changed, ["numpy.seterr"])

    def test_a_process_without_torch_ends_with_what_torch_has_by_default(self):
        program = (
            "from ddp_ppo.envs.untouched import untouched\n"
            "import sys; assert 'torch' not in sys.modules\n"
            "with untouched():\n"
            "    import torch; torch.set_default_dtype(torch.float64); torch.set_grad_enabled(False)\n"
            "print(torch.zeros(1).dtype, torch.is_grad_enabled())"
        )
        done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.stdout, "torch.float32 True\n", done.stderr)


if __name__ == "__main__":
    unittest.main()
