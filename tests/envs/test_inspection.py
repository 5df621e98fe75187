"""What is seen inside Gymnasium's own MuJoCo tasks, and that nothing is seen where there is nothing."""

import unittest
from collections import Counter
from unittest import mock

import gymnasium
import mujoco
import numpy as np
from gymnasium.spaces import Box

from ddp_ppo.envs.build import make_batch_env
from ddp_ppo.envs.gymnasium_env import build_env
from ddp_ppo.envs.inspection import ObsLimits, bad_state, first_overlap, names_of, overlap
from ddp_ppo.envs.mujoco import profiler_clock
from tests.long import mujoco_environments
from tests.support.mujoco_tasks import BACKENDS, needs_batch

TASKS = ("Ant", "HalfCheetah", "Hopper", "Humanoid", "HumanoidStandup", "InvertedDoublePendulum", "InvertedPendulum")
TASKS += ("Pusher", "Reacher", "Swimmer", "Walker2d")


def unwrapped(env_id, seed=0):
    """A task without wrappers, after a reset."""
    env, _ = build_env(env_id, {})
    env.reset(seed=seed)
    return env


class BadStateTest(unittest.TestCase):
    def test_a_healthy_simulation_has_none(self):
        self.assertEqual(bad_state(unwrapped("Walker2d-v5")), "")

    def test_a_position_or_velocity_is_named_by_its_joint(self):
        for field, index, name in (("qpos", 2, "rooty.angle"), ("qvel", 8, "ffoot.angular_velocity")):
            env = unwrapped("HalfCheetah-v5")
            getattr(env.data, field)[index] = np.nan
            self.assertEqual(bad_state(env), f"{field}[{index}] ({name})")

    def test_it_is_still_known_after_mujoco_has_reset_the_simulation(self):
        env = unwrapped("HalfCheetah-v5")
        env.data.qpos[2] = np.nan
        unheard = mock.patch.object(profiler_clock, "_warning_counts", Counter())  # else the third would not be logged
        with unheard, self.assertLogs(level="WARNING"):  # MuJoCo's own
            mujoco.mj_step(env.model, env.data)
        self.assertTrue(np.isfinite(env.data.qpos).all())
        self.assertEqual(bad_state(env), "qpos[2] (rooty.angle)")
        env.reset()
        self.assertEqual(bad_state(env), "")

    def test_an_environment_without_a_model_has_none(self):
        self.assertEqual(bad_state(gymnasium.make("CartPole-v1")), "")


class NamesOfTest(unittest.TestCase):
    def names(self, env_id, column, backend="auto"):
        arguments = {"env_id": env_id, "env_kwargs": {}, "backend": backend}
        env = make_batch_env(num_envs=2, **arguments)
        self.addCleanup(env.close)
        env.reset([1, 2])
        return names_of(env, 1, column)

    def test_a_column_that_is_the_state_is_the_state_s_fault_on_either_backend(self):
        for backend in BACKENDS:
            with self.subTest(backend):
                self.assertEqual(self.names("HalfCheetah-v5", 1, backend), ("qpos[2] (rooty.angle)",) * 2)

    def test_a_column_that_is_computed_from_the_state_is_the_state_s_fault_too(self):
        # Hopper-v5: 5 positions, then 6 velocities within limits; Reacher-v5: the first joint's cosine comes first.
        velocity = "qvel[3] (thigh_joint.angular_velocity)"
        self.assertEqual(self.names("Hopper-v5", 8), (velocity, velocity.replace("qvel[3]", "clip(qvel[3], -10, 10)")))
        self.assertEqual(self.names("Reacher-v5", 0), ("qpos[0] (joint0.angle)", "cos(qpos[0]) (joint0.angle_cos)"))

    def test_other_columns_have_a_name_alone(self):
        limited = "clip(cfrc_ext[1,0], -1, 1)"  # Ant-v5: 13 positions and 14 velocities come before
        self.assertEqual(self.names("Ant-v5", 27), ("", f"{limited} (torso.external_torque_x)"))
        self.assertEqual(self.names("CartPole-v1", 1), ("", "cart velocity"))

    def test_a_reward_and_environments_that_say_nothing_have_no_names(self):
        self.assertEqual(self.names("HalfCheetah-v5", None), ("", ""))
        self.assertEqual(self.names("tests.support.fixtures:Count-v0", 0), ("", ""))


class OverlapTest(unittest.TestCase):
    def test_gymnasium_s_own_tasks_start_without(self):
        for name in TASKS:
            for seed in range(5):
                with self.subTest(name, seed=seed):
                    self.assertEqual(overlap(unwrapped(f"{name}-v5", seed)), "")

    def test_a_body_that_starts_in_the_floor_is_named_with_its_depth(self):
        env = unwrapped("HalfCheetah-v5")
        env.data.qpos[1] -= 0.5
        mujoco.mj_forward(env.model, env.data)
        self.assertRegex(overlap(env), r"^world and \w+ overlap by 0\.\d{3} m after a reset$")

    def test_environments_of_a_user_are_looked_at_as_they_are(self):
        arguments = {"env_id": f"{mujoco_environments.__name__}:Sunk-v0", "env_kwargs": {}}
        env = make_batch_env(num_envs=1, **arguments)
        self.addCleanup(env.close)
        env.reset([1])
        self.assertIn("overlap by", first_overlap(env))

    @needs_batch
    def test_array_tasks_are_looked_at_through_a_second_one(self):
        arguments = {"env_id": "HalfCheetah-v5", "env_kwargs": {"reset_noise_scale": 2.0}, "backend": "mujoco"}
        env = make_batch_env(num_envs=1, **arguments)
        found = []
        for seed in range(10):
            env.reset([seed])
            found.append(first_overlap(env))
        self.assertTrue(any(found))  # noise of 2 m puts some of them into the floor

    def test_an_environment_without_a_model_has_none(self):
        arguments = {"env_id": "CartPole-v1", "env_kwargs": {}}
        self.assertEqual(first_overlap(make_batch_env(num_envs=1, **arguments)), "")


class LimitsTest(unittest.TestCase):
    def limits(self, env_id, num_envs=2, **env_kwargs):
        env = make_batch_env(env_id, num_envs, env_kwargs=env_kwargs)
        self.addCleanup(env.close)
        return ObsLimits.of(env)

    def test_a_value_far_outside_its_space_is_named(self):  # H-a
        space = Box(np.array([-1.0, 0.0], np.float32), np.array([1.0, np.inf], np.float32))
        limits = self.limits("tests.support.script_env:envs/Script-v0", observation_space=space)
        obs = np.zeros((3, 2, 2), np.float32)
        obs[1, 0] = 1.15, 1e9  # within a tenth of the range, and without a limit
        self.assertEqual(limits.first_outside(obs), "")
        obs[2, 1, 0] = -1.5
        self.assertEqual(limits.first_outside(obs), "column 0 of an observation is -1.5, its space says -1 .. 1")
        obs[1, 1, 1] = -0.2
        self.assertEqual(limits.first_outside(obs), "column 1 of an observation is -0.2, its space says 0 .. inf")

    def test_nothing_is_looked_at_where_nothing_is_limited(self):
        for env_id in ("Hopper-v5", "tests.support.fixtures:Count-v0", "tests.support.brought:brought/Numbers-v0"):
            self.assertIsNone(self.limits(env_id), env_id)


if __name__ == "__main__":
    unittest.main()
