"""Captured steps with a stand-in for the stream, which captures by keeping a call; on a GPU the real ones too."""

import functools
import unittest
import warnings
from pathlib import Path

import numpy as np
import torch

from ddp_ppo.config.load import load_config
from ddp_ppo.learners.ppo.learner import PPO, fresh
from ddp_ppo.learners.ppo.updates.cuda_graphs import NUM_WARM_UPS, CapturedStep, captured_on
from ddp_ppo.policies.network import initial_parameters
from ddp_ppo.sampling.rollout import Normalization, Rollout, rollout_shapes
from tests.support.updates import CPU, CUDA, NETWORKS, TOLERANCE, TrainedPolicy

torch.set_num_threads(1)


class CallingStream:
    """Does steps where it is told to, captures by keeping the call, and counts both."""

    def __init__(self) -> None:
        self.num_runs = 0
        self.captured_sizes = []

    def run(self, step, index):
        self.num_runs += 1
        step(index)

    def capture(self, step, index):
        self.captured_sizes.append(len(index))
        return functools.partial(step, index)


class CapturedStepTest(unittest.TestCase):
    def test_every_call_does_the_step_with_its_own_samples(self):
        seen = []
        step = CapturedStep(lambda index: seen.append(index.tolist()), CallingStream())
        calls = [[i, 10 * i] for i in range(6)] + [[i] for i in range(6)] + [[7, 8]]
        for call in calls:
            step(torch.tensor(call))
        self.assertEqual(seen, calls)

    def test_each_size_is_captured_once_after_its_first_calls(self):
        stream = CallingStream()
        step = CapturedStep(lambda index: None, stream)
        for _ in range(4):
            for size in (30, 30, 30, 10):
                step(torch.zeros(size, dtype=torch.int64))
        self.assertEqual(stream.captured_sizes, [30, 10])
        self.assertEqual(stream.num_runs, 2 * NUM_WARM_UPS)

    def test_captured_steps_train_the_same_bits_with_a_smaller_last_minibatch_and_changing_rates(self):
        for network in NETWORKS:
            with self.subTest(network.head):
                stream = CallingStream()
                plain = TrainedPolicy(network)
                captured = TrainedPolicy(network, accelerate=lambda step, stream=stream: CapturedStep(step, stream))
                self.assertEqual(captured.train(), plain.train())
                self.assertTrue(torch.equal(captured.state(), plain.state()))
                self.assertEqual(stream.captured_sizes, [30, 10])

    def test_another_number_of_samples_is_captured_anew(self):
        stream = CallingStream()
        plain = TrainedPolicy(NETWORKS[0])
        captured = TrainedPolicy(NETWORKS[0], accelerate=lambda step: CapturedStep(step, stream))
        for num_samples in (100, 60, 60):
            self.assertEqual(captured.train(num_samples), plain.train(num_samples))
        self.assertTrue(torch.equal(captured.state(), plain.state()))
        self.assertEqual(stream.captured_sizes, [30, 10, 30])


@unittest.skipUnless(torch.cuda.is_available(), "needs a CUDA device")
class CudaTest(unittest.TestCase):
    def assert_close(self, actual, expected, tolerance=TOLERANCE):
        np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=tolerance)

    def test_graphs_and_single_kernels_train_the_same_and_what_the_cpu_does(self):
        for network in NETWORKS:
            with self.subTest(network.head):
                trials = [
                    TrainedPolicy(network, CUDA, accelerate=captured_on(CUDA)),
                    TrainedPolicy(network, CUDA),
                    TrainedPolicy(network),
                ]
                reports = [trial.train(num_samples=300, num_epochs=5) for trial in trials]
                self.assertEqual(float(trials[0].optimizer.step), 50.0)
                for trial, report in zip(trials[1:], reports[1:], strict=True):
                    self.assert_close(trials[0].state(), trial.state())
                    self.assert_close(reports[0], report, 1e-4)

    def test_an_epoch_waits_for_the_device_once(self):
        for arguments in ({}, {"accelerate": captured_on(CUDA)}):
            trial = TrainedPolicy(NETWORKS[0], CUDA, **arguments)
            trial.train()  # captures
            self.addCleanup(torch.cuda.set_sync_debug_mode, "default")
            torch.cuda.set_sync_debug_mode("warn")
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                trial.update.epoch(np.arange(100), 30, 1e-4)
            torch.cuda.set_sync_debug_mode("default")
            waits = [str(one.message) for one in caught if "synchroniz" in str(one.message)]
            self.assertEqual(len(waits), 1, waits)

    def test_learner_on_a_gpu_trains_what_one_on_the_cpu_does(self):
        for words in (
            ["minibatch_size=60"],
            ["minibatch_size=64", "recompute_advantages=true", "update_backend=torch"],
        ):
            results = [self.trained(device, words) for device in (CUDA, CPU)]
            for one, other in zip(*results, strict=True):
                self.assert_close(one, other, 1e-4)

    def trained(self, device, words):
        """Parameters after two rounds on made-up rollouts, and the metrics of the second."""
        network, generator = NETWORKS[0], np.random.default_rng(4)
        config = load_config(Path(__file__).parents[4] / "configs" / "half_cheetah.yaml", words)
        learner = PPO(config, network, fresh(initial_parameters(network, generator, -0.5)), device=device)
        shapes = rollout_shapes(PPO.rollout_fields(network), 50, 4)
        for round_index in range(2):
            rollout = Rollout({name: generator.random(shape).astype(dtype) for name, (dtype, shape) in shapes.items()})
            rollout["terminated"][...] = rollout["truncated"][...] = False
            rollout["truncated"][::7] = True
            rollout["logp"][...] -= 6.0
            rollout.fill(Normalization({"mean": np.full(17, 0.5), "var": np.full(17, 0.1), "count": 200.0}))
            _, metrics = learner.train_step(rollout, round_index=round_index, done=round_index / 2)
        names = [name for name in metrics if name.startswith("train/")]
        return learner.state_dict()["parameters"], np.array([metrics[name] for name in names])


if __name__ == "__main__":
    unittest.main()
