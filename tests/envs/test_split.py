"""States of real environments taken apart and put together for other shares continue to the last bit."""

import unittest

import numpy as np

from ddp_ppo.envs.build import make_batch_env
from ddp_ppo.envs.split import join_states, split_state

SEEDS = list(range(10, 16))


def stepped(env, actions):
    """What comes of each step."""
    return [[np.array(part) for part in env.step(action)[:4]] for action in actions]


class SplitTest(unittest.TestCase):
    def envs(self, env_id, own, **options):
        env = make_batch_env(env_id, own.stop - own.start, first_index=own.start, **options)
        self.addCleanup(env.close)
        return env

    def assert_goes_on(self, env_id, num_tasks=1, **options):
        """Shares of 2 and 4 environments, each stepped a little, go on as shares of 1, 2 and 3."""
        singles, rest = [], []
        for own in (slice(0, 2), slice(2, 6)):
            env, envs = self.envs(env_id, own, **options), range(own.start, own.stop)
            env.reset(SEEDS[own])
            generator = np.random.default_rng(own.start)
            actions = [env.spec.action.random(generator, len(envs)) for _ in range(30)]
            stepped(env, actions[:12])
            singles += split_state(env.save(), envs, num_tasks)
            rest.append((actions[12:], stepped(env, actions[12:])))
        actions = [np.concatenate(pair) for pair in zip(*(one for one, _ in rest), strict=True)]
        expected = [
            [np.concatenate(parts) for parts in zip(*pair, strict=True)]
            for pair in zip(*(one for _, one in rest), strict=True)
        ]
        for own in (slice(0, 1), slice(1, 3), slice(3, 6)):
            env = self.envs(env_id, own, **options)
            env.reset(SEEDS[own])
            env.restore(join_states(singles[own], range(own.start, own.stop), num_tasks))
            found = stepped(env, [action[own] for action in actions])
            for one, wanted in zip(found, expected, strict=True):
                for array, rows in zip(one, wanted, strict=True):
                    np.testing.assert_array_equal(array, rows[own])

    def test_gymnasium_environments(self):
        self.assert_goes_on("CartPole-v1", max_episode_steps=20)

    def test_mujoco_tasks(self):
        self.assert_goes_on("Hopper-v5")
        self.assert_goes_on("Ant-v5", max_episode_steps=20)

    def test_choices_in_place_of_a_box(self):
        self.assert_goes_on("InvertedPendulum-v5", discretize_actions=3)

    def test_several_tasks(self):
        self.assert_goes_on(["CartPole-v1", "CartPole-v0"], 2, max_episode_steps=20)

    def test_what_a_class_saves_in_one_piece_is_not_taken_apart(self):
        for state in ({"position": np.zeros(2)}, {"elapsed": np.zeros(2), "num_steps": 3, "obs": np.zeros((4, 1))}, {}):
            self.assertIsNone(split_state(state, range(2)))


if __name__ == "__main__":
    unittest.main()
