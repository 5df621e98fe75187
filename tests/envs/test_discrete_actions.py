"""Box actions as choices from a grid: what each choice does, by every backend, and what is refused."""

import unittest
from contextlib import closing

import numpy as np

from ddp_ppo.envs.build import EnvError, describe_env, make_batch_env
from ddp_ppo.envs.discrete_actions import choice_columns
from ddp_ppo.envs.spaces import action_grid
from ddp_ppo.envs.step_loop import run_steps
from ddp_ppo.protocols import Column, EnvSpec, Rows
from tests.support.mujoco_tasks import BACKENDS, needs_batch

K, T = 3, 40
SEEDS = [4, 5, 6]


def filled(env, run):
    """Rows of T steps in which random choices were taken."""
    generator = np.random.default_rng(1)
    rows = Rows(
        obs=np.empty((T + 1, K, env.spec.obs_size), np.float32),
        act=np.empty((T, K), np.int64),
        reward=np.empty((T, K)),
        terminated=np.empty((T, K), np.bool_),
        truncated=np.empty((T, K), np.bool_),
        final_obs=np.zeros((T, K, env.spec.obs_size), np.float32),
        progress=np.zeros(1, np.int64),
    )
    rows.obs[0] = env.reset(SEEDS)

    def act(step, obs, choice):
        choice[...] = generator.integers(env.spec.action_size, size=K)
        return choice

    run(act, rows)
    return rows


class GridTest(unittest.TestCase):
    def test_it_has_every_combination_with_the_bounds_and_the_last_dimension_is_the_fastest(self):
        grid = action_grid((-1.0, 0.0), (1.0, 4.0), 3)
        expected = [[-1, 0], [-1, 2], [-1, 4], [0, 0], [0, 2], [0, 4], [1, 0], [1, 2], [1, 4]]
        self.assertEqual((grid.tolist(), grid.dtype), (expected, np.float32))

    def test_64_choices_are_the_most(self):
        self.assertEqual(action_grid([0.0] * 6, [1.0] * 6, 2).shape, (64, 6))
        with self.assertRaisesRegex(EnvError, "4 dimensions would make 81 choices, more than 64"):
            action_grid([0.0] * 4, [1.0] * 4, 3)

    def test_a_dimension_without_a_range_is_refused(self):
        for low, high in ((-np.inf, np.inf), (1.0, 1.0), (0.0, np.nan)):
            with self.subTest(low), self.assertRaisesRegex(EnvError, f"dimension 1 .* no range: {low:g} to {high:g}"):
                action_grid((0.0, low), (1.0, high), 2)

    def test_choices_are_named_after_the_columns_and_keep_a_unit_that_all_share(self):
        grid = action_grid((-1.0, 0.0), (1.0, 0.5), 2)
        names = ["hip -1, knee 0", "hip -1, knee 0.5", "hip 1, knee 0", "hip 1, knee 0.5"]
        same, other = ((Column("hip", "N m"), Column("knee", unit)) for unit in ("N m", "N"))
        self.assertEqual(choice_columns(same, grid), tuple(Column(name, "N m") for name in names))
        self.assertEqual(choice_columns(other, grid), tuple(Column(name) for name in names))


class DiscreteActionsTest(unittest.TestCase):
    def test_the_description_is_that_of_the_environment_but_for_the_action(self):
        expected = EnvSpec("Pendulum-v1", 3, "discrete", 5, max_episode_steps=200)
        self.assertEqual(describe_env("Pendulum-v1", discretize_actions=5), expected)

    def test_a_choice_does_what_its_box_action_does(self):
        low, high = (np.array(bound) for bound in ((-1.0, -1.0), (1.0, 1.0)))
        for backend in BACKENDS:
            with (
                self.subTest(backend),
                closing(make_batch_env("Swimmer-v5", K, backend=backend)) as plain,
                closing(make_batch_env("Swimmer-v5", K, backend=backend, discretize_actions=3)) as env,
            ):
                np.testing.assert_array_equal(env.reset(SEEDS), plain.reset(SEEDS))
                for choices in ([0, 4, 8], [2, 6, 1]):
                    rows, columns = np.divmod(choices, 3)
                    box = low + (high - low) * np.column_stack((rows, columns)) / 2
                    expected, found = plain.step(box.astype(np.float32)), env.step(np.array(choices))
                    np.testing.assert_array_equal(found.obs, expected.obs)
                    np.testing.assert_array_equal(found.reward, expected.reward)
                self.assertEqual(env.reward_terms().keys(), plain.reward_terms().keys())

    @needs_batch
    def test_a_backend_s_own_loop_fills_the_bits_of_the_plain_one(self):
        envs = [make_batch_env("Hopper-v5", K, max_episode_steps=30, discretize_actions=2) for _ in range(2)]
        expected = filled(envs[0], lambda act, rows: run_steps(envs[0], act, rows))
        found = filled(envs[1], envs[1].run_steps)
        for name in ("obs", "act", "reward", "terminated", "truncated"):
            np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), name)
        self.assertTrue((found.act.max(), found.terminated.any()) == (7, True))

    def test_a_saved_state_goes_on(self):
        env, other = (make_batch_env("Pendulum-v1", 2, discretize_actions=3) for _ in range(2))
        env.reset([1, 2])
        obs = env.step(np.array([0, 2])).obs
        other.reset([8, 9])
        np.testing.assert_array_equal(other.restore(env.save()), obs)
        np.testing.assert_array_equal(other.step(np.array([1, 1])).obs, env.step(np.array([1, 1])).obs)

    def test_what_has_no_few_bounded_dimensions_is_refused_by_name(self):
        for env_id, words in {
            "CartPole-v1": "the action space is discrete already; remove the setting",
            "Ant-v5": "8 dimensions would make 6561 choices",
        }.items():
            with self.subTest(env_id), self.assertRaisesRegex(EnvError, f"{env_id}: discretize_actions: 3: {words}"):
                make_batch_env(env_id, 1, discretize_actions=3)


if __name__ == "__main__":
    unittest.main()
