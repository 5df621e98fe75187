"""The terms of the quadruped's reward, worked out by hand for a robot of plain arrays."""

import unittest
from types import SimpleNamespace

import numpy as np

from ddp_ppo.tasks.robots import rewards
from ddp_ppo.tasks.robots.rewards import TERMS


def robot(**values):
    """Two robots at rest that are to stand, but for these values."""
    still = {
        "num_envs": 2,
        "step_seconds": 0.02,
        "velocity": np.zeros((2, 3)),
        "turn_rate": np.zeros((2, 3)),
        "gravity": np.tile([0.0, 0.0, -1.0], (2, 1)),
        "command": np.zeros((2, 3)),
        "height": np.full(2, 0.3),
        "robot": SimpleNamespace(height=0.3),
        "joint_offset": np.zeros((2, 12)),
        "joint_velocity": np.zeros((2, 12)),
        "torque": np.zeros((2, 12)),
        "action": np.zeros((2, 12)),
        "last_action": np.zeros((2, 12)),
        "landing": np.zeros((2, 4)),
        "foot_speed": np.zeros((2, 4)),
        "contact": np.ones((2, 4), np.bool_),
        "has_fallen": np.zeros(2, np.bool_),
    }
    return SimpleNamespace(**{**still, **{name: np.asarray(value) for name, value in values.items()}})


class RewardsTest(unittest.TestCase):
    def check(self, term, expected, **values):
        np.testing.assert_allclose(term(robot(**values)), expected, rtol=1e-12, atol=1e-12)

    def test_a_robot_that_stands_as_commanded_earns_the_most(self):
        for name, (weight, term) in TERMS.items():
            with self.subTest(name):
                best = 1.0 if name in ("track_velocity", "track_turn", "alive") else 0.0
                self.check(term, [best, best])
                self.assertEqual(weight > 0.0, best == 1.0 or name == "swing")

    def test_tracking_falls_to_exp_minus_1_at_an_error_of_a_half(self):
        self.check(
            rewards.track_velocity,
            [np.exp(-1.0), np.exp(-0.5)],
            velocity=[[0.5, 0.0, 9.0], [0.8, 0.25, 0.0]],
            command=[[1.0, 0.0, 0.0], [0.55, 0.0, 0.0]],
        )
        self.check(rewards.track_turn, [np.exp(-1.0), 1.0], turn_rate=[[9.0, 9.0, 0.5], [0.0, 0.0, 0.0]])

    def test_motions_that_nobody_commands_count_with_their_squares(self):
        self.check(rewards.bounce, [0.25, 0.0], velocity=[[1.0, 1.0, -0.5], [1.0, 0.0, 0.0]])
        self.check(rewards.wobble, [13.0, 0.0], turn_rate=[[2.0, -3.0, 9.0], [0.0, 0.0, 9.0]])
        self.check(rewards.tilt, [0.25, 0.0], gravity=[[0.3, 0.4, -0.8], [0.0, 0.0, -1.0]])
        self.check(rewards.height, [0.01, 0.04], height=[0.2, 0.5])

    def test_effort_counts_with_torques_power_and_changes_of_the_action(self):
        torque = np.zeros((2, 12))
        torque[0, :2] = 3.0, -4.0
        self.check(rewards.torque, [25.0, 0.0], torque=torque)
        self.check(rewards.power, [14.0, 0.0], torque=torque, joint_velocity=np.full((2, 12), -2.0))
        self.check(rewards.action_rate, [0.12, 0.0], action=np.array([[0.1] * 12, [0.0] * 12]))

    def test_abductions_count_three_times_in_the_pose(self):
        offset = np.zeros((2, 12))
        offset[0, 0], offset[1, 1] = 0.2, 0.2
        self.check(rewards.pose, [0.12, 0.04], joint_offset=offset)

    def test_the_pose_of_a_standing_robot_counts_only_if_it_is_to_stand(self):
        command = [[0.05, 0.0, 0.0], [0.0, -0.3, 0.0]]
        self.check(rewards.stand, [1.2, 0.0], joint_offset=np.full((2, 12), -0.1), command=command)

    def test_swings_earn_what_they_are_longer_than_short_ones_within_limits(self):
        landing = [[0.02, 0.26, 0.0, 0.0], [2.0, 0.0, 0.0, 0.0]]
        self.check(rewards.swing, [(-0.1 + 0.06) / 0.02, 0.2 / 0.02], landing=landing, command=np.full((2, 3), 0.5))
        self.check(rewards.swing, [0.0, 0.0], landing=landing)

    def test_feet_in_the_air_count_only_if_the_robot_is_to_stand(self):
        contact = [[True, False, True, False]] * 2
        self.check(rewards.lifted, [2.0, 0.0], contact=contact, command=[[0.0, 0.0, 0.0], [0.0, 0.0, 0.4]])

    def test_feet_slip_only_while_they_touch_the_ground(self):
        contact = [[True, False, True, False], [False] * 4]
        self.check(rewards.slip, [0.5, 0.0], foot_speed=np.full((2, 4), 0.5), contact=contact)

    def test_a_fall_costs_its_weight_once(self):
        self.check(rewards.fall, [50.0, 0.0], has_fallen=[True, False])


if __name__ == "__main__":
    unittest.main()
