"""What a MuJoCo model is, as far as a policy depends on it: joints, first pose, ground, period, actuators.

Of an environment without such a model only its class and versions are said.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ddp_ppo.check.trial import Report, Trial, call
from ddp_ppo.envs.inspection import model_and_data
from ddp_ppo.protocols import EnvSpec
from ddp_ppo.runs.versions import versions

_JOINT_KINDS = ("free", "ball", "slide", "hinge")
_JOINT_WIDTHS = (7, 4, 1, 1)  # numbers in qpos
_PLANE = 0  # mjGEOM_PLANE
_DEEP = 0.05  # metres that bodies may overlap at the start before it is worth a note; HalfCheetah's feet: 0.013


def check_model(trial: Trial, report: Report) -> None:
    """Reads the model of one environment after a reset."""
    used = versions()
    report.figures["versions"] = ", ".join(f"{name} {used[name]}" for name in ("ddp_ppo", "gymnasium", "mujoco"))
    if trial.own_class is not None:
        report.figures["class"] = trial.own_class
        return
    interface = trial.interface  # before: it needs an instance too
    with trial.gymnasium_env() as env:
        own = env.unwrapped
        report.figures["class"] = f"{type(own).__module__}:{type(own).__name__}"
        call("reset", env.reset, seed=1)
        if interface.dt_seconds is not None:
            report.figures["control period"] = _period(trial)
        found = model_and_data(own)
        if found is None:
            report.figures["model"] = "none that can be read"
            return
        _describe(own, *found, report)
        report.faults += actuator_faults(found[0], trial.env)


def _period(trial: Trial) -> str:
    seconds, skip = trial.interface.dt_seconds, trial.interface.frame_skip
    assert seconds is not None
    physics = f", {skip} physics steps of {seconds / skip:g} s" if skip else ""
    return f"{seconds:g} s, {1 / seconds:g} Hz{physics}"


def _describe(own: Any, model: Any, data: Any, report: Report) -> None:
    path = getattr(own, "fullpath", None)  # of Gymnasium's classes
    file = f" ({Path(path).name})" if isinstance(path, str) else ""
    report.figures["robot"] = f"{_model_name(model)}{file}, {model.nbody - 1} bodies, {model.njnt} joints"
    report.figures["mass"] = f"{float(model.body_mass.sum()):.4g} kg"
    planes = [model.geom(index).name or f"geom{index}" for index in np.flatnonzero(model.geom_type == _PLANE)]
    report.figures["ground"] = ", ".join(planes) or "none"
    deepest = -float(min(data.contact.dist, default=0.0))
    report.figures["first contacts"] = f"{data.ncon}, deepest {max(0.0, deepest):.4f} m"
    if deepest > _DEEP:
        report.notes.append(f"bodies overlap by {deepest:.3f} m after a reset: the first steps may throw them apart")
    report.tables["joints in order"] = _joints(model, getattr(own, "init_qpos", None))
    report.tables["actuators in order"] = _actuators(model)


def _model_name(model: Any) -> str:
    return str(model.names.split(b"\0")[0].decode() or "unnamed")


def _joints(model: Any, first_qpos: Any) -> list[dict[str, Any]]:
    is_pose = isinstance(first_qpos, np.ndarray) and first_qpos.shape == model.qpos0.shape
    start = first_qpos if is_pose else model.qpos0
    rows = []
    for index in range(model.njnt):
        joint, kind, first = model.joint(index), int(model.jnt_type[index]), int(model.jnt_qposadr[index])
        low, high = model.jnt_range[index]
        pose = start[first : first + _JOINT_WIDTHS[kind]]
        rows.append(
            {
                "joint": joint.name or f"joint{index}",
                "kind": _JOINT_KINDS[kind],
                "body": model.body(model.jnt_bodyid[index]).name,
                "first pose": " ".join(f"{value:g}" for value in pose),
                "range": f"{low:g} .. {high:g}" if model.jnt_limited[index] else "free",
            }
        )
    return rows


def _actuators(model: Any) -> list[dict[str, Any]]:
    return [
        {
            "actuator": model.actuator(index).name or f"actuator{index}",
            "joint": _driven(model, index),
            "limits": f"{low:g} .. {high:g}" if model.actuator_ctrllimited[index] else "none",
            "gear": f"{model.actuator_gear[index, 0]:g}",
            "gain": f"{model.actuator_gainprm[index, 0]:g}",
        }
        for index, (low, high) in enumerate(model.actuator_ctrlrange)
    ]


def _driven(model: Any, index: int) -> str:
    """The joint that an actuator drives."""
    kind, joint = int(model.actuator_trntype[index]), int(model.actuator_trnid[index, 0])
    return str(model.joint(joint).name) if kind in (0, 1) else "no joint"  # mjTRN_JOINT, mjTRN_JOINTINPARENT


def actuator_faults(model: Any, env: EnvSpec) -> list[str]:
    """Actuators without effect, and actions whose limits are those of the actuators in another order or direction.

    Limits that are simply others may be a scaling of the environment's own.
    """
    faults = [
        f"actuator {index} ({model.actuator(index).name}) has gear or gain 0: it moves nothing"
        for index in range(model.nu)
        if not model.actuator_gear[index].any() or not model.actuator_gainprm[index].any()
    ]
    limits = np.array(model.actuator_ctrlrange, np.float32)
    if len(env.action.low) != model.nu or not model.actuator_ctrllimited.all():
        return faults
    given = np.column_stack((env.action.low, env.action.high))
    wrong = np.flatnonzero((given != limits).any(axis=1))
    same = np.array_equal(sorted(given.tolist()), sorted(limits.tolist()))
    if len(wrong) and same:
        faults.append(
            f"limits of the actions are those of the actuators in another order: action {wrong[0]} has "
            f"{given[wrong[0]].tolist()}, actuator {wrong[0]} {limits[wrong[0]].tolist()}"
        )
    return faults
