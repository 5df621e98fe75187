"""The base of vectorised tasks on a small one: rewards, ends, noise, memory, exact states, independence."""

import unittest

import numpy as np

from ddp_ppo.errors import EnvError
from ddp_ppo.protocols import Rows
from tests.support.cart_task import CartTask

COMMAND, PLACE, POLE, MASS, PUSH, TICKS = 0, 1, slice(2, 4), 4, slice(5, 8), 8


def actions(num_steps, num_envs, seed=0):
    """Random actions [T, K, 1]."""
    return np.random.default_rng(seed).uniform(-1.0, 1.0, (num_steps, num_envs, 1)).astype(np.float32)


def play(task, act):
    """What each step returned, copied."""
    return [tuple(np.array(part) for part in task.step(row)) for row in act]


class TaskTest(unittest.TestCase):
    def test_observations_are_the_groups_from_left_to_right(self):
        task = CartTask(3, noise=0.0)
        task.reset([1, 2, 3])
        obs = task.step(np.zeros((3, 1))).obs
        np.testing.assert_array_equal(obs[:, PLACE], task.sim.qpos[:, 0].astype(np.float32))
        np.testing.assert_array_equal(obs[:, POLE], task.pole.astype(np.float32))
        np.testing.assert_array_equal(obs[:, MASS], task.varied["mass"].astype(np.float32))
        self.assertEqual(obs[:, TICKS].tolist(), [1.0, 1.0, 1.0])

    def test_noise_stays_in_its_columns_and_within_its_width(self):
        task = CartTask(500)
        obs = task.reset(range(500))
        error = obs[:, PLACE] - task.sim.qpos[:, 0]
        self.assertTrue(0.09 < np.abs(error).max() <= 0.1 + 1e-6)
        self.assertAlmostEqual(error.mean(), 0.0, delta=0.015)
        np.testing.assert_array_equal(obs[:, COMMAND], task.command[:, 0].astype(np.float32))
        np.testing.assert_array_equal(obs[:, MASS], task.varied["mass"].astype(np.float32))

    def test_the_reward_is_the_weighted_terms_of_the_seconds_of_a_step(self):
        task = CartTask(2)
        task.reset([1, 2])
        command = task.command.copy()
        reward = task.step(np.array([[0.5], [-1.0]])).reward
        distance = np.abs(task.sim.qpos[:, 0] - command[:, 0])
        terms = task.reward_terms()
        np.testing.assert_allclose(terms["near"], -0.02 * distance)
        np.testing.assert_allclose(terms["effort"], [-0.02 * 0.5 * 0.25, -0.02 * 0.5 * 1.0])
        np.testing.assert_allclose(reward, terms["near"] + terms["effort"])

    def test_an_action_of_1_is_the_scale_of_its_control(self):
        task = CartTask(1)
        task.reset([1])
        task.step(np.array([[-0.5]]))
        self.assertEqual(task.sim.ctrl[0, 0], -2.5)

    def test_ends_are_named_and_outside_causes_truncate(self):
        task = CartTask(3)
        task.reset([1, 2, 3])
        task.sim.qpos[0, 1], task.sim.qpos[1, 0] = 0.6, 1.1
        result = task.step(np.zeros((3, 1)))
        self.assertEqual(result.terminated.tolist(), [True, False, False])
        self.assertEqual(result.truncated.tolist(), [False, True, False])
        reasons = {name: flags.tolist() for name, flags in task.end_reasons().items()}
        self.assertEqual(reasons, {"fell": [True, False, False], "off_rail": [False, True, False]})

    def test_the_time_limit_truncates(self):
        task = CartTask(2, seconds=0.1)
        task.reset([1, 2])
        ended = [row[3].tolist() for row in play(task, np.zeros((10, 2, 1)))]
        self.assertEqual(ended, ([[False, False]] * 4 + [[True, True]]) * 2)

    def test_an_ended_episode_leaves_its_last_observation_and_nothing_else(self):
        task = CartTask(2, noise=0.0)
        task.reset([1, 2])
        play(task, actions(3, 2))
        task.sim.qpos[0, 1] = 0.6
        result = task.step(np.ones((2, 1)))
        self.assertGreater(result.final_obs[0, POLE][0], 0.5)
        self.assertLessEqual(abs(result.obs[0, POLE][0]), 0.1)
        self.assertEqual(result.obs[:, TICKS].tolist(), [0.0, 4.0])  # the memory began again
        self.assertEqual(task.action[:, 0].tolist(), [0.0, 1.0])
        self.assertEqual(task.elapsed.tolist(), [0, 4])
        self.assertEqual(task.push[0].tolist(), [0.0, 0.0, 0.0])

    def test_the_next_episode_draws_its_properties_again(self):
        task = CartTask(2, seconds=0.1)
        task.reset([1, 2])
        before = task.varied["mass"].copy()
        play(task, np.zeros((5, 2, 1)))
        self.assertTrue((task.varied["mass"] != before).all())
        self.assertTrue(((task.varied["mass"] >= 0.5) & (task.varied["mass"] <= 2.0)).all())

    def test_pushes_move_the_body(self):
        task = CartTask(30)
        task.reset(range(30))
        pushed = np.zeros(30)
        for _ in range(10):
            task.step(np.zeros((30, 1)))
            pushed += 0.02 * task.push[:, 0]
        impulse = (task.varied["mass"] + 0.1) * task.sim.qvel[:, 0]  # that of the pole apart
        self.assertGreater(np.corrcoef(pushed, impulse)[0, 1], 0.95)

    def test_a_restored_task_goes_on_to_the_last_bit(self):
        act = actions(80, 4)
        task = CartTask(4)
        task.reset(range(4))
        play(task, act[:37])
        saved = task.save()
        expected = play(task, act[37:])
        other = CartTask(4)
        obs = other.restore(saved)
        np.testing.assert_array_equal(obs, saved["obs"])
        for ours, theirs in zip(play(other, act[37:]), expected, strict=True):
            for mine, reference in zip(ours[:4], theirs[:4], strict=True):
                np.testing.assert_array_equal(mine, reference)

    def test_a_saved_state_does_not_follow_the_task(self):
        task = CartTask(2)
        task.reset([1, 2])
        saved = task.save()
        before = saved["sim"]["physics"].copy(), saved["counts"].copy()
        task.step(np.ones((2, 1)))
        np.testing.assert_array_equal(saved["sim"]["physics"], before[0])
        np.testing.assert_array_equal(saved["counts"], before[1])

    def test_the_state_of_another_number_of_environments_is_refused(self):
        task = CartTask(2)
        task.reset([1, 2])
        with self.assertRaisesRegex(EnvError, "does not fit"):
            CartTask(3).restore(task.save())

    def test_an_environment_does_not_depend_on_the_others(self):
        act = actions(120, 5)
        together, alone = CartTask(5), CartTask(1)
        together.reset([10, 11, 12, 13, 14])
        alone.reset([13])
        for all_rows, own in zip(play(together, act), play(alone, act[:, 3:4]), strict=True):
            for mine, reference in zip(all_rows[:4], own[:4], strict=True):
                np.testing.assert_array_equal(mine[3], reference[0])

    def test_a_rollout_is_that_of_its_steps_with_means_of_all_of_them(self):
        act = actions(30, 3)
        task, reference = CartTask(3), CartTask(3)
        steps, shape = [], (30, 3)
        obs = reference.reset([1, 2, 3]).copy()
        for row in act:
            steps.append((reference.step(row).reward.copy(), reference.reward_terms()["near"].copy()))
        rows = Rows(
            obs=np.zeros((31, 3, 9), np.float32),
            act=np.zeros((*shape, 1), np.float32),
            reward=np.zeros(shape),
            terminated=np.zeros(shape, np.bool_),
            truncated=np.zeros(shape, np.bool_),
            final_obs=np.zeros((*shape, 9), np.float32),
            progress=np.zeros(1, np.int64),
        )
        task.reset([1, 2, 3])
        rows.obs[0] = obs
        means = task.run_steps(lambda step, obs, sample: act[step], rows)
        np.testing.assert_array_equal(rows.reward, [reward for reward, _ in steps])
        self.assertAlmostEqual(means["near"], np.mean([near for _, near in steps]))
        self.assertEqual(set(means), {"near", "effort", "end_fell", "end_off_rail"})

    def test_progress_is_complete_until_a_trainer_reports_it(self):
        task = CartTask(1)
        self.assertEqual(task.progress, 1.0)
        task.set_progress(0.25)
        task.reset([1])
        other = CartTask(1)
        other.restore(task.save())
        self.assertEqual(other.progress, 0.25)

    def test_measures_are_those_of_the_command_that_was_followed(self):
        class Measured(CartTask):
            def measures(self):
                return {"asked": self.command[:, 0].copy()}

        task = Measured(1, schedule=((0.02, 0.3), (0.02, -0.2)))
        task.reset([1])
        asked = []
        for _ in range(3):
            task.step(np.zeros((1, 1)))
            asked.append(task.measured["asked"][0])
        self.assertEqual(asked, [0.3, -0.2, 0.3])
        self.assertEqual(task.command[0, 0], -0.2)

    def test_episodes_that_end_are_finished_before_the_next_ones_begin(self):
        seen = []

        class Watched(CartTask):
            def finish(self, ids):
                seen.append((ids.tolist(), self.ticks[ids].tolist()))

        task = Watched(2)
        task.reset([1, 2])
        task.step(np.zeros((2, 1)))
        task.sim.qpos[1, 1] = 0.6
        task.step(np.zeros((2, 1)))
        self.assertEqual(seen, [([1], [2.0])])

    def test_a_lasting_memory_outlives_episodes_but_not_a_reset(self):
        task = CartTask(2, seconds=0.1)
        wins = task.memory("wins", is_lasting=True)
        task.reset([1, 2])
        wins += [3.0, 4.0]
        play(task, np.zeros((6, 2, 1)))
        self.assertEqual(wins.tolist(), [3.0, 4.0])
        self.assertEqual(task.save()["memory.wins"].tolist(), [3.0, 4.0])
        task.reset([1, 2])
        self.assertEqual(wins.tolist(), [0.0, 0.0])

    def test_a_schedule_of_commands_is_followed(self):
        task = CartTask(2, schedule=((0.04, 0.3), (0.04, -0.2)))
        commands = [task.reset([1, 2])[:, COMMAND].copy()]
        commands += [task.step(np.zeros((2, 1))).obs[:, COMMAND].copy() for _ in range(4)]
        np.testing.assert_allclose(np.array(commands)[:, 0], [0.3, 0.3, -0.2, -0.2, 0.3], rtol=1e-6)

    def test_left_and_right_of_the_cart_behave_alike(self):
        task = CartTask(1, noise=0.0, schedule=((9.0, 0.0),))
        mirror = task.mirror
        task.reset([1])
        task.sim.qpos[:], task.sim.qvel[:] = [[0.2, 0.1]], [[-0.3, 0.4]]
        task._push.wait[:] = 100
        saved = task.save()
        obs = task.step(np.array([[0.7]], np.float32)).obs.copy()
        task.restore(saved)
        task.sim.qpos[:], task.sim.qvel[:] = [[-0.2, -0.1]], [[0.3, -0.4]]
        other = task.step(mirror.action(np.array([[0.7]], np.float32))).obs
        np.testing.assert_allclose(other[:, POLE], -obs[:, POLE], atol=1e-6)


if __name__ == "__main__":
    unittest.main()
