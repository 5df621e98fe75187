"""K simulations in C and in Python: the same bits, one restart at a time, states that come back."""

import unittest

import mujoco
import numpy as np

from ddp_ppo.envs.mujoco.batch import missing_batch
from ddp_ppo.envs.mujoco.physics import BatchPhysics, LoopPhysics
from tests.support.mujoco_tasks import needs_batch

# A ball that rolls along x by a motor, above a floor that it falls to.
MODEL = """
<mujoco>
  <option timestep="0.01"/>
  <worldbody>
    <geom type="plane" size="5 5 1"/>
    <body name="ball" pos="0 0 1">
      <joint name="x" type="slide" axis="1 0 0"/>
      <joint name="z" type="slide" axis="0 0 1"/>
      <geom type="sphere" size="0.1" mass="2"/>
    </body>
  </worldbody>
  <actuator><motor joint="x"/></actuator>
</mujoco>
"""
KINDS = (LoopPhysics,) if missing_batch() else (BatchPhysics, LoopPhysics)
STEPS, SKIP = 30, 2
STARTS = [(np.array([0.1 * i, 0.0]), np.array([0.0, -1.0])) for i in range(3)]
EVERY = np.arange(3, dtype=np.int32)


class PhysicsTest(unittest.TestCase):
    def setUp(self):
        self.model = mujoco.MjModel.from_xml_string(MODEL)

    def started(self, kind):
        """Three simulations with forces of 1, 2 and 3 N."""
        physics = kind(self.model, 3, SKIP)
        fields = {name: physics.field(name) for name in ("qpos", "qvel", "xpos")}
        physics.restart(EVERY, STARTS)
        physics.ctrl[:, 0] = [1.0, 2.0, 3.0]
        return physics, fields

    def test_a_motor_moves_each_simulation_as_newton_says(self):
        for kind in KINDS:
            with self.subTest(kind.__name__):
                physics, fields = self.started(kind)
                for _ in range(10):  # 0.2 s, in the air
                    physics.step()
                np.testing.assert_allclose(fields["qvel"][:, 0], [0.1, 0.2, 0.3], rtol=1e-9)  # F / 2 kg * 0.2 s

    @needs_batch
    def test_both_kinds_compute_the_same_bits_through_a_contact(self):
        (batch, ours), (loop, theirs) = (self.started(kind) for kind in (BatchPhysics, LoopPhysics))
        for _ in range(STEPS):
            batch.step()
            loop.step()
            for name in ours:
                np.testing.assert_array_equal(ours[name], theirs[name], name)
        self.assertLess(float(np.abs(ours["qvel"][:, 1]).max()), 0.5, "it has not met the floor")
        np.testing.assert_array_equal(batch.save(), loop.save())

    def test_a_restart_leaves_the_other_simulations_alone(self):
        for kind in KINDS:
            with self.subTest(kind.__name__):
                physics, fields = self.started(kind)
                physics.step()
                before = fields["qpos"].copy()
                physics.restart(np.array([1], np.int32), [(np.array([7.0, 0.5]), np.zeros(2))])
                np.testing.assert_array_equal(fields["qpos"], [before[0], [7.0, 0.5], before[2]])
                np.testing.assert_allclose(fields["xpos"][1, 1], [7.0, 0.0, 1.5])

    def test_a_saved_state_goes_on_to_the_last_bit_in_other_simulations(self):
        for kind in KINDS:
            with self.subTest(kind.__name__):
                (physics, fields), (other, others) = self.started(kind), self.started(kind)
                for _ in range(STEPS):
                    physics.step()
                other.restore(physics.save())
                for one in (physics, other):
                    one.ctrl[:, 0] = -1.0
                    one.step()
                for name in fields:
                    np.testing.assert_array_equal(fields[name], others[name], name)

    def test_contact_forces_are_computed_where_they_are_read(self):
        physics = LoopPhysics(self.model, 3, SKIP)
        forces = physics.field("cfrc_ext")
        physics.restart(EVERY, [(np.array([0.0, -0.9]), np.zeros(2))] * 3)  # the ball lies on the floor
        for _ in range(100):
            physics.step()
        np.testing.assert_allclose(forces[:, 1, 5], 2.0 * 9.81, rtol=1e-3)  # its weight


if __name__ == "__main__":
    unittest.main()
