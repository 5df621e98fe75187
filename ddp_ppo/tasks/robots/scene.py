"""What surrounds a robot: the ground that it walks on, and the sky and light of pictures."""

from __future__ import annotations

import mujoco

from ddp_ppo.tasks.vectorised.terrain import Terrain

GROUND = "ground"


def add_ground(spec: mujoco.MjSpec, terrain: Terrain | None) -> None:
    """Adds a plane or the terrain; robots touch it, and its friction is that of every contact."""
    ground = spec.worldbody.add_geom(
        name=GROUND, type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0, 0, 0.05], rgba=[0.55, 0.58, 0.55, 1.0]
    )
    ground.contype, ground.conaffinity, ground.friction = 1, 0, [0.8, 0.005, 0.0001]
    if terrain is not None:
        terrain.add_to(spec, GROUND)


def decorate(spec: mujoco.MjSpec) -> None:
    """A sky, light from above, and a ground of squares of 0.5 m that let one see the robot move."""
    texture, builtin = mujoco.mjtTexture, mujoco.mjtBuiltin
    spec.add_texture(
        name="sky", type=texture.mjTEXTURE_SKYBOX, builtin=builtin.mjBUILTIN_GRADIENT, width=64, height=64
    ).rgb1 = [0.75, 0.85, 0.95]
    squares = spec.add_texture(
        name="squares", type=texture.mjTEXTURE_2D, builtin=builtin.mjBUILTIN_CHECKER, width=128, height=128
    )
    squares.rgb1, squares.rgb2 = [0.55, 0.6, 0.55], [0.45, 0.5, 0.45]
    material = spec.add_material(name="squares", texrepeat=[2.0, 2.0], texuniform=True)
    material.textures[mujoco.mjtTextureRole.mjTEXROLE_RGB] = "squares"
    spec.geom(GROUND).material = "squares"
    spec.worldbody.add_light(pos=[0, 0, 5], dir=[-0.3, 0.2, -1], type=mujoco.mjtLightType.mjLIGHT_DIRECTIONAL)
    spec.visual.headlight.ambient, spec.visual.headlight.diffuse = [0.4] * 3, [0.4] * 3
