"""The page of an episode: what of it is drawn, and in which names and units."""

import re
import unittest
from pathlib import Path

import numpy as np

from ddp_ppo.actions.box import BoxAction
from ddp_ppo.actions.discrete import DiscreteAction
from ddp_ppo.envs.columns import Column, Interface
from ddp_ppo.evaluation.play_page import episode_page
from ddp_ppo.evaluation.trajectory import Trajectory
from tests.support.process import FolderTestCase

BOX = BoxAction((-1.0,), (1.0,))
INTERFACE = Interface((Column("hip.angle", "rad", "qpos[0]", "world"),), (Column("hip", "120 N m"),))


def episode(num_steps):
    """Observation, action and reward of step t are t."""
    t = np.arange(num_steps + 1, dtype=np.float32)
    act = t[1:, None]
    return Trajectory("Task-v0", 5, t[:, None], act, act, t[1:].astype(np.float64), {}, "terminated")


def page(one, interface=INTERFACE, film=None, action=BOX):
    """Its text."""
    return episode_page("run/model", one, interface, action, deviation=None, film=film, notes=[])


def first_step(text, title):
    """The step at which a chart's curve begins."""
    return float(re.search(rf'aria-label="{title}".*?"series":\[\[\[([\d.]+)', text, re.S)[1])


class PlayPageTest(FolderTestCase):
    def test_a_short_episode_is_drawn_from_its_reset(self):
        text = page(episode(200))
        self.assertNotIn("The last", text)
        self.assertEqual([first_step(text, name) for name in ("hip.angle", "hip", "Sum so far")], [0, 1, 1])

    def test_of_a_long_one_the_last_steps_are_drawn_wide_enough_to_be_seen(self):
        text = page(episode(1200))
        self.assertEqual(text.count("The last 200 of 1,200 steps"), 2)
        self.assertEqual([first_step(text, name) for name in ("hip.angle", "hip", "Sum so far")], [1000, 1001, 1])

    def test_actions_say_what_one_of_them_is(self):
        self.assertIn("</i>times 120 N m <b>", page(episode(3)))
        plain = INTERFACE._replace(action=(Column("hip", "N m"),))
        self.assertIn("</i>N m <b>", page(episode(3), plain))

    def test_choices_are_listed_with_the_values_that_the_environment_takes(self):
        act = np.array([1, 2, 1])
        one = Trajectory(**{**vars(episode(3)), "act": act, "policy_act": act})
        columns = INTERFACE._replace(action=(Column("open"), Column("shut")))
        text = page(one, columns, action=DiscreteAction(2, start=1))
        self.assertIn("1 open, 2 shut", text)

    def test_many_columns_are_cut_and_said_to_be(self):
        wide = episode(3)
        wide = Trajectory(**{**vars(wide), "obs": np.repeat(wide.obs, 65, axis=1)})
        text = page(wide, INTERFACE._replace(obs=INTERFACE.obs * 65))
        self.assertIn("The first 64 of 65 columns.", text)

    def test_a_large_video_is_played_from_beside_the_page(self):
        for size, source in ((10, "data:video/mp4;base64,"), (2_000_001, "large.mp4")):
            film = Path(self.folder) / "large.mp4"
            film.write_bytes(bytes(size))
            self.assertIn(f'<video src="{source}', page(episode(3), film=film))


if __name__ == "__main__":
    unittest.main()
