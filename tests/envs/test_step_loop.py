"""The plain loop over a rollout's steps, and the MuJoCo backend's own loop, which must fill the same bits."""

import unittest

import numpy as np

from ddp_ppo.envs.build import make_batch_env
from ddp_ppo.envs.step_loop import run_steps, step_loop
from ddp_ppo.errors import EnvError
from ddp_ppo.protocols import Rows
from tests.support.mujoco_tasks import TASKS, needs_batch

K = 3


def empty_rows(env, num_steps):
    obs_size, action_size = env.spec.obs_size, env.spec.action_size
    return Rows(
        obs=np.full((num_steps + 1, K, obs_size), 7.0, np.float32),
        act=np.full((num_steps, K, action_size), 7.0, np.float32),
        reward=np.full((num_steps, K), 7.0),
        terminated=np.ones((num_steps, K), np.bool_),  # of an earlier rollout
        truncated=np.ones((num_steps, K), np.bool_),
        final_obs=np.full((num_steps, K, obs_size), 7.0, np.float32),
        progress=np.zeros(1, np.int64),
    )


def discrete_rows(num_steps):
    """Rows of a task with two choices and one number observed."""
    return Rows(
        obs=np.zeros((num_steps + 1, K, 1), np.float32),
        act=np.zeros((num_steps, K), np.int64),
        reward=np.zeros((num_steps, K)),
        terminated=np.zeros((num_steps, K), np.bool_),
        truncated=np.zeros((num_steps, K), np.bool_),
        final_obs=np.zeros((num_steps, K, 1), np.float32),
        progress=np.zeros(1, np.int64),
    )


def acting(env, seed):
    """A policy that sees its observation and stores the sample before it is clipped."""
    rng = np.random.default_rng(seed)
    low, high = (np.array(bound, np.float32) for bound in (env.spec.action_low, env.spec.action_high))

    def act(step, obs, out):
        out[...] = rng.normal(0, 0.7, out.shape) * (high - low) + 0.1 * np.tanh(obs[:, :1])
        return np.clip(out, low, high)

    return act


@needs_batch
class MujocoLoopTest(unittest.TestCase):
    def test_it_fills_the_bits_of_the_plain_loop_over_several_rollouts_and_resets(self):
        for task in TASKS:
            with self.subTest(task):
                plain, own = (make_batch_env(task, K, max_episode_steps=70) for _ in range(2))
                actions = acting(plain, 1), acting(own, 1)
                obs = [env.reset(range(K)).copy() for env in (plain, own)]
                num_ends = 0
                for _ in range(3):
                    filled = [empty_rows(env, 60) for env in (plain, own)]
                    for rows, first in zip(filled, obs, strict=True):
                        rows.obs[0] = first
                    run_steps(plain, actions[0], filled[0])
                    own.run_steps(actions[1], filled[1])
                    expected, got = filled
                    for name in ("obs", "act", "reward", "terminated", "truncated"):
                        np.testing.assert_array_equal(getattr(got, name), getattr(expected, name), name)
                    cut = expected.truncated
                    np.testing.assert_array_equal(got.final_obs[cut], expected.final_obs[cut])
                    num_ends += np.count_nonzero(cut | expected.terminated)
                    for name, values in plain.reward_terms().items():
                        np.testing.assert_array_equal(own.reward_terms()[name], values, name)
                    np.testing.assert_array_equal(own.save()["obs"], got.obs[-1])
                    obs = [rows.obs[-1] for rows in filled]
                self.assertGreaterEqual(num_ends, 2 * K)
                self.assertEqual(got.progress, 59)

    def test_a_loop_and_single_steps_take_turns(self):
        plain, own = (make_batch_env("Ant-v5", K, max_episode_steps=40) for _ in range(2))
        first = [env.reset(range(K)).copy() for env in (plain, own)]
        filled = [empty_rows(env, 30) for env in (plain, own)]
        for env, rows, obs in zip((plain, own), filled, first, strict=True):
            rows.obs[0] = obs
            step_loop(env)(acting(env, 2), rows)
        action = np.full((K, 8), 0.3, np.float32)
        one = [env.step(action) for env in (plain, own)]
        np.testing.assert_array_equal(one[0].reward, one[1].reward)
        np.testing.assert_array_equal(one[0].obs, one[1].obs)

    def test_the_terms_are_means_over_the_rollout(self):
        env = make_batch_env("Hopper-v5", K)
        rows = empty_rows(env, 50)
        rows.obs[0] = env.reset(range(K))
        terms = env.run_steps(acting(env, 3), rows)
        self.assertEqual(set(terms), {"reward_forward", "reward_ctrl", "reward_survive"})
        self.assertAlmostEqual(sum(terms.values()), float(rows.reward.mean()), 6)


