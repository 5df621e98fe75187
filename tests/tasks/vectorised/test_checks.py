"""Mistakes in a design are reported in one line that names them."""

import unittest
from dataclasses import replace

import mujoco
import numpy as np

from ddp_ppo.envs.build import make_batch_env
from ddp_ppo.errors import EnvError
from ddp_ppo.tasks.vectorised.checks import require_design
from ddp_ppo.tasks.vectorised.design import End, Group, Term, Vary
from ddp_ppo.tasks.vectorised.task import MujocoTask
from tests.support.cart_task import XML, CartTask


def design(**changes):
    """The cart's design with changes, and a model that nobody has compiled."""
    return replace(CartTask(1).design, model=mujoco.MjSpec.from_string(XML), **changes)


class DesignTest(unittest.TestCase):
    def refused(self, words, **changes):
        changed = design(**changes)
        with self.assertRaisesRegex(EnvError, words):
            require_design(changed, changed.model.compile())

    def test_the_design_of_a_working_task_passes(self):
        one = design()
        require_design(one, one.model.compile())

    def test_names_are_unique_in_their_kind(self):
        term = Term(name="near", weight=1.0, read=np.zeros)
        self.refused("rewards: the name 'near' is there twice", rewards=(term, term))

    def test_something_is_observed_and_rewarded(self):
        self.refused("at least one group in obs and one term", rewards=())

    def test_there_is_one_value_for_each_actuator(self):
        self.refused("home: 2 values, but the model has 1 actuators", home=(0.0, 0.0))
        self.refused("action_scale: 3 values", action_scale=(1.0, 1.0, 1.0))

    def test_what_varies_is_a_field_of_the_model(self):
        one = {"name": "x", "low": 0.0, "high": 1.0}
        self.refused("vary 'x': MjModel has no field 'body_weight'", vary=(Vary(fields=("body_weight",), **one),))
        self.refused(
            "'x': how is 'times'; use one of set, add", vary=(Vary(fields=("body_mass",), how="times", **one),)
        )
        self.refused("low 2 is above high 1", vary=(Vary(fields=("body_mass",), **{**one, "low": 2.0}),))

    def test_what_is_pushed_is_a_body_of_the_model(self):
        self.refused("pushes: the model has no body 'horse'", pushes=replace(design().pushes, body="horse"))

    def test_commands_have_limits_for_each_value(self):
        self.refused("commands: .* differ in length", commands=replace(design().commands, high=(1.0, 1.0)))
        self.refused("commands: .* differ in length", commands=replace(design().commands, schedule=((1.0,),)))

    def test_swapped_legs_in_a_mirror_are_noticed(self):
        legs = Group(name="legs", columns=("l", "r"), unit="1", read=np.zeros, mirror=((1, 1.0), (1, 1.0)))
        self.refused("group 'legs': its mirror must bring back the original", obs=(legs,))
        self.refused("action_mirror: its mirror", action_mirror=((0, 2.0),))

    def test_a_task_refuses_it_before_it_builds_anything(self):
        with self.assertRaisesRegex(EnvError, "MjModel has no field 'mass'"):
            MujocoTask(1, design(vary=(Vary(name="x", fields=("mass",), low=0.0, high=1.0),)))


class ShapesTest(unittest.TestCase):
    def refused(self, words, **changes):
        task = CartTask(3)
        task.design = replace(task.design, **changes)
        with self.assertRaisesRegex(EnvError, words):
            task.reset([1, 2, 3])

    def test_values_that_would_spread_over_a_group_s_columns_are_refused(self):
        group = Group(name="pair", columns=("a", "b"), unit="1", read=lambda task: np.zeros((task.num_envs, 1)))
        self.refused(r"group 'pair': read returns the shape \[3, 1\], which must be \[3, 2\]", obs=(group,))

    def test_a_term_and_an_end_are_one_value_for_each_environment(self):
        self.refused(
            r"term 'x': .* \[\], which must be \[3\]", rewards=(Term(name="x", weight=1.0, read=lambda t: 1.0),)
        )
        self.refused(r"end 'x': .* \[3, 1\]", ends=(End(name="x", read=lambda t: t.command > 0.0),))

    def test_a_working_task_passes(self):
        make_batch_env("tests.support.cart_task:CartTask", 2).reset([1, 2])


if __name__ == "__main__":
    unittest.main()
