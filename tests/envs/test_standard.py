"""The standard that a task brings itself: Gymnasium's figures, or nothing."""

import unittest

from ddp_ppo.envs.standard import own_standard


class StandardTest(unittest.TestCase):
    def test_it_is_the_registered_reward_threshold(self):  # gymnasium/envs/__init__.py
        for env_id, threshold in {"CartPole-v1": 475.0, "HalfCheetah-v5": 4800.0, "Pendulum-v1": None}.items():
            self.assertEqual(own_standard([env_id]), threshold)

    def test_a_module_that_registers_its_task_is_imported(self):
        self.assertEqual(own_standard(["ddp_ppo.tasks.catch:Catch-v0"]), 1.0)

    def test_several_tasks_and_custom_classes_have_none(self):
        self.assertIsNone(own_standard(["CartPole-v1", "CartPole-v0"]))
        self.assertIsNone(own_standard(["tests.support.planted_faults:OwnBatch"]))


if __name__ == "__main__":
    unittest.main()
