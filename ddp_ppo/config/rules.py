"""What settings must not be together: types for rows of rules, the rows of the general settings, and their evaluation.

The rows of a learner's settings stand next to these: `ppo.py`, `disco.py`. Conditions and messages take a Config in
which settings that are not valid by themselves have their defaults; rows that involve such a one are passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, NamedTuple

from ddp_ppo.config.yaml_text import to_yaml

_MOST_TASKS = 5  # so that each of them has its turn in every block of an evaluation


class Rule(NamedTuple):
    """Valid settings that cannot be used together.

    Attributes:
        names: the settings involved; the first one that was given says where.
        is_broken: whether a Config breaks it.
        message: what to tell, from a Config; begins with the setting to change.
    """

    names: tuple[str, ...]
    is_broken: Callable[[Any], object]
    message: Callable[[Any], str]


class NoEffect(NamedTuple):
    """A setting that does nothing where another one has certain values.

    Attributes:
        name, other: the settings.
        is_useless: whether it does nothing with this value of the other one.
        reason: why, behind "as".
        is_replaced: the other one takes its place: on the command line it may do so whatever a file says.
    """

    name: str
    other: str
    is_useless: Callable[[Any], object]
    reason: str
    is_replaced: bool = False


NO_EFFECTS = (
    NoEffect("image_layout", "conv_channels", lambda channels: not channels, "images are flattened without it"),
    NoEffect(
        "param_sync_interval",
        "sync_mode",
        lambda mode: mode == "gradients",
        "learners are equal after every mini-batch",
    ),
    NoEffect("activation", "hidden_sizes", lambda sizes: not sizes, "there is no hidden layer"),
    NoEffect("init_statistics", "init_from", lambda path: path is None, "nothing is loaded"),
    NoEffect("max_env_instances", "env_ids", lambda ids: ids, "an evaluation needs every task in its place"),
    NoEffect("env_id", "env_ids", lambda ids: ids, "those take its place", is_replaced=True),
)


# Two settings for the same thing: the one that is given nearer to the command line counts, whatever a file says.
ALTERNATIVES = (("num_envs", "envs_per_actor"),)

_AUTO_ACTORS = 2  # `num_actors: auto` counts as so many where environments are given for each actor
_AUTO_ENVS = 8  # of each actor where nobody says how many


def envs_of_actors(c: Any) -> int:
    """Environments of a learner by its actors and those of each."""
    return int((c.actors_per_learner or _AUTO_ACTORS) * (c.envs_per_actor or _AUTO_ENVS))


def _nearest_totals(c: Any) -> str:
    below = c.num_actors // c.num_gpus * c.num_gpus
    return f"{below} or {below + c.num_gpus}" if below else f"{c.num_gpus}"


RULES = (
    Rule(
        ("num_actors", "num_gpus", "actors_per_gpu"),
        lambda c: c.actors_per_gpu and c.num_actors not in ("auto", c.num_gpus * c.actors_per_gpu),
        lambda c: (
            f"num_actors: {c.num_actors}, the total of the run, is not num_gpus * actors_per_gpu = "
            f"{c.num_gpus} * {c.actors_per_gpu}; set it to {c.num_gpus * c.actors_per_gpu}"
        ),
    ),
    Rule(
        ("num_actors", "num_gpus"),
        lambda c: not c.actors_per_gpu and c.num_actors != "auto" and c.num_actors % c.num_gpus,
        lambda c: (
            f"num_actors: {c.num_actors} cannot be shared equally by num_gpus: {c.num_gpus}; "
            f"nearest: {_nearest_totals(c)}"
        ),
    ),
    Rule(
        ("num_envs", "envs_per_actor", "num_actors", "num_gpus"),
        lambda c: c.num_envs and c.envs_per_actor and c.num_envs != envs_of_actors(c),
        lambda c: (
            f"num_envs: {c.num_envs} is not envs_per_actor: {c.envs_per_actor} times the actors of a learner "
            f"({c.actors_per_learner or f'{_AUTO_ACTORS} with auto'}); remove one of the two settings"
        ),
    ),
    Rule(
        ("num_actors", "num_envs", "actors_per_gpu", "num_gpus"),
        lambda c: (c.actors_per_learner or 0) > c.envs_per_learner,
        lambda c: (
            f"num_actors: {c.actors_per_learner} actors of a learner cannot share num_envs: {c.num_envs}; "
            f"lower num_actors or raise num_envs"
        ),
    ),
    Rule(
        ("rollout_length", "num_envs", "num_actors", "envs_per_actor", "num_gpus"),
        lambda c: c.samples_per_round == 1,
        lambda c: "rollout_length: a round would have one sample; raise rollout_length or num_envs",
    ),
    Rule(
        ("policy_backend", "conv_channels"),
        lambda c: c.conv_channels and c.policy_backend == "numpy",
        lambda c: "policy_backend: numpy has no convolutions (conv_channels); use auto or torch",
    ),
    Rule(
        ("conv_channels", "hidden_sizes"),
        lambda c: c.conv_channels and not c.hidden_sizes,
        lambda c: "hidden_sizes: conv_channels needs at least one layer behind it",
    ),
    Rule(
        ("init_from", "resume"),
        lambda c: c.init_from and c.resume not in (None, "auto"),
        lambda c: f"init_from: starts a fresh run, so it cannot be used together with resume: {c.resume}",
    ),
    Rule(
        ("env_id",),
        lambda c: "," in c.env_id,
        lambda c: f"env_id: {c.env_id}: several tasks are a list: env_ids: [{c.env_id}]",
    ),
    Rule(
        ("env_ids",),
        lambda c: len(c.env_ids) != len({*c.env_ids}) or len(c.env_ids) > _MOST_TASKS,
        lambda c: f"env_ids: [{', '.join(c.env_ids)}]: allowed: up to {_MOST_TASKS} different ids",
    ),
    Rule(
        ("env_ids", "num_envs", "envs_per_actor", "num_actors", "num_gpus"),
        lambda c: len(c.env_ids) > max(c.envs_per_learner, 1),
        lambda c: (
            f"env_ids: {len(c.env_ids)} tasks need as many environments of each learner, it has {c.envs_per_learner}"
        ),
    ),
)


def broken_rules(config: Any, rules: Iterable[Rule], invalid: Collection[str]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yields (settings involved, message) of each rule that a Config breaks and that involves no invalid setting."""
    for rule in rules:
        if not {*rule.names} & {*invalid} and rule.is_broken(config):
            yield rule.names, rule.message(config)


def useless(config: Any, rows: Iterable[NoEffect], invalid: Collection[str]) -> Iterator[tuple[NoEffect, str]]:
    """Yields (row, what to tell behind the setting's name) where the other setting has such a value."""
    values = config.values()
    for row in rows:
        if row.other not in invalid and row.is_useless(values[row.other]):
            yield row, f"has no effect with {row.other}: {to_yaml(values[row.other])}, as {row.reason}; remove it"
