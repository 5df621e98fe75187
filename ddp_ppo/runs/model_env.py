"""The environment that a model acts in here and now: that of its training, or one with other settings.

The same for every command: a policy needs the spaces that it was trained with; a time limit or settings that differ are
accepted and said, as returns do not compare then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, replace
from typing import Any

from ddp_ppo.config.load import load_config
from ddp_ppo.config.sections import canonical
from ddp_ppo.config.setting import ConfigError
from ddp_ppo.config.yaml_text import to_yaml
from ddp_ppo.envs.build import describe_env
from ddp_ppo.protocols import EnvSpec
from ddp_ppo.runs.files import CheckpointError
from ddp_ppo.runs.model import Model

_ARGUMENTS = {  # setting -> argument of make_batch_env
    "env_id": "env_id",
    "env_kwargs": "env_kwargs",
    "env_backend": "backend",
    "max_episode_steps": "max_episode_steps",
    "remove_profiler_clock": "remove_profiler_clock",
}


def in_environment(model: Model, words: Sequence[str] = ()) -> Model:
    """The model with its environment as it is built now, and `changed` saying what differs from its training.

    Args:
        words: `key=value` settings of the environment, which replace those of the training.

    Raises:
        ConfigError: a word is wrong, or is not a setting of the environment.
        EnvError: the environment cannot be built.
        CheckpointError: its spaces are not those of the training.
    """
    given = _given(words)
    arguments = {**model.env_arguments, **given}
    env = describe_env(**arguments)
    _require_spaces(model, env, is_other_task="env_id" in given)
    changed = [
        f"{name}: {to_yaml(model.env_arguments.get(argument))} -> {to_yaml(given[argument])}"
        for name, argument in _ARGUMENTS.items()
        if argument in given and given[argument] != model.env_arguments.get(argument)
    ]
    return replace(model, env=env, env_arguments=arguments, changed=(*changed, *limit_change(model.env, env)))


def limit_change(before: EnvSpec, now: EnvSpec) -> list[str]:
    """One line where the time limits differ."""
    if before.max_episode_steps == now.max_episode_steps:
        return []
    return [f"time limit: {before.max_episode_steps or 'none'} -> {now.max_episode_steps or 'none'}"]


def _given(words: Sequence[str]) -> Mapping[str, Any]:
    """Argument -> value of what the words say."""
    config = load_config("base", words)
    names = [canonical(word.partition("=")[0]) for word in words]
    for name in names:
        if name not in _ARGUMENTS:
            raise ConfigError(
                f"command line: {name}: only the settings of the environment can be changed for a trained policy: "
                f"{', '.join(_ARGUMENTS)}"
            )
    return {_ARGUMENTS[name]: config.env_arguments[_ARGUMENTS[name]] for name in names}


def _require_spaces(model: Model, env: EnvSpec, *, is_other_task: bool) -> None:
    before, now = asdict(model.env), asdict(env)
    free = {"max_episode_steps", "backend", *(["env_id"] if is_other_task else [])}
    names = {field.name for field in fields(env) if field.compare} - free
    differing = [f"{name} {before[name]} -> {now[name]}" for name in names if before[name] != now[name]]
    if differing:
        raise CheckpointError(
            f"{model.path}: its environment has changed: {', '.join(sorted(differing))}; a policy acts only with the "
            "spaces that it was trained with"
        )
