"""A policy with a memory acts right wherever a policy acts: its state begins at zero in every episode and nowhere else.

The whole life of a run is lived by a policy that counts the steps of its episode (tests/support/counting_policy.py), in
an environment that pays for the right count: every return must be the full one.
"""

import dataclasses
import json
import os
import signal
import unittest

import numpy as np

from ddp_ppo.config.settings import Config
from ddp_ppo.envs.build import make_batch_env
from ddp_ppo.envs.step_loop import step_loop
from ddp_ppo.export.export import has_extra
from ddp_ppo.export.parity import measure, policy_act
from ddp_ppo.policies.network import NetworkSpec
from ddp_ppo.policies.numpy_policy import NumpyPolicy
from ddp_ppo.protocols import Rows
from ddp_ppo.runs.checkpoint import find_checkpoint
from ddp_ppo.sampling.actor_pool import ActorPool
from ddp_ppo.sampling.drive import Player, drive
from tests.support.counting_model import ENV_ID, EXPECTED, LENGTH, POLICY, counting_model
from tests.support.counting_policy import CountingPolicy
from tests.support.fixtures import random_parameters
from tests.support.process import FolderTestCase, actor_jobs, read_csv, without_times

CONFIG = f"""
env_id: {ENV_ID}
policy_backend: {POLICY}
num_actors: 2
envs_per_actor: 2
rollout_length: 8
total_env_steps: 256
minibatch_size: 32
num_epochs: 2
hidden_sizes: [8]
eval_interval: 4
eval_episodes: 7
checkpoint_interval: 3
learning_rate_schedule: constant
"""


def envs(num_envs, **env_kwargs):
    return make_batch_env(ENV_ID, num_envs, env_kwargs=env_kwargs)


def player(env, num_steps=1):
    """A counting policy at play."""
    network = NetworkSpec.for_env(env.spec, (4,), "tanh")
    policy = CountingPolicy(network, env.spec, env.num_envs, num_steps)
    policy.load(random_parameters(network), None)
    return Player(policy, env.num_envs)


class DriveTest(unittest.TestCase):
    def test_the_state_begins_at_zero_after_every_end_of_an_episode(self):
        env = envs(2, length=3)
        actions = [
            one.action.tolist() for one, _ in zip(drive(env, player(env), env.reset([1, 2])), range(7), strict=False)
        ]
        self.assertEqual(actions, [[0, 0]] * 7)  # three steps each, so that the count never reaches the second choice
        longer = envs(1, length=LENGTH)
        seen = zip(drive(longer, player(longer), longer.reset([1])), range(2 * LENGTH), strict=False)
        self.assertEqual([int(one.action[0]) for one, _ in seen], EXPECTED * 2)

    def test_a_transition_holds_the_last_observation_of_an_ended_episode(self):
        env = envs(1, length=2)
        steps = zip(drive(env, player(env), env.reset([1])), range(4), strict=False)
        self.assertEqual([(one.reached.item(), one.step.obs.item(), bool(one.ended[0])) for one, _ in steps], [
            (1.0, 1.0, False), (2.0, 0.0, True), (1.0, 1.0, False), (2.0, 0.0, True),
        ])  # fmt: skip

    def test_rollouts_carry_the_state_over_their_border(self):
        env = envs(3, length=LENGTH)
        one, obs, act = player(env, 8), env.reset([1, 2, 3]), []
        for _ in range(5):
            rows = Rows(
                obs=np.zeros((9, 3, 1), np.float32),
                act=np.zeros((8, 3), np.int64),
                reward=np.zeros((8, 3)),
                terminated=np.zeros((8, 3), bool),
                truncated=np.zeros((8, 3), bool),
                final_obs=np.zeros((8, 3, 1), np.float32),
                progress=np.zeros(1, np.int64),
            )
            rows.obs[0] = obs
            one.rollout(step_loop(env), rows)
            obs = rows.obs[-1]
            act += rows.act[:, 1].tolist()
        self.assertEqual(act, (EXPECTED * 4)[:40])

    def test_a_policy_without_a_memory_has_a_state_of_width_0(self):
        env = make_batch_env("CartPole-v1", 2)
        policy = NumpyPolicy(NetworkSpec.for_env(env.spec, (4,), "tanh"), env.spec, 2, 1)
        self.assertEqual(Player(policy, 2).state.shape, (2, 0))


