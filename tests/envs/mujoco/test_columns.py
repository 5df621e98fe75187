"""Columns of the MuJoCo tasks against the values that Gymnasium's classes observe, and frames against MuJoCo itself."""

import unittest

import gymnasium
import mujoco
import numpy as np

from ddp_ppo.envs.columns import describe_interface
from tests.support.mujoco_tasks import TASKS, VARIANTS


def described(env_id, **env_kwargs):
    return describe_interface({"env_id": env_id, "env_kwargs": env_kwargs})


def value_of(source, data):
    """What a column's source says, read from MuJoCo's data."""
    names = ("qpos", "qvel", "xpos", "cinert", "cvel", "qfrc_actuator", "qfrc_constraint", "cfrc_ext")
    fields = {name: getattr(data, name) for name in names}
    return eval(source, {"cos": np.cos, "sin": np.sin, "clip": np.clip}, fields)


class SourcesTest(unittest.TestCase):
    def assert_sources_are_observed(self, env_id, **env_kwargs):
        interface, env = described(env_id, **env_kwargs), gymnasium.make(env_id, **env_kwargs)
        env.action_space.seed(1)
        obs, _ = env.reset(seed=1)
        for step in range(60):
            values = [value_of(column.source, env.unwrapped.data) for column in interface.obs]
            np.testing.assert_array_equal(values, obs, err_msg=f"step {step}")
            obs, _, terminated, _, _ = env.step(env.action_space.sample())
            if terminated:
                obs, _ = env.reset()
        self.assertEqual((interface.dt_seconds, interface.frame_skip), (env.unwrapped.dt, env.unwrapped.frame_skip))
        self.assertEqual(len(interface.action), env.action_space.shape[0])
        for columns in (interface.obs, interface.action):
            self.assertEqual(len({column.name for column in columns}), len(columns), "names are unique")
            self.assertEqual([column for column in columns if not (column.unit and column.source)], [])

    def test_every_task_observes_what_its_columns_name(self):
        for task in TASKS:
            with self.subTest(task):
                self.assert_sources_are_observed(task)

    def test_so_it_does_with_every_argument(self):
        for task, env_kwargs in VARIANTS:
            with self.subTest(task, **env_kwargs):
                self.assert_sources_are_observed(task, **env_kwargs)


class NamesTest(unittest.TestCase):
    """Right values: the tables in the documentation of Gymnasium's classes."""

    def test_half_cheetah(self):
        interface = described("HalfCheetah-v5")
        joints = ["bthigh", "bshin", "bfoot", "fthigh", "fshin", "ffoot"]
        positions = ["rootz.position", "rooty.angle", *(f"{joint}.angle" for joint in joints)]
        velocities = ["rootx.velocity", "rootz.velocity", "rooty.angular_velocity"]
        velocities += [f"{joint}.angular_velocity" for joint in joints]
        self.assertEqual([column.name for column in interface.obs], positions + velocities)
        self.assertEqual([column.name for column in interface.action], joints)
        self.assertEqual([column.unit for column in interface.obs[:2]], ["m", "rad"])
        self.assertEqual([column.unit for column in interface.obs[8:11]], ["m/s", "m/s", "rad/s"])
        self.assertEqual((interface.dt_seconds, interface.frame_skip), (0.05, 5))

    def test_the_actions_of_ant_begin_with_the_fourth_leg(self):
        expected = [f"{part}_{leg}" for leg in (4, 1, 2, 3) for part in ("hip", "ankle")]
        self.assertEqual([column.name for column in described("Ant-v5").action], expected)

    def test_a_model_of_one_s_own_names_its_own_joints(self):
        names = [column.name for column in described("HalfCheetah-v5", xml_file="walker2d.xml").obs]
        self.assertEqual(names[2], "thigh_joint.angle")


class MeaningTest(unittest.TestCase):
    """Units and frames, measured in MuJoCo."""

    def setUp(self):
        self.columns = {column.name: column for column in described("Ant-v5").obs}
        self.env = gymnasium.make("Ant-v5").unwrapped
        self.env.reset(seed=0)
        self.model, self.data = self.env.model, self.env.data

    def test_velocities_of_a_free_joint_are_linear_in_the_world_and_angular_in_the_body(self):
        turned = np.array([0.5, 0.5, -0.5, 0.5])
        self.env.set_state(np.concatenate([[0, 0, 0.75], turned, self.env.init_qpos[7:]]), np.arange(14.0))
        for is_local, frame in ((0, "world"), (1, "torso")):
            measured = np.empty(6)
            mujoco.mj_objectVelocity(
                self.model, self.data, mujoco.mjtObj.mjOBJ_XBODY, self.model.body("torso").id, measured, is_local
            )
            for kind, values in (("angular_velocity", measured[:3]), ("velocity", measured[3:])):
                columns = [self.columns[f"root.{kind}_{axis}"] for axis in "xyz"]
                is_equal = np.allclose([value_of(column.source, self.data) for column in columns], values)
                with self.subTest(kind, frame=frame):
                    self.assertEqual(is_equal, columns[0].frame == frame)

    def test_an_external_force_comes_in_the_columns_of_forces(self):
        body = self.model.body("aux_1")
        self.data.xfrc_applied[body.id, :3] = [0.0, 0.25, 0.0]
        mujoco.mj_forward(self.model, self.data)
        mujoco.mj_rnePostConstraint(self.model, self.data)
        seen = [value_of(self.columns[f"aux_1.external_force_{axis}"].source, self.data) for axis in "xyz"]
        np.testing.assert_allclose(seen, [0.0, 0.25, 0.0], atol=1e-9)

    def test_an_action_of_one_sets_the_force_that_its_unit_says(self):
        for task in ("Ant-v5", "HalfCheetah-v5", "InvertedPendulum-v5", "Pusher-v5", "Humanoid-v5"):
            columns, env = described(task).action, gymnasium.make(task).unwrapped
            env.reset(seed=0)
            for index, column in enumerate(columns):
                env.data.ctrl[:] = np.arange(len(columns)) == index
                mujoco.mj_forward(env.model, env.data)
                size, _, unit = column.unit.rpartition(" N") if column.unit[0].isdigit() else ("1", "", column.unit)
                limited = env.model.actuator_ctrlrange[index, 1]
                force = env.data.qfrc_actuator[np.abs(env.data.qfrc_actuator).argmax()]
                with self.subTest(task, actuator=column.name):
                    self.assertAlmostEqual(force, float(size) * min(1.0, limited), places=6)
                    self.assertIn(unit, ("", " m", "N m"))


if __name__ == "__main__":
    unittest.main()
