"""Trained policies: model files, which are written to act from, and how every command reads a policy.

It comes from a run folder, a checkpoint or a model file, is checked and set up to act.

Shapes: P parameters, K environments, D observation size.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from ddp_ppo.envs.build import closed_in_the_end, describe_env, make_up_to
from ddp_ppo.envs.instance import Instances
from ddp_ppo.envs.multi_task import task_ids
from ddp_ppo.maths.moments import RmsState
from ddp_ppo.policies.network import NetworkSpec, from_named, to_named
from ddp_ppo.policies.registry import build_policy
from ddp_ppo.protocols import BatchEnv, EnvSpec, FloatArray, Policy
from ddp_ppo.runs.agreement import agreed_learner
from ddp_ppo.runs.checkpoint import find_checkpoint, is_checkpoint, network_of, with_tuples
from ddp_ppo.runs.files import FORMAT, CheckpointError, cause_of, load_plain, save_plain

_FILES = {"best": "model_best.pt", "current": "model.pt"}
_INFO = (
    "learner",
    "config",
    "seed",
    "round",
    "env_steps",
    "eval_return",
    "eval_episodes",
    "solved_return",
    "policy_backend",
)
_OF_ALL_TASKS = ("round", "eval_return", "solved_return")


@dataclass(frozen=True)
class Model:
    """A policy at one moment, and what is known of where it comes from.

    Attributes:
        path: the file that was read.
        name: what tables call it.
        env_arguments: keyword arguments of `envs.make_batch_env` but num_envs.
        parameters: [P], all finite.
        obs_rms_state: the frozen statistics of its observations; None where it acts on raw ones.
        info: learner, config (name), seed, round, env_steps, eval_return (of this very policy, so not of a checkpoint),
            eval_episodes, solved_return, policy_backend; what the file does not tell is missing.
        return_rms_state: [1], statistics of the returns that scaled its rewards; None where nothing did.
        changed: how its environment differs from that of its training, one line each: returns do not compare then.
    """

    path: Path
    name: str
    network: NetworkSpec
    env: EnvSpec
    env_arguments: dict[str, Any]
    parameters: FloatArray
    obs_rms_state: RmsState | None
    info: dict[str, Any]
    return_rms_state: RmsState | None = None
    changed: tuple[str, ...] = ()


def save_model(
    path: Path,
    network: NetworkSpec,
    env: EnvSpec,
    parameters: FloatArray,
    state: RmsState | None,
    about: dict[str, Any],
) -> None:
    """Writes a model file: actor and critic as state dicts of an nn.Sequential, log_std, normaliser, and a spec.

    Args:
        about: plain values that say where the model comes from; part of the spec.
    """
    named = {name: torch.from_numpy(array) for name, array in to_named(network, parameters).items()}
    content = {
        **{trunk: _without_prefix(named, f"{trunk}.") for trunk in ("actor", "critic")},
        "log_std": named.get("log_std"),
        "obs_rms_state": state,
        "spec": {"format": FORMAT, "network": asdict(network), "env": asdict(env), **about},
    }
    save_plain(path, content)


def _without_prefix(named: dict[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in named.items() if name.startswith(prefix)}


def load_model(path: str | Path, which: Literal["best", "current"] = "best") -> Model:
    """Reads a policy.

    Args:
        path: a run folder (its best or current model, or its newest checkpoint where it has no model yet), a folder
            of checkpoints (the newest), a checkpoint or a model file.
        which: the model of a run folder.

    Raises:
        CheckpointError: one line: no such file, not a model, damaged, of another format, or not finite.
    """
    place = Path(path)
    if not place.exists():
        raise CheckpointError(f"{place}: no such file or folder; name a run folder, a checkpoint or a model file")
    file = place / _FILES[which] if place.is_dir() else place
    model = _of_checkpoint(place) if is_checkpoint(file) or not file.exists() else _of_model_file(file)
    if not np.isfinite(model.parameters).all():
        raise CheckpointError(f"{model.path}: parameter {np.argmin(np.isfinite(model.parameters))} is not finite")
    return model


def with_tasks(model: Model) -> list[Model]:
    """The model, and behind it, where it was trained on several tasks at once, the same policy for each of them alone.

    What its run says of a round and its return belongs to all of them together, so these do not have it.
    """
    ids = task_ids(model.env_arguments["env_id"])
    return [model, *(_for_task(model, env_id) for env_id in ids if len(ids) > 1)]


def _for_task(model: Model, env_id: str) -> Model:
    arguments = model.env_arguments | {"env_id": env_id}
    info = {name: value for name, value in model.info.items() if name not in _OF_ALL_TASKS}
    env = describe_env(**arguments)
    return replace(model, name=f"{model.name} {env_id}", env=env, env_arguments=arguments, info=info)


def acting_policy(model: Model, num_envs: int, num_steps: int = 1) -> Policy:
    """What acted in the model's run, for K environments, its statistics frozen.

    Args:
        num_steps: what one `begin` draws noise for.
    """
    backend = model.info.get("policy_backend", "auto")
    policy = build_policy(backend, model.network, model.env, num_envs=num_envs, num_steps=num_steps)
    policy.load(model.parameters, model.obs_rms_state)
    return policy


@contextmanager
def make_envs(model: Model, num_envs: int) -> Iterator[BatchEnv]:
    """The environments that the model was trained in, on whatever backend runs them here; closed in the end.

    One alone if the environment refuses more (`make_up_to`). Constructors draw what they have drawn for the evaluations
    of the model's run.

    Raises:
        EnvError: they cannot be built.
        CheckpointError: they are not what they were.
    """
    instances = Instances(seed=int(model.info.get("seed", 0)))
    made = make_up_to(num_envs, instances=instances, **model.env_arguments)
    with closed_in_the_end(made, model.env.env_id) as env:
        if env.spec != replace(model.env, backend=env.spec.backend):
            raise CheckpointError(
                f"{model.path}: its environment has changed: it was {model.env}, now it is {env.spec}"
            )
        yield env


def run_folder_of(path: Path) -> Path:
    """The folder that a model or a checkpoint belongs to: the run's, where it still lies in one."""
    folder = path.absolute().parent
    return folder.parent if folder.name == "checkpoints" else folder


