"""A small vectorised task: a cart with a pole, which follows a commanded position. Everything that a task can have."""

import mujoco
import numpy as np

from ddp_ppo.tasks.vectorised.design import Commands, Design, End, Group, Pushes, Term, Vary
from ddp_ppo.tasks.vectorised.task import MujocoTask

XML = """
<mujoco>
  <option timestep="0.01"/>
  <worldbody>
    <body name="cart">
      <joint name="slide" type="slide" axis="1 0 0"/>
      <geom type="box" size="0.1 0.1 0.05" mass="1" contype="0" conaffinity="0"/>
      <body name="pole">
        <joint name="hinge" type="hinge" axis="0 1 0"/>
        <geom type="capsule" fromto="0 0 0 0 0 0.5" size="0.02" mass="0.1" contype="0" conaffinity="0"/>
      </body>
    </body>
  </worldbody>
  <actuator><motor name="force" joint="slide"/></actuator>
</mujoco>
"""


class CartTask(MujocoTask):
    """`seconds` is the time limit; the memory `ticks` counts the steps of an episode."""

    def __init__(self, num_envs, seconds=1.0, noise=0.1, schedule=()):
        design = Design(
            model=mujoco.MjSpec.from_string(XML),
            physics_steps=2,
            episode_seconds=seconds,
            obs=(
                Group(name="command", columns=("place",), unit="m", read=lambda t: t.command, mirror=((0, -1.0),)),
                Group(name="place", columns=("cart",), unit="m", noise=noise, read=lambda t: t.sim.qpos[:, 0]),
                Group(name="pole", columns=("angle", "rate"), unit="rad", noise=noise, read=lambda t: t.pole),
                Group(name="mass", columns=("cart",), unit="kg", read=lambda t: t.varied["mass"], is_privileged=True),
                Group(name="push", columns=("x", "y", "z"), unit="N", read=lambda t: t.push, is_privileged=True),
                Group(name="ticks", columns=("steps",), unit="1", read=lambda t: t.ticks),
            ),
            rewards=(
                Term(name="near", weight=1.0, read=lambda t: -np.abs(t.sim.qpos[:, 0] - t.command[:, 0])),
                Term(name="effort", weight=-0.5, read=lambda t: np.square(t.action[:, 0])),
            ),
            ends=(
                End(name="fell", read=lambda t: np.abs(t.pole[:, 0]) > 0.5),
                End(name="off_rail", read=lambda t: np.abs(t.sim.qpos[:, 0]) > 1.0, is_outside=True),
            ),
            action_scale=(5.0,),
            vary=(Vary(name="mass", fields=("body_mass",), low=0.5, high=2.0, rows=(1,)),),
            pushes=Pushes(body="cart", max_force=3.0, seconds=0.06, interval_seconds=(0.1, 0.3)),
            commands=Commands(columns=("place",), low=(-0.5,), high=(0.5,), schedule=schedule),
            action_mirror=((0, -1.0),),
        )
        super().__init__(num_envs, design)
        self.ticks = self.memory("ticks")

    def place(self, ids):
        """The pole begins near the vertical."""
        self.sim.qpos[ids] = self.streams.uniform(2, -0.1, 0.1, ids=ids)

    def measure(self):
        """The pole's angle and its rate."""
        self.pole = np.stack([self.sim.qpos[:, 1], self.sim.qvel[:, 1]], axis=1)

    def count(self):
        """One more step."""
        self.ticks += 1
