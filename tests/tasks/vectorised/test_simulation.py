"""K simulations: properties that vary, delayed controls, restarts, exact saved states, failures."""

import unittest

import mujoco
import numpy as np

from ddp_ppo.envs.mujoco.profiler_clock import log_warnings
from ddp_ppo.tasks.vectorised.design import Vary
from ddp_ppo.tasks.vectorised.simulation import Simulation
from tests.support.cart_task import XML

MASS = Vary(name="mass", fields=("body_mass",), low=0.5, high=2.0, rows=(1,))
DELAY = Vary(name="delay", fields=("actuator_delay",), low=0.0, high=0.04)


def simulation(num_envs, *vary, home=(), physics_steps=1):
    """The cart; its timestep is 10 ms."""
    spec = mujoco.MjSpec.from_string(XML)
    return Simulation(spec, num_envs, physics_steps=physics_steps, vary=vary, home=home)


def everyone(sim):
    """The numbers of all simulations."""
    return np.arange(len(sim.qpos), dtype=np.int32)


class SimulationTest(unittest.TestCase):
    def test_each_simulation_has_its_own_mass(self):
        sim = simulation(2, MASS)
        sim.vary(everyone(sim), "mass", np.array([1.0, 4.0]))
        sim.settle(everyone(sim))
        sim.ctrl[:] = 1.0
        sim.step()
        plain = simulation(1)
        plain.ctrl[:] = 1.0
        plain.step()
        self.assertEqual(sim.qvel[0, 0], plain.qvel[0, 0])  # 1 kg is the model's own
        self.assertLess(sim.qvel[1, 0], 0.3 * sim.qvel[0, 0])
        self.assertEqual(sim.varied["mass"].tolist(), [1.0, 4.0])

    def test_properties_are_set_added_or_scaled_in_the_rows_and_column_that_are_named(self):
        mass, length = 0.1, 0.5
        for how, drawn, expected in (("set", 0.3, 0.3), ("add", 0.3, mass + 0.3), ("scale", 3.0, mass * 3.0)):
            sim = simulation(2, Vary(name="x", fields=("body_mass",), low=0.0, high=1.0, rows=(2,), how=how))
            sim.vary(np.array([1], np.int32), "x", np.array([drawn]))
            masses = [sim._batch.get_model(index).body_mass[2] for index in range(2)]
            np.testing.assert_allclose(masses, [mass, expected], rtol=1e-12)
        sim = simulation(1, Vary(name="x", fields=("geom_size",), low=0.0, high=1.0, rows=(1,), column=0))
        sim.vary(everyone(sim), "x", np.array([0.07]))
        np.testing.assert_allclose(sim._batch.get_model(0).geom_size[1], [0.07, length / 2.0, 0.0])

    def test_constants_behind_a_mass_follow_it(self):
        sim = simulation(1, MASS)
        sim.vary(everyone(sim), "mass", np.array([2.0]))
        sim.settle(everyone(sim))
        self.assertAlmostEqual(sim._batch.get_model(0).body_subtreemass[0], 2.1)

    def test_controls_arrive_late_by_each_simulation_s_delay(self):
        sim = simulation(3, DELAY)
        force = sim.field("actuator_force")
        sim.vary(everyone(sim), "delay", np.array([0.0, 0.02, 0.04]))
        sim.ctrl[:] = 1.0
        arrived = []
        for _ in range(6):
            sim.step()
            arrived.append(force[:, 0].tolist())
        self.assertEqual(np.argmax(np.array(arrived) == 1.0, axis=0).tolist(), [0, 2, 4])

    def test_until_then_a_late_actuator_receives_its_home_control(self):
        sim = simulation(1, DELAY, home=(0.5,))
        force = sim.field("actuator_force")
        sim.ctrl[:] = 1.0
        sim.step()
        self.assertEqual(force[0, 0], 0.5)

    def test_a_restart_forgets_controls_on_their_way(self):
        sim = simulation(2, DELAY)
        force = sim.field("actuator_force")
        sim.ctrl[:] = 1.0
        for _ in range(3):
            sim.step()
        sim.restart(np.array([0], np.int32))
        sim.settle(np.array([0], np.int32))
        sim.ctrl[:] = 0.0
        seen = []
        for _ in range(3):
            sim.step()
            seen.append(force[:, 0].tolist())
        self.assertEqual(np.max(seen, axis=0).tolist(), [0.0, 1.0])

    def test_a_saved_state_is_exact_with_properties_and_controls_on_their_way(self):
        sim, other = simulation(2, MASS, DELAY), simulation(2, MASS, DELAY)
        sim.vary(everyone(sim), "mass", np.array([0.7, 1.9]))
        sim.vary(everyone(sim), "delay", np.array([0.01, 0.03]))
        sim.settle(everyone(sim))
        for control in (1.0, -2.0, 3.0):
            sim.ctrl[:] = control
            sim.step()
        other.restore(sim.save())
        for one in (sim, other):
            one.step()
            one.step()
        np.testing.assert_array_equal(other.qpos, sim.qpos)
        np.testing.assert_array_equal(other.varied["mass"], [0.7, 1.9])

    def test_a_simulation_that_mujoco_gives_up_is_known_until_it_is_restarted(self):
        log_warnings()  # MuJoCo writes a file otherwise
        sim = simulation(2)
        sim.qvel[1, 0] = np.nan
        with self.assertLogs("ddp_ppo", "WARNING"):
            sim.step()
        self.assertEqual(sim.has_failed.tolist(), [False, True])
        sim.restart(np.array([1], np.int32))
        self.assertEqual(sim.has_failed.tolist(), [False, False])


if __name__ == "__main__":
    unittest.main()
