"""Actuators of small MuJoCo models that are written here."""

import unittest

import mujoco

from ddp_ppo.check.model import actuator_faults
from ddp_ppo.protocols import EnvSpec

MODEL = """
<mujoco>
  <worldbody>
    <body name="arm"><joint name="shoulder"/><geom size="0.1"/>
      <body name="hand" pos="0.5 0 0"><joint name="wrist"/><geom size="0.1"/></body>
    </body>
  </worldbody>
  <actuator>
    <motor name="lift" joint="shoulder" gear="{gear}" ctrllimited="true" ctrlrange="-2 2"/>
    <motor name="turn" joint="wrist" ctrllimited="true" ctrlrange="-0.5 1"/>
  </actuator>
</mujoco>
"""


class ActuatorTest(unittest.TestCase):
    def faults(self, *limits, gear=100):
        low, high = zip(*limits, strict=True)
        spec = EnvSpec("Arm-v0", 4, "box", len(limits), low, high)
        return actuator_faults(mujoco.MjModel.from_xml_string(MODEL.format(gear=gear)), spec)

    def test_actions_with_the_limits_of_their_actuators_are_right(self):
        self.assertEqual(self.faults((-2, 2), (-0.5, 1)), [])

    def test_other_limits_may_be_a_scaling(self):
        self.assertEqual(self.faults((-1, 1), (-1, 1)), [])
        self.assertEqual(self.faults((-1, 1)), [])  # another number of actions

    def test_limits_in_another_order_are_a_fault(self):
        (fault,) = self.faults((-0.5, 1), (-2, 2))
        self.assertRegex(fault, r"in another order: action 0 has \[-0.5, 1.0\], actuator 0 \[-2.0, 2.0\]")

    def test_a_gear_of_0_is_a_fault(self):
        (fault,) = self.faults((-2, 2), (-0.5, 1), gear=0)
        self.assertRegex(fault, r"actuator 0 \(lift\) has gear or gain 0")


if __name__ == "__main__":
    unittest.main()
