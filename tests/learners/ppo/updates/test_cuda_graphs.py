"""Captured steps with a stand-in for the stream, which captures by keeping a call; on a GPU the real ones too."""

import functools
import unittest
import warnings
from pathlib import Path

import numpy as np
import torch

from ddp_ppo.config.load import load_config
from ddp_ppo.learners.adam_state import AdamState
from ddp_ppo.learners.ppo.learner import PPO, fresh
from ddp_ppo.learners.ppo.loss import Batch
from ddp_ppo.learners.ppo.loss_settings import LossSettings
from ddp_ppo.learners.ppo.updates.cuda_graphs import NUM_WARM_UPS, CapturedStep, captured_on
from ddp_ppo.learners.ppo.updates.torch_update import TorchUpdate
from ddp_ppo.policies.network import NetworkSpec, initial_parameters
from ddp_ppo.policies.torch_policy import ActorCritic
from ddp_ppo.sampling.rollout import Normalization, Rollout, rollout_shapes
from ddp_ppo.sampling.shared_memory import SharedBlock, page_locked

torch.set_num_threads(1)

CPU, CUDA = torch.device("cpu"), torch.device("cuda", 0)
SETTINGS = LossSettings(
    clip_range=0.2, value_clip_range=0.2, entropy_coef=0.01, value_coef=0.5, max_grad_norm=0.5, adam_eps=1e-5
)
NETWORKS = [NetworkSpec(17, head, 6, (64, 64), "tanh") for head in ("gaussian", "categorical")]
SHARED = {"first": ("float32", (5, 3)), "second": ("float64", (4000,))}
TOLERANCE = 1e-5  # between devices, after 50 mini-batches at 3e-4: a step that is left out makes 3e-4


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


class Trial:
    """A policy on a device, its update, and samples that it might have drawn itself."""

    def __init__(self, network, device=CPU, **arguments) -> None:
        parameters = initial_parameters(network, np.random.default_rng(1), -0.5)
        self.policy = ActorCritic(network, torch.from_numpy(parameters).to(device))
        size = network.num_parameters
        self.optimizer = AdamState(*(torch.zeros(shape, device=device) for shape in (size, size, ())))
        self.update = TorchUpdate(self.policy, self.optimizer, SETTINGS, lambda gradient: None, **arguments)

    def train(self, num_samples=100, minibatch_size=30, num_epochs=5):
        """What the epochs report; each has a learning rate of its own."""
        self.update.load(samples(self.policy, num_samples))
        orders = np.random.default_rng(2)
        return [
            self.update.epoch(orders.permutation(num_samples), minibatch_size, 3e-4 / (1 + epoch))
            for epoch in range(num_epochs)
        ]

    def state(self):
        """Parameters, moments and number of steps, as one vector [3 P + 1]."""
        tensors = (self.policy.flat.data, *vars(self.optimizer).values())
        return torch.cat([tensor.reshape(-1).cpu() for tensor in tensors])


@torch.no_grad()
def samples(policy, num_samples):
    """The same observations, actions, advantages and targets for every policy, with its own values as old ones."""
    network, generator = policy.network, np.random.default_rng(3)
    obs, act = (
        generator.standard_normal((num_samples, n), np.float32) for n in (network.obs_size, network.action_size)
    )
    choice = act.argmax(-1)
    adv, ret = generator.standard_normal((2, num_samples), np.float32)
    arrays = (obs, act if network.head == "gaussian" else choice, adv, ret)
    obs, act, adv, ret = (torch.from_numpy(array).to(policy.flat.device) for array in arrays)
    logp, _, value = policy.evaluate(obs, act)
    return Batch(obs, act, logp, adv, ret, value)


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
                plain = Trial(network)
                captured = Trial(network, accelerate=lambda step, stream=stream: CapturedStep(step, stream))
                self.assertEqual(captured.train(), plain.train())
                self.assertTrue(torch.equal(captured.state(), plain.state()))
                self.assertEqual(stream.captured_sizes, [30, 10])

    def test_another_number_of_samples_is_captured_anew(self):
        stream = CallingStream()
        plain = Trial(NETWORKS[0])
        captured = Trial(NETWORKS[0], accelerate=lambda step: CapturedStep(step, stream))
        for num_samples in (100, 60, 60):
            self.assertEqual(captured.train(num_samples), plain.train(num_samples))
        self.assertTrue(torch.equal(captured.state(), plain.state()))
        self.assertEqual(stream.captured_sizes, [30, 10, 30])


class PageLockedTest(unittest.TestCase):
    def test_nothing_happens_where_there_is_no_cuda_device(self):
        block = SharedBlock(SHARED)
        self.addCleanup(block.close)
        with page_locked(block.memory, str(CPU), self.fail):
            block.arrays["second"][:] = 1.0
        self.assertFalse(torch.from_numpy(block.arrays["second"]).is_pinned())


@unittest.skipUnless(torch.cuda.is_available(), "needs a CUDA device")
class CudaTest(unittest.TestCase):
    def assert_close(self, actual, expected, tolerance=TOLERANCE):
        np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=tolerance)

    def test_graphs_and_single_kernels_train_the_same_and_what_the_cpu_does(self):
        for network in NETWORKS:
            with self.subTest(network.head):
                trials = [
                    Trial(network, CUDA, accelerate=captured_on(CUDA)),
                    Trial(network, CUDA),
                    Trial(network),
                ]
                reports = [trial.train(num_samples=300, num_epochs=5) for trial in trials]
                self.assertEqual(float(trials[0].optimizer.step), 50.0)
                for trial, report in zip(trials[1:], reports[1:], strict=True):
                    self.assert_close(trials[0].state(), trial.state())
                    self.assert_close(reports[0], report, 1e-4)

    def test_an_epoch_waits_for_the_device_once(self):
        for arguments in ({}, {"accelerate": captured_on(CUDA)}):
            trial = Trial(NETWORKS[0], CUDA, **arguments)
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

    def test_shared_memory_is_page_locked_until_the_end(self):
        block = SharedBlock(SHARED)
        self.addCleanup(block.close)
        tensor = torch.from_numpy(block.arrays["second"])
        with page_locked(block.memory, str(CUDA), self.fail):
            self.assertTrue(tensor.is_pinned())
            block.arrays["second"][:] = 3.0
            self.assertEqual(float(tensor.to(CUDA, non_blocking=True).sum()), 12_000.0)
        self.assertFalse(tensor.is_pinned())

    def test_memory_that_cannot_be_locked_is_told_of_and_harms_nothing(self):
        block, told = SharedBlock(SHARED), []
        self.addCleanup(block.close)
        with page_locked(block.memory, str(CUDA), self.fail):
            with page_locked(block.memory, str(CUDA), told.append):  # locked already, so refused
                self.assertEqual(float(torch.ones(3, device=CUDA).sum()), 3.0)
            self.assertTrue(torch.from_numpy(block.arrays["second"]).is_pinned())
        self.assertEqual(len(told), 1)


if __name__ == "__main__":
    unittest.main()
