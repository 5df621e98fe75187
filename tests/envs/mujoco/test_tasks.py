"""Which environments the MuJoCo backend covers, and why not others."""

import unittest

import gymnasium
import numpy as np

from ddp_ppo.envs.build import EnvError, describe_env, make_batch_env
from ddp_ppo.envs.mujoco.tasks import covers
from tests.support.mujoco_tasks import BACKENDS, TASKS, needs_batch

ONLY_V5 = "only Gymnasium's MuJoCo tasks of version 5 run as arrays"


class CoverageTest(unittest.TestCase):
    def test_auto_takes_the_mujoco_backend_for_every_task(self):
        for task in TASKS:
            self.assertIsNone(covers(task, {}))
            self.assertEqual(describe_env(task).backend, BACKENDS[-1])

    @needs_batch
    def test_both_backends_describe_a_task_alike(self):
        one, other = (vars(describe_env("Ant-v5", backend=backend)) for backend in ("mujoco", "gymnasium"))
        self.assertEqual({**one, "backend": ""}, {**other, "backend": ""})

    def test_what_concerns_rendering_runs_on_gymnasium(self):
        for argument in ({"render_mode": "rgb_array"}, {"width": 64}, {"default_camera_config": None}):
            name = next(iter(argument))
            self.assertIn(repr(name), covers("Hopper-v5", argument))
            with self.assertRaisesRegex(EnvError, name):
                make_batch_env("Hopper-v5", 1, env_kwargs=argument, backend="mujoco")
        self.assertEqual(describe_env("Hopper-v5", env_kwargs={"width": 64}).backend, "gymnasium")

    def test_every_v5_task_of_gymnasium_is_covered_and_no_other(self):
        for env_id, registered in gymnasium.registry.items():
            is_mujoco = str(registered.entry_point).startswith("gymnasium.envs.mujoco.")
            if is_mujoco and registered.namespace is None:
                with self.subTest(env_id):
                    self.assertEqual(covers(env_id, {}), None if registered.version == 5 else ONLY_V5)

    def test_other_environments_run_on_gymnasium(self):
        for env_id in ("CartPole-v1", "HalfCheetah-v4"):
            self.assertEqual(covers(env_id, {}), ONLY_V5)
            self.assertEqual(describe_env(env_id).backend, "gymnasium")
        with self.assertRaisesRegex(EnvError, f"HalfCheetah-v4: backend mujoco does not cover it: {ONLY_V5}"):
            make_batch_env("HalfCheetah-v4", 1, backend="mujoco")

    def test_what_gymnasium_refuses_to_build_is_refused_in_its_words(self):
        with self.assertRaisesRegex(EnvError, "Pusher-v4.*mujoco<3"):
            make_batch_env("Pusher-v4", 1)

    def test_a_registration_of_ones_own_counts_by_its_class_and_its_arguments(self):
        entry_point = "gymnasium.envs.mujoco.hopper_v5:HopperEnv"
        gymnasium.register("tasks/Hop-v0", entry_point, max_episode_steps=50, kwargs={"healthy_reward": 5.0})
        env = make_batch_env("tasks/Hop-v0", 1)
        self.assertEqual((env.spec.backend, env.spec.max_episode_steps), (BACKENDS[-1], 50))
        env.reset([0])
        env.step(np.zeros((1, 3), np.float32))
        self.assertEqual(env.reward_terms()["reward_survive"], [5.0])
        wrapper = gymnasium.wrappers.ClipReward.wrapper_spec(min_reward=0, max_reward=1)
        gymnasium.register("tasks/Hop-v1", entry_point, additional_wrappers=(wrapper,))
        self.assertIn("wrappers", covers("tasks/Hop-v1", {}))
        self.assertEqual(describe_env("tasks/Hop-v1").backend, "gymnasium")

    def test_wrong_arguments_show_the_complaint_of_gymnasiums_class(self):
        for argument, word in (({"gravty": 1}, "gravty"), ({"xml_file": "missing.xml"}, "missing.xml")):
            with self.assertRaisesRegex(EnvError, f"Hopper-v5.*{word}"):
                make_batch_env("Hopper-v5", 1, env_kwargs=argument)


if __name__ == "__main__":
    unittest.main()
