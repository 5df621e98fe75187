"""From a batch to one of its environments, through discrete actions and several tasks."""

import unittest
from contextlib import closing

from ddp_ppo.envs.build import make_batch_env
from ddp_ppo.envs.inner import gymnasium_env, innermost


class InnerTest(unittest.TestCase):
    def test_an_environment_is_found_behind_choices_and_among_tasks(self):
        with closing(make_batch_env("Pendulum-v1", 2, discretize_actions=3)) as env:
            self.assertEqual(gymnasium_env(*innermost(env, 1)).spec.id, "Pendulum-v1")
        tasks = ["CartPole-v1", "tests.support.script_env:envs/WrappedCartPole-v0"]
        with closing(make_batch_env(tasks, 3)) as env:
            self.assertEqual(gymnasium_env(*innermost(env, 1)).spec.id, "envs/WrappedCartPole-v0")
            self.assertEqual(gymnasium_env(*innermost(env, 2)).spec.id, "CartPole-v1")

    def test_a_member_of_this_name_that_means_something_else_gives_none(self):
        for other in (None, "a name", lambda: 0, lambda index: "no environment"):
            with self.subTest(other=other):
                env = make_batch_env("CartPole-v1", 1)
                self.addCleanup(env.close)
                env.gymnasium_env = other
                self.assertIsNone(gymnasium_env(env, 0))


if __name__ == "__main__":
    unittest.main()
