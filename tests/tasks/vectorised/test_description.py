"""What a vectorised task looks like from outside: its description, parts and columns."""

import unittest

from ddp_ppo.envs.build import make_batch_env
from ddp_ppo.envs.columns import describe_interface
from ddp_ppo.tasks.vectorised.description import column_noise, column_slices, noisy_columns
from tests.support.cart_task import CartTask

ENV_ID = "tests.support.cart_task:CartTask"


class DescriptionTest(unittest.TestCase):
    def test_a_class_is_found_by_its_path(self):
        spec = make_batch_env(ENV_ID, 2, env_kwargs={"seconds": 2.0}).spec
        self.assertEqual((spec.env_id, spec.obs_size, spec.action_size), (ENV_ID, 9, 1))
        self.assertEqual((spec.max_episode_steps, spec.action_low, spec.action_high), (100, (-1.0,), (1.0,)))

    def test_the_groups_are_parts_of_the_observation_that_a_view_can_name(self):
        layout = CartTask(1).spec.layout
        names = [part.name for part in layout.parts]
        self.assertEqual(names, ["command", "place", "pole", "mass", "push", "ticks"])
        self.assertEqual(layout.view(["pole", "push"]), ((2, 4), (5, 8)))

    def test_columns_of_observations_and_actions_have_names_and_units(self):
        interface = describe_interface({"env_id": ENV_ID})
        self.assertEqual(interface.obs[3][:2], ("pole.rate", "rad"))
        self.assertEqual(interface.action[0][:3], ("force", "5", "ctrl[0]"))

    def test_slices_and_noise_follow_the_groups(self):
        design = CartTask(1, noise=0.5).design
        self.assertEqual([(one.start, one.stop) for one in column_slices(design)][:4], [(0, 1), (1, 2), (2, 4), (4, 5)])
        noise = column_noise(design)
        self.assertEqual(noise.tolist(), [0.0, 0.5, 0.5, 0.5, 0.0, 0.0, 0.0, 0.0, 0.0])
        self.assertEqual(noisy_columns(noise), slice(1, 4))
        self.assertEqual(noisy_columns(0.0 * noise), slice(0, 0))


if __name__ == "__main__":
    unittest.main()