class ReplacedActorTest(unittest.TestCase):
    def test_an_actor_that_was_killed_goes_on_in_mid_episode(self):
        config = Config(env_id=ENV_ID, policy_backend=POLICY, num_actors=2, envs_per_actor=2, rollout_length=8)
        block, jobs = actor_jobs(config)
        self.addCleanup(block.close)
        jobs = [dataclasses.replace(job, env_arguments={**job.env_arguments, "env_kwargs": {}}) for job in jobs]
        pool = ActorPool(jobs, timeout_seconds=30.0, max_restarts=1)
        self.addCleanup(pool.close)
        pool.wait_ready()
        act = []
        for round_index in range(4):
            if round_index == 2:
                os.kill(pool._members[0].process.pid, signal.SIGKILL)
                pool._members[0].process.join()
            pool.sample(round_index)
            act += block.arrays["act"].tolist()
        self.assertEqual(act, [[choice] * 4 for choice in (EXPECTED * 3)[:32]])


class WholeLifeTest(FolderTestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        path = cls.config("rhythm", CONFIG)
        cls.train(path, "run_name=whole")
        cls.train(path, "run_name=parts", "total_env_steps=160")
        cls.train(path, "run_name=parts", f"resume={cls.work / 'output' / 'rhythm-parts'}")
        cls.home = cls.work / "output" / "rhythm-whole"

    def test_every_episode_of_training_and_every_evaluation_has_the_full_return(self):
        rows = read_csv(self.home / "metrics.csv")
        returns = [float(row["rollout/episode_return_mean"]) for row in rows if float(row["rollout/episodes"])]
        self.assertGreaterEqual(len(returns), 5)
        self.assertEqual(set(returns), {float(LENGTH)})
        self.assertEqual({row["eval/return_mean"] for row in rows} - {""}, {str(LENGTH)})

    def test_a_run_that_was_resumed_in_mid_episode_equals_the_unbroken_one(self):
        other = self.home.with_name("rhythm-parts")
        rows, resumed = (without_times(read_csv(home / "metrics.csv")) for home in (self.home, other))
        names = [name for name in rows[0] if not name.startswith("eval/")]  # the first part evaluated at its own end
        for row, again in zip(rows, resumed, strict=True):
            self.assertEqual([row[name] for name in names], [again[name] for name in names])
        (one, two) = (find_checkpoint(home)[1]["ranks"][0] for home in (self.home, other))
        np.testing.assert_array_equal(one["learner"]["parameters"], two["learner"]["parameters"])
        for actor, again in zip(one["actors"], two["actors"], strict=True):
            np.testing.assert_array_equal(actor["policy_state"], again["policy_state"])
            self.assertTrue(actor["policy_state"].any())

    def test_evaluate_play_and_check_act_as_training_did(self):
        result = self.folder / "result.json"
        self.run_all(["evaluate", self.home, "--json", result, "--episodes", "7"])
        self.assertEqual(json.loads(result.read_text())["evaluations"][0]["return_mean"], LENGTH)
        self.run_all(["play", self.home, "--episodes", "2", "--json", result])
        played = json.loads(result.read_text())["episodes"]
        self.assertEqual([one["return"] for one in played], [LENGTH] * 2)
        trajectory = np.load(played[0]["files"]["trajectory"])
        self.assertEqual(trajectory["act"].tolist(), EXPECTED)
        _, out, err = self.command_line("check", self.folder / "rhythm.yaml", "--json", result)
        stages = {stage["name"]: stage for stage in json.loads(result.read_text())["stages"]}
        self.assertEqual(stages["replay"]["verdict"], "PASS", out + err)
        self.assertEqual(stages["training"]["verdict"], "PASS")

    @unittest.skipUnless(has_extra(), "needs onnx and onnxruntime")
    def test_export_refuses_a_custom_policy_in_one_line(self):
        code, _, err = self.command_line("export", self.home)
        self.assertEqual(code, 2)
        self.assertIn("CountingPolicy; only MLPs and convolutions are exported", err)
        self.assertEqual(err.count("\n"), 1)


class ParityTest(unittest.TestCase):
    def test_the_policy_of_actors_agrees_with_itself_over_an_episode(self):
        model = counting_model()
        (found,) = measure(model, {"actors": policy_act(model)}, np.zeros((3, 1), np.float32))
        self.assertEqual(found[:5], ("actors", 0.0, 0.0, float(LENGTH), LENGTH))

    def test_a_candidate_that_forgets_is_found(self):
        model = counting_model()
        right = policy_act(model)
        (found,) = measure(model, {"a": lambda obs, state: right(obs, state * 0)}, np.zeros((3, 1), np.float32))
        self.assertFalse(found.has_passed)


if __name__ == "__main__":
    unittest.main()
