"""The Catch task: its rules by hand, and that it is a proper Gymnasium environment that can be saved."""

import unittest

import gymnasium
import numpy as np
from gymnasium.utils.env_checker import check_env

from ddp_ppo.envs.build import describe_env, make_batch_env

ENV_ID = "ddp_ppo.tasks.catch:Catch-v0"


def places(obs):
    """Row and column of the ball, column of the paddle."""
    board = obs.reshape(8, 8)
    (paddle,) = np.flatnonzero(board[-1])
    ((row, column),) = np.argwhere(board[:-1])
    return int(row), int(column), int(paddle)


class CatchTest(unittest.TestCase):
    def test_gymnasium_finds_nothing_to_complain_about(self):
        check_env(gymnasium.make(ENV_ID).unwrapped, skip_render_check=True)

    def test_a_paddle_that_follows_the_ball_always_catches_it_in_seven_steps(self):
        env = gymnasium.make(ENV_ID)
        columns = set()
        for seed in range(40):
            obs, _ = env.reset(seed=seed)
            columns.add(places(obs)[1])
            for step in range(1, 8):
                row, column, paddle = places(obs)
                self.assertEqual(row, step - 1)
                obs, reward, terminated, truncated, _ = env.step(1 + np.sign(column - paddle))
                self.assertEqual(
                    (reward, terminated, truncated), (1.0, True, False) if step == 7 else (0.0, False, False)
                )
        self.assertEqual(columns, set(range(8)))

    def test_a_paddle_elsewhere_misses(self):
        env = gymnasium.make(ENV_ID)
        for seed in range(20):
            obs, _ = env.reset(seed=seed)
            action = 0 if places(obs)[1] > 3 else 2  # away from the ball, held by the edge
            rewards = [env.step(action)[1] for _ in range(7)]
            self.assertEqual(rewards, [0.0] * 6 + [-1.0])

    def test_the_image_is_the_board_in_bytes(self):
        check_env(gymnasium.make(ENV_ID, is_image=True).unwrapped, skip_render_check=True)
        flat, image = (gymnasium.make(ENV_ID, is_image=is_image).reset(seed=3)[0] for is_image in (False, True))
        self.assertEqual((image.shape, image.dtype), ((8, 8, 1), np.uint8))
        np.testing.assert_array_equal(image.reshape(-1), 255 * flat)

    def test_it_runs_as_a_batch_and_goes_on_from_a_saved_state(self):
        spec = describe_env(ENV_ID)
        self.assertEqual((spec.obs_size, spec.action_kind, spec.action_size), (64, "discrete", 3))
        one, other = (make_batch_env(ENV_ID, 3) for _ in range(2))
        one.reset([1, 2, 3])
        rng = np.random.default_rng(0)
        for _ in range(10):
            one.step(rng.integers(3, size=3))
        other.restore(one.save())
        for _ in range(30):
            action = rng.integers(3, size=3)
            got, expected = other.step(action), one.step(action)
            for name in ("obs", "reward", "terminated"):
                np.testing.assert_array_equal(getattr(got, name), getattr(expected, name), name)


if __name__ == "__main__":
    unittest.main()
