"""Reading robots: the project's own, the Unitree Go1, and models that are refused by name."""

import tempfile
import unittest
from pathlib import Path

import mujoco
import numpy as np

from ddp_ppo.errors import EnvError
from ddp_ppo.tasks.robots.model import FIRST_FOOT, OWN, Drive, load_robot, mirrored_joints, robot_path
from ddp_ppo.tasks.vectorised.terrain import rough_terrain
from tests.support.go1 import MISSING, go1_path

DRIVE = Drive(stiffness=40.0, damping=1.0, torque_limits=(23.7, 23.7, 35.55), armature=(0.004, 0.004, 0.009))


class OwnRobotTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.robot = load_robot()
        cls.model = cls.robot.spec.compile()

    def test_it_has_twelve_position_controlled_joints_of_a_robot_of_12_kg(self):
        model = self.model
        self.assertEqual((model.nq, model.nv, model.nu), (19, 18, 12))
        self.assertAlmostEqual(model.body_mass.sum(), 12.4)
        self.assertEqual(self.robot.joints[:3], ("FR_abduction", "FR_hip", "FR_knee"))
        np.testing.assert_array_equal(model.actuator_forcerange[:3], [[-24, 24], [-24, 24], [-36, 36]])
        np.testing.assert_array_equal(model.actuator_biasprm[:, 1], -model.actuator_gainprm[:, 0])

    def test_its_inertias_are_those_of_solid_bodies(self):
        for inertia in self.model.body_inertia[1:]:
            self.assertLessEqual(inertia.max(), inertia.sum() - inertia.max() + 1e-12)

    def test_it_keeps_its_feet_and_a_trunk_that_touch_the_ground_alone(self):
        model = self.model
        names = {model.geom(index).name for index in range(model.ngeom)}
        self.assertEqual(names, {"ground", "robot_trunk", "FR_foot", "FL_foot", "RR_foot", "RL_foot"})
        self.assertEqual(model.geom("ground").id, 0)  # the friction that varies
        self.assertFalse(any(model.geom_contype[1:]))
        feet = [model.geom(index).name for index in range(FIRST_FOOT, 6)]
        self.assertEqual(feet, [f"{leg}_foot" for leg in self.robot.legs])

    def test_it_stands_with_its_feet_on_the_ground(self):
        data = mujoco.MjData(self.model)
        data.qpos[2], data.qpos[7:], data.ctrl[:] = self.robot.height, self.robot.home, self.robot.home
        mujoco.mj_forward(self.model, data)
        soles = [data.geom(f"{leg}_foot").xpos[2] - self.robot.foot_radius for leg in self.robot.legs]
        np.testing.assert_allclose(soles, 0.0, atol=1e-9)
        for _ in range(100):
            mujoco.mj_step(self.model, data)
        self.assertAlmostEqual(data.qpos[2], self.robot.height, delta=0.03)
        weight = 9.81 * 12.4
        self.assertAlmostEqual(data.sensordata.sum(), weight, delta=0.1 * weight)

    def test_what_is_drawn_has_the_same_joints_masses_and_more_to_see(self):
        drawn = self.robot.drawn.compile()
        self.assertEqual((drawn.nq, drawn.nu), (19, 12))
        np.testing.assert_allclose(drawn.body_mass, self.model.body_mass)
        np.testing.assert_allclose(drawn.body_inertia, self.model.body_inertia)
        self.assertGreater(drawn.ngeom, 20)

    def test_left_and_right_change_places_and_abductions_their_sign(self):
        index, sign = zip(*mirrored_joints(self.robot), strict=True)
        self.assertEqual(index, (3, 4, 5, 0, 1, 2, 9, 10, 11, 6, 7, 8))
        self.assertEqual(sign, (-1.0, 1.0, 1.0) * 4)

    def test_the_solver_is_close_to_the_converged_solution(self):
        exact = load_robot().spec
        exact.option.solver, exact.option.iterations = mujoco.mjtSolver.mjSOL_NEWTON, 100
        velocities = [self.fallen(model) for model in (self.model, exact.compile())]
        self.assertLess(np.abs(velocities[0] - velocities[1]).mean(), 0.05)

    def fallen(self, model):
        """Joint velocities 20 ms after the robot has landed on its feet from 5 mm."""
        data = mujoco.MjData(model)
        data.qpos[2], data.qpos[7:] = self.robot.height + 0.005, self.robot.home
        data.ctrl[:] = self.robot.home + np.tile([0.05, -0.1, 0.1], 4)
        for _ in range(12):
            mujoco.mj_step(model, data)
        return data.qvel[6:].copy()

    def test_a_drive_replaces_the_actuators(self):
        model = load_robot(drive=DRIVE).spec.compile()
        np.testing.assert_array_equal(model.actuator_gainprm[:, 0], 40.0)
        np.testing.assert_array_equal(model.actuator_forcerange[2], [-35.55, 35.55])
        np.testing.assert_array_equal(model.dof_armature[6:9], [0.004, 0.004, 0.009])
        self.assertFalse(model.dof_damping.any())

    def test_rough_ground_is_a_height_field(self):
        model = load_robot(terrain=rough_terrain(num_levels=2)).spec.compile()
        self.assertEqual(model.geom_type[0], mujoco.mjtGeom.mjGEOM_HFIELD)


class OtherRobotsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def refused(self, name, words, **options):
        with self.assertRaisesRegex(EnvError, words):
            load_robot(name, **options)

    def changed(self, *changes):
        """The project's own robot with (old, new) words in its file, as a file."""
        text = robot_path(OWN).read_text()
        for old, new in changes:
            self.assertIn(old, text)
            text = text.replace(old, new)
        path = self.folder / "robot.xml"
        path.write_text(text)
        return str(path)

    def test_a_missing_file_is_refused_with_what_may_be_given(self):
        self.refused("nowhere.xml", "no such file; use 'quadruped', a path, or menagerie:")

    def test_a_file_that_mujoco_cannot_read_is_refused_with_its_words(self):
        self.refused(self.changed(('type="box"', 'type="cube"')), "MuJoCo cannot read .*cube")

    def test_a_robot_without_feet_is_refused(self):
        self.refused(
            self.changed(('type="sphere" size="0.022"', 'type="box" size="0.02 0.02 0.02"')),
            "has no sphere as its foot",
        )

    def test_a_robot_with_other_joints_is_refused(self):
        path = self.changed(('<freejoint name="root"/>', ""), ('qpos="0 0 0.3 1 0 0 0 ', 'qpos="'))
        self.refused(path, "one free joint and then 12 hinges, not 12")

    def test_a_robot_with_motors_in_place_of_position_control_needs_a_drive(self):
        path = self.changed(('<position name="FR_knee" class="knee"', '<motor name="FR_knee"'))
        self.refused(path, "'FR_knee' does not control a position; give it a drive")
        self.assertEqual(load_robot(path, drive=DRIVE).spec.compile().nu, 12)

    def test_masses_of_bodies_come_from_their_geoms_if_nothing_else_tells_them(self):
        path = self.changed(
            ('<inertial pos="0.005 0 0" mass="5.2" diaginertia="0.02 0.065 0.07"/>', ""),
            ('size="0.18 0.09 0.05" mass="0"', 'size="0.18 0.09 0.05" mass="4"'),
        )
        model = load_robot(path).spec.compile()
        self.assertAlmostEqual(model.body_mass[1], 4.0)

    def test_the_menagerie_is_asked_for_by_its_package(self):
        try:
            import mujoco_menagerie  # noqa: F401
        except ImportError:
            self.refused("menagerie:unitree_go1", "needs the package mujoco-menagerie")
        else:
            self.refused("menagerie:no_such_robot", "mujoco-menagerie: ")

    def test_the_go1_is_a_robot_of_this_kind(self):
        path = go1_path(self.folder)
        if path is None:
            self.skipTest(MISSING)
        self.refused(str(path), "needs one actuator for each joint")
        robot = load_robot(str(path), drive=DRIVE)
        model = robot.spec.compile()
        self.assertEqual(robot.legs, ("FR", "FL", "RR", "RL"))
        self.assertAlmostEqual(model.body_mass.sum(), 12.743448, places=5)
        self.assertEqual((model.nq, model.nu, model.ngeom, model.nmesh), (19, 12, 6, 5))
        self.assertAlmostEqual(robot.height, 0.32, delta=0.01)
        self.assertEqual([sign for _, sign in mirrored_joints(robot)], [-1.0, 1.0, 1.0] * 4)


if __name__ == "__main__":
    unittest.main()