class PlainLoopTest(unittest.TestCase):
    @needs_batch
    def test_gymnasium_gives_what_the_mujoco_backend_gives(self):
        envs = [make_batch_env("Reacher-v5", K, backend=backend) for backend in ("gymnasium", "mujoco")]
        filled = [empty_rows(env, 120) for env in envs]
        terms = []
        for env, rows in zip(envs, filled, strict=True):
            rows.obs[0] = env.reset(range(K))
            terms.append(step_loop(env)(acting(env, 4), rows))
        for name in ("obs", "terminated", "truncated"):
            np.testing.assert_array_equal(getattr(filled[0], name), getattr(filled[1], name), name)
        np.testing.assert_allclose(filled[0].reward, filled[1].reward, rtol=1e-12)
        self.assertEqual(np.count_nonzero(filled[0].truncated), 2 * K)
        self.assertEqual(set(terms[0]), {"reward_dist", "reward_ctrl"})
        for name, mean in terms[0].items():
            self.assertAlmostEqual(mean, terms[1][name], delta=1e-7)  # those are float32

    def test_an_environment_without_named_terms_reports_none(self):
        env = make_batch_env("Pendulum-v1", K)
        rows = empty_rows(env, 20)
        rows.obs[0] = env.reset(range(K))
        self.assertEqual(step_loop(env)(acting(env, 5), rows), {})
        self.assertTrue((rows.reward < 0).all())

    def test_a_term_gets_a_name_that_a_file_can_hold(self):
        env = make_batch_env("Pendulum-v1", K)
        env.reward_terms = lambda: {"reward_\udcff": np.ones(K)}
        env.reset(range(K))
        self.assertEqual(step_loop(env)(acting(env, 5), empty_rows(env, 20)), {r"reward_\udcff": 1.0})

    def test_a_term_counts_in_every_step_and_as_0_where_it_is_absent(self):  # N-03
        for length in (3, 16, 17):  # periods of 16 have been missed once
            with self.subTest(length=length):
                env = make_batch_env("tests.support.fixtures:Bonus-v0", K, env_kwargs={"length": length})
                rows = discrete_rows(10 * length)
                rows.obs[0] = env.reset(range(K))
                terms = step_loop(env)(lambda step, obs, act: act, rows)
                self.assertAlmostEqual(terms["reward_success"], 1 / length, 12)
                self.assertEqual(terms.keys(), {"reward_success"})

    def test_a_method_run_steps_with_other_parameters_is_not_the_loop(self):  # N-09
        class Own(type(make_batch_env("Pendulum-v1", 1))):
            def run_steps(self, num_steps):
                raise AssertionError("this is not the loop")

        env = Own("Pendulum-v1", K)
        rows = empty_rows(env, 5)
        rows.obs[0] = env.reset(range(K))
        self.assertEqual(step_loop(env)(acting(env, 6), rows), {})
        self.assertTrue((rows.reward < 0).all())

    def test_terms_that_are_no_dict_of_arrays_are_refused_in_one_line(self):
        for terms in ([1.0], {"reward_x": "high"}, {"reward_x": np.ones(K + 1)}):
            with self.subTest(terms=terms):
                env = make_batch_env("Pendulum-v1", K)
                env.reward_terms = lambda terms=terms: terms
                env.reset(range(K))
                with self.assertRaisesRegex(
                    EnvError, r"reward_terms\(\) has to return a dict of arrays of shape \(3,\)"
                ):
                    step_loop(env)(acting(env, 5), empty_rows(env, 2))


if __name__ == "__main__":
    unittest.main()