def _of_model_file(path: Path) -> Model:
    content = load_plain(path, "model file")
    try:
        spec = _spec_of(content)
        network, env = network_of(spec), EnvSpec(**spec["env"])
        named = {f"{t}.{name}": array for t in ("actor", "critic") for name, array in content[t].items()}
        if content["log_std"] is not None:
            named["log_std"] = content["log_std"]
        parameters, state = from_named(network, named), content["obs_rms_state"]
    except Exception as error:  # whatever another program has put there
        raise CheckpointError(f"{path}: not a readable model file ({cause_of(error)})") from error
    returns = spec.get("return_rms_state")  # plain numbers
    return Model(
        path=path,
        name=_name_of(path),
        network=network,
        env=env,
        env_arguments=_env_arguments(path, spec),
        parameters=parameters,
        obs_rms_state=state,
        info=_info(spec),
        return_rms_state=returns
        and RmsState(mean=np.array([returns["mean"]]), var=np.array([returns["var"]]), count=returns["count"]),
    )


def _spec_of(content: Any) -> dict[str, Any]:
    spec = content.get("spec") if isinstance(content, dict) else None
    if not isinstance(spec, dict):
        raise ValueError("not a model of ddp_ppo: it holds no spec")
    if spec["format"] != FORMAT:
        raise ValueError(f"format {spec['format']}, this program reads format {FORMAT}")
    return spec


def _of_checkpoint(place: Path) -> Model:
    try:
        path, content, _ = find_checkpoint(place)
    except CheckpointError as error:
        if place.is_file():
            raise
        raise CheckpointError(f"{place}: neither a model nor a checkpoint that can be read is in it") from error
    states = [content[name] for name in ("obs_rms_state", "return_rms_state")]
    obs_state, return_state = (state if state["count"] else None for state in states)
    info = _info(content)
    info.pop("eval_return", None)  # of the last evaluation, which may have been some rounds before
    return Model(
        path=path,
        name=_name_of(path),
        network=network_of(content),
        env=EnvSpec(**with_tuples(content["env"])),
        env_arguments=_env_arguments(path, content),
        parameters=agreed_learner(content)["parameters"],
        obs_rms_state=obs_state,
        info=info,
        return_rms_state=return_state,
    )


def _env_arguments(path: Path, about: dict[str, Any]) -> dict[str, Any]:
    if "env_arguments" not in about:
        raise CheckpointError(f"{path}: it does not say how its environment is built")
    return dict(about["env_arguments"])


def _info(about: dict[str, Any]) -> dict[str, Any]:
    return {name: about[name] for name in _INFO if name in about}


def _name_of(path: Path) -> str:
    """The file's name without its ending, behind the run folder's where it lies in one."""
    run = run_folder_of(path)
    return f"{run.name}/{path.stem}" if (run / "config.yaml").exists() else path.stem
