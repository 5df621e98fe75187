"""Settings: declared and documented once, read strictly from YAML, validated together, all mistakes reported at once.

YAML is read as a tree of nodes, so that every message can name file and line, and a scalar is resolved by its setting's
type (yaml_text.py). Writes nothing but the file of `save_effective`.
Symbols: T rollout_length, B environments of one learner, N = T*B samples of one learner and round.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, NamedTuple, get_args, get_type_hints

import yaml

from ddp_ppo.config.yaml_text import STR_TAG, RefusedError, compose, entries_of, plain_data, resolve, shown, to_yaml

_MOST_TASKS = 5  # so that each of them has its turn in every block of an evaluation
_LARGEST = 10**18  # of any number: fits 64 bits, and comparing with it refuses inf and nan
_CLASS = r"[A-Za-z_][\w.]*:[A-Za-z_]\w*"
_BACKEND = rf"auto|gymnasium|mujoco|{_CLASS}"
_PYTHON_TYPES: dict[str, Any] = {"float": (int, float), "dict": Mapping, "list": (list, tuple)}
_PYTHON_TYPES |= {"str": str, "int": int, "bool": bool}
_SHORT_TYPES = {"Mapping[str, Any]": "dict", "tuple[int, ...]": "list"}


class ConfigError(ValueError):
    """Settings that cannot be used; each line of the message says where, which key, what was given, what is allowed."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What one setting means and allows; `type` is a short name such as "int", "list" or "float | None"."""

    name: str
    type: str
    default: Any
    doc: str
    choices: tuple[str, ...] = ()
    low: float = -_LARGEST
    above: float = -math.inf  # must be larger than this
    high: float = _LARGEST
    pattern: str = r".*\S.*"
    expected: str = "text"

    @property
    def kind(self) -> str:
        """The type without `| None`."""
        return self.type.removesuffix(" | None")

    @property
    def allowed(self) -> str:
        """What the setting accepts, in words."""
        names = {"int": "a whole number", "float": "a number", "bool": "true or false", "dict": "a mapping of names"}
        names |= {"str": self.expected, "list": "a list of whole numbers >= 1"}
        text = "one of " + ", ".join(self.choices) if self.choices else names[self.kind]
        bounds = ((">", self.above), (">=", self.low), ("<=", self.high))
        limits = (f" {sign} {bound}" for sign, bound in bounds if abs(bound) < _LARGEST)
        return text + " and".join(limits) + (" or null" if self.type != self.kind else "")

    def check(self, value: Any) -> Any:
        """Returns the value in its canonical Python type; raises `RefusedError` where it is not allowed."""
        if value is None and self.type != self.kind:
            return None
        if isinstance(value, bool) != (self.kind == "bool") or not isinstance(value, _PYTHON_TYPES[self.kind]):
            is_whole = self.kind == "int" and isinstance(value, float) and value.is_integer()
            raise RefusedError(f"write {value:.0f}" if is_whole else "")
        if self.kind == "str":
            is_known = value in self.choices if self.choices else re.fullmatch(self.pattern, value)
            if not is_known or not value.isprintable():
                raise RefusedError(_nearest(value, self.choices))
        elif self.kind in ("int", "float"):
            if not (self.above < value and self.low <= value <= self.high):
                raise RefusedError
        elif self.kind == "list":
            if not all(type(item) is int and 1 <= item <= _LARGEST for item in value):
                raise RefusedError
        elif self.kind == "dict":
            for name in (name for name in value if not str(name).isidentifier()):
                raise RefusedError(f"{name!r} is no name of an argument; does a colon lack the space behind it?")
        convert: dict[str, Callable[[Any], Any]] = {"float": float, "list": tuple, "dict": plain_data}
        return convert[self.kind](value) if self.kind in convert else value


def _setting(default: Any, **metadata: Any) -> Any:
    """A dataclass field that carries the documentation and limits of its `Setting`."""
    if isinstance(default, dict):
        return field(default_factory=dict, metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, kw_only=True)
class Config:
    """All settings of one run, checked on construction (`ConfigError`)."""

    # fmt: off
    env_id: str = _setting("HalfCheetah-v5", doc=
        "Task: a Gymnasium id, or `module:Class` of your own environment. Up to five with commas between them, of "
        "equal spaces, are trained at once by one agent.")
    env_kwargs: Mapping[str, Any] = _setting({}, doc=
        "Arguments for the environment's constructor. Replaces an inherited mapping as a whole.")
    env_backend: str = _setting("auto", pattern=_BACKEND, expected="auto, gymnasium, mujoco or module:Class", doc=
        "What steps the environments; auto: the array-wise MuJoCo tasks, else Gymnasium. `module:Class` is your own.")
    max_episode_steps: int | None = _setting(None, low=1, doc=
        "Steps after which an episode is truncated, in place of the environment's own limit; null keeps that.")
    discretize_actions: int | None = _setting(None, low=2, high=64, doc=
        "Makes a Box action a choice from a grid with so many values of each dimension, 64 choices at most; null keeps "
        "it.")
    remove_profiler_clock: bool = _setting(True, doc=
        "Removes MuJoCo's Python profiler clock, which makes mj_step 14-16 % slower. false keeps MuJoCo's timers.")
    seed: int = _setting(1, low=0, doc=
        "Root of every random stream of the run: the same seed on the same machine gives the same run.")
    device: Literal["auto", "cpu", "cuda", "mps"] = _setting("auto", doc=
        "Where learners compute; auto prefers cuda, mps, cpu in this order. cpu under torchrun: num_gpus CPU learners.")
    total_env_steps: int = _setting(1_000_000, low=1, doc=
        "Environment steps of the whole run, all learners together; rounded up to whole rounds, at least one. A "
        "resumed run counts those that it has made, whatever the size of its rounds was.")
    learner: Literal["ppo", "disco"] = _setting("ppo", doc=
        "Learning algorithm: proximal policy optimisation, or the discovered rule Disco103 for discrete actions.")
    num_gpus: int = _setting(1, low=1, doc=
        "Learners of the whole run, all nodes together. More than one needs torchrun.")
    num_actors: int = _setting(2, low=1, doc=
        "Actor processes of the whole run; about one for each CPU core. Must be a multiple of num_gpus.")
    actors_per_gpu: int | None = _setting(None, low=1, doc=
        "Actors of each learner; null derives it. If set, num_actors must be num_gpus * actors_per_gpu.")
    envs_per_actor: int = _setting(8, low=1, doc=
        "Environments that one actor steps together. More: faster (one forward pass for all), but larger rounds.")
    rollout_length: int = _setting(128, low=1, doc=
        "T, steps of each environment in a round. Short: frequent updates, more bootstrapping. Long: the reverse.")
    param_sync_interval: int = _setting(1, low=1, doc=
        "Rounds between two averagings of the learners' parameters. Large: less communication, learners drift apart.")
    sync_mode: Literal["parameters", "gradients"] = _setting("parameters", doc=
        "What learners average: parameters every param_sync_interval rounds, or gradients every mini-batch (slower).")
    gamma: float = _setting(0.99, low=0, high=1, doc=
        "Discount of a step. Near 1 looks further ahead and is noisier; 0 sees the next reward only.")
    gae_lambda: float = _setting(0.95, low=0, high=1, doc=
        "Lambda of generalised advantage estimation: 0 trusts the critic (biased), 1 the sampled return (noisy).")
    clip_range: float = _setting(0.2, above=0, high=1, doc=
        "How far the probability ratio may leave 1 before PPO's clip stops its gradient. Small: careful, slow.")
    value_clip_range: float | None = _setting(None, above=0, doc=
        "How far the value loss lets a value leave the rollout's, in units of the scaled return; null does not clip.")
    entropy_coef: float = _setting(0.0, low=0, doc=
        "Weight of the entropy bonus. Raise it where exploration stops early; large values keep the policy random.")
    value_coef: float = _setting(0.5, low=0, doc=
        "Weight of the value loss. Without gradient clipping Adam all but cancels it.")
    max_grad_norm: float | None = _setting(0.5, above=0, doc=
        "Largest norm of a mini-batch's gradient; null does not clip. Small values act like a lower learning rate.")
    num_epochs: int = _setting(10, low=1, doc=
        "Passes over a round's samples. More use each sample better, until the policy moves too far (target_kl).")
    minibatch_size: int = _setting(64, low=1, doc=
        "Samples of a learner's gradient step; an epoch's last one may be smaller. Above the round's size: one batch.")
    learning_rate: float = _setting(3e-4, above=0, doc=
        "Adam's step size, the first one where a schedule changes it.")
    learning_rate_schedule: Literal["constant", "linear", "adaptive"] = _setting("linear", doc=
        "linear falls to 0 over total_env_steps; adaptive follows the KL divergence and keeps it near target_kl.")
    adam_eps: float = _setting(1e-5, above=0, doc=
        "Adam's epsilon. Larger damps the step where gradients are tiny.")
    target_kl: float | None = _setting(None, above=0, doc=
        "KL from the rollout's policy at which epochs stop, and the adaptive schedule's target; null never stops.")
    recompute_advantages: bool = _setting(False, doc=
        "Computes values and advantages anew before each later epoch: better targets for one more critic pass.")
    normalize_advantages: bool = _setting(True, doc=
        "Standardises advantages over the whole round of a learner.")
    normalize_obs: bool = _setting(True, doc=
        "Standardises observations with running statistics.")
    normalize_reward: bool = _setting(True, doc=
        "Divides rewards by the running standard deviation of the discounted return. Metrics always show raw returns.")
    hidden_sizes: tuple[int, ...] = _setting((64, 64), doc=
        "Widths of the hidden layers of actor and critic; [] is a linear policy.")
    conv_channels: tuple[int, ...] = _setting((), doc=
        "Channels of convolutions (3x3, stride 2, padding 1) in front of the hidden layers, for observations that are "
        "images; [] flattens them.")
    activation: Literal["tanh", "relu", "elu"] = _setting("tanh", doc=
        "Nonlinearity behind each hidden layer.")
    init_log_std: float = _setting(0.0, low=-5, high=2, doc=
        "First log standard deviation of a Box action, held within [-5, 2] ever after. -1 to -2 explores less.")
    policy_backend: str = _setting("auto", pattern=rf"auto|numpy|torch|{_CLASS}",
        expected="auto, numpy, torch or module:Class", doc=
        "What computes actions in the actors; auto takes NumPy where it covers the policy. `module:Class` is a custom "
        "policy, which may remember things from step to step.")
    update_backend: Literal["auto", "numpy", "torch"] = _setting("auto", doc=
        "What computes gradient steps; auto takes NumPy on the CPU where it covers the policy, CUDA graphs on a GPU. "
        "torch is the reference, operator by operator.")
    disco_weights: str | None = _setting(None, expected="a path", doc=
        "DiscoRL's published weights disco_103.npz; null looks at DDP_PPO_DISCO_WEIGHTS, then in the user's cache.")
    disco_batch_size: int = _setting(64, low=1, doc=
        "Trajectories of one update, rollout_length steps each. Small: quicker, noisier.")
    disco_replay_capacity: int = _setting(1024, low=0, doc=
        "Trajectories that each learner keeps to train on; training starts with a batch. 0 trains on each round once.")
    disco_updates_per_round: int = _setting(1, low=1, doc=
        "Updates after each round. More use each step better, for more time.")
    disco_retrace_lambda: float = _setting(0.95, low=0, high=1, doc=
        "How far DiscoRL's value targets follow the sampled returns: 0 trusts the values, 1 the returns.")
    output_dir: str = _setting("output", expected="a path", doc=
        "Folder of the model files and of the run folders.")
    run_name: str | None = _setting(None, pattern=r"(?![.\s])[^/\\]*[^/\\\s]", expected="a plain folder name", doc=
        "Folder name of the run; null makes one of the configuration's name and the time.")
    metrics_path: str | None = _setting(None, expected="a path", doc=
        "CSV file of the metrics; null is metrics.csv in the run folder. A fresh start overwrites it.")
    checkpoint_interval: int = _setting(50, low=1, doc=
        "Rounds between two training checkpoints; one more is written at the end.")
    keep_checkpoints: int = _setting(3, low=1, doc=
        "Latest training checkpoints that stay on disk.")
    eval_interval: int = _setting(50, low=0, doc=
        "Rounds between two evaluations, which choose the best model; 0 evaluates at the end only.")
    eval_episodes: int = _setting(10, low=1, high=100_000, doc=
        "Episodes of one evaluation, always from the same seeds, with deterministic actions.")
    solved_return: float | None = _setting(None, doc=
        "Mean evaluation return from which the task counts as solved; null where it has no such standard.")
    resume: str | None = _setting(None, expected="auto or a path", doc=
        "Goes on with a run: its folder, one of its checkpoints, or auto for the latest run if there is one.")
    init_from: str | None = _setting(None, expected="a path", doc=
        "Run folder (its best model), checkpoint or model file that a fresh run starts from: every layer that fits.")
    init_statistics: Literal["keep", "restart"] = _setting("keep", doc=
        "Observation and return statistics of init_from. restart: where the task's observations or rewards changed.")
    actor_timeout_seconds: float = _setting(300.0, above=0, high=604_800, doc=
        "Longest that an actor may take for one step of its environments, or to start, before it counts as hung.")
    max_actor_restarts: int = _setting(3, low=0, doc=
        "Times that each learner starts a dead or hung actor anew before the run fails.")
    collective_timeout_seconds: float = _setting(300.0, above=0, high=604_800, doc=
        "Longest wait of a learner for the others. Must exceed the slowest round's difference.")
    learner_threads: int | None = _setting(None, low=1, doc=
        "CPU cores of each learner's update, idle actors that help it included; null: its share of the machine's.")
    overlap: bool = _setting(False, doc=
        "Sample the next rollout while the learner trains on this one, with a policy that is one round older.")
    # fmt: on
    name: str = field(default="config", compare=False)  # stem of the file it was read from
    origins: Mapping[str, str] = field(default_factory=dict, compare=False)  # default, file:line, command line, code

    def __post_init__(self) -> None:
        errors, values, origins = [], {}, {}
        for key, setting in _SETTINGS.items():
            given = getattr(self, key)
            try:
                values[key] = setting.check(given)
            except RefusedError as refused:
                errors.append(f"code: {_complaint(setting, repr(given), refused)}")
                continue
            object.__setattr__(self, key, values[key])
            origins[key] = "default" if values[key] == setting.default else "code"
        errors += [f"code: {message}" for _, message in _conflicts(values)]
        if errors:
            raise ConfigError("\n".join(errors))
        object.__setattr__(self, "origins", {**origins, **self.origins})

    @property
    def env_arguments(self) -> dict[str, Any]:
        """Keyword arguments of `make_batch_env` and `describe_env`."""
        return {
            "env_id": self.env_id,
            "env_kwargs": dict(self.env_kwargs),
            "backend": self.env_backend,
            "max_episode_steps": self.max_episode_steps,
            "discretize_actions": self.discretize_actions,
            "remove_profiler_clock": self.remove_profiler_clock,
        }

    @property
    def actors_per_learner(self) -> int:
        """Actors of each learner."""
        return self.num_actors // self.num_gpus

    @property
    def envs_per_learner(self) -> int:
        """B, environments of one learner."""
        return self.actors_per_learner * self.envs_per_actor

    @property
    def samples_per_round(self) -> int:
        """N = T*B, samples of one learner and round."""
        return self.rollout_length * self.envs_per_learner

    @property
    def minibatches_per_epoch(self) -> int:
        """Gradient steps of one epoch; every sample is in exactly one of them."""
        return -(-self.samples_per_round // self.minibatch_size)

    @property
    def last_minibatch_size(self) -> int:
        """Samples in the last mini-batch of an epoch, the only one that may be smaller."""
        return self.samples_per_round - (self.minibatches_per_epoch - 1) * self.minibatch_size

    def transitions_per_round(self, num_learners: int) -> int:
        """Environment steps of one round, all learners together."""
        return self.samples_per_round * num_learners

    def num_rounds(self, num_learners: int, *, done: int = 0, env_steps: int = 0) -> int:
        """Rounds of the run: those done, in which so many steps were made, and whole ones until `total_env_steps`."""
        left = max(0, self.total_env_steps - env_steps)
        return done - (-left // self.transitions_per_round(num_learners))


def env_ids(env_id: str) -> list[str]:
    """The ids that the setting env_id names, with commas between them."""
    return [one.strip() for one in env_id.split(",")]


def describe_settings() -> tuple[Setting, ...]:
    """All settings in their declared order."""
    hints = get_type_hints(Config)
    settings = []
    for item in (item for item in dataclasses.fields(Config) if item.metadata):
        choices = get_args(hints[item.name]) if str(item.type).startswith("Literal") else ()
        kind = "str" if choices else _SHORT_TYPES.get(str(item.type), str(item.type))
        default = {} if item.default is dataclasses.MISSING else item.default
        settings.append(Setting(name=item.name, type=kind, default=default, choices=choices, **item.metadata))
    return tuple(settings)


def settings_reference() -> str:
    """All settings as a Markdown document."""
    lines = [
        "# Settings",
        "",
        "Every setting of a configuration file, which is also a `KEY=VALUE` word on the command line. This page is",
        "what `ddp-ppo settings` prints. `inherits: other.yaml`, relative to the file, takes everything from another",
        "file first.",
        "",
        "| setting | type | default | allowed | meaning |",
        "|---|---|---|---|---|",
    ]
    for setting in describe_settings():
        default = to_yaml(setting.default)
        cells = [f"`{setting.name}`", setting.type, f"`{default}`", setting.allowed, setting.doc]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


_SETTINGS = {setting.name: setting for setting in describe_settings()}


def warnings(config: Config) -> list[str]:
    """Remarks about settings that work but may not be meant."""
    if any(key == "minibatch_size" and getattr(config, other) == value for key, other, value, _ in _NO_EFFECT):
        return []
    samples, size = config.samples_per_round, config.minibatch_size
    start = f"minibatch_size: {size} "
    if size > samples:
        return [start + f"is more than the {samples} samples of a round: each epoch is one batch of {samples}"]
    if samples % size:
        return [start + f"does not divide the {samples} samples of a round: the last has {config.last_minibatch_size}"]
    return []


_PPO_ONLY = (
    *("param_sync_interval", "sync_mode", "gae_lambda", "clip_range", "value_clip_range", "entropy_coef"),
    *("value_coef", "max_grad_norm", "num_epochs", "minibatch_size", "adam_eps", "target_kl"),
    *("recompute_advantages", "normalize_advantages", "activation", "init_log_std", "update_backend"),
)
# Rows (key, other, value, reason): the key has no effect where the other setting has this value.
_NO_EFFECT: tuple[tuple[str, str, Any, str], ...] = (
    ("param_sync_interval", "sync_mode", "gradients", "learners are equal after every mini-batch"),
    ("recompute_advantages", "num_epochs", 1, "there is no second epoch"),
    ("activation", "hidden_sizes", (), "there is no hidden layer"),
    ("init_statistics", "init_from", None, "nothing is loaded"),
    *((key, "learner", "disco", "it belongs to PPO") for key in _PPO_ONLY),
    *((key, "learner", "ppo", "it belongs to DiscoRL") for key in _SETTINGS if key.startswith("disco_")),
)


def _useless(values: Mapping[str, Any]) -> Iterator[tuple[tuple[str, str], str]]:
    for key, other, value, reason in _NO_EFFECT:
        if values[other] == value and values[key] != _SETTINGS[key].default:
            yield (key, other), f"{key}: has no effect with {other}: {to_yaml(value)}, as {reason}; remove it"


def _conflicts(valid: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yields (settings involved, message) of each rule that valid settings break together."""
    values = {key: valid.get(key, setting.default) for key, setting in _SETTINGS.items()}
    for keys, message in (*_broken_rules(SimpleNamespace(**values)), *_useless(values)):
        if set(keys) <= set(valid):
            yield keys, message


def _broken_rules(c: Any) -> Iterator[tuple[tuple[str, ...], str]]:
    total = c.num_gpus * (c.actors_per_gpu or 0)
    if c.actors_per_gpu and c.num_actors != total:
        yield (
            ("num_actors", "num_gpus", "actors_per_gpu"),
            f"num_actors: {c.num_actors}, the total of the run, is not num_gpus * actors_per_gpu = "
            f"{c.num_gpus} * {c.actors_per_gpu}; set it to {total}",
        )
    elif c.num_actors % c.num_gpus:
        below = c.num_actors // c.num_gpus * c.num_gpus
        nearest = f"{below} or {below + c.num_gpus}" if below else f"{c.num_gpus}"
        message = f"num_actors: {c.num_actors} cannot be shared equally by num_gpus: {c.num_gpus}; nearest: {nearest}"
        yield ("num_actors", "num_gpus"), message
    if c.rollout_length * c.envs_per_actor == 1 and c.num_actors == c.num_gpus:
        message = "rollout_length: a round would have one sample; raise rollout_length, num_actors or envs_per_actor"
        yield ("rollout_length", "num_actors", "envs_per_actor", "num_gpus"), message
    if c.learning_rate_schedule == "adaptive" and c.target_kl is None:
        message = "target_kl: learning_rate_schedule: adaptive needs a number here, such as 0.01"
        yield ("learning_rate_schedule", "target_kl"), message
    for key in ("policy_backend", "update_backend"):
        if c.conv_channels and getattr(c, key) == "numpy":
            yield (key, "conv_channels"), f"{key}: numpy has no convolutions (conv_channels); use auto or torch"
    if c.learner == "disco" and c.learning_rate_schedule == "adaptive":
        message = "learning_rate_schedule: adaptive follows PPO's KL divergence; with learner: disco constant or linear"
        yield ("learner", "learning_rate_schedule"), message
    if c.learner == "disco" and not c.hidden_sizes:
        yield ("learner", "hidden_sizes"), "hidden_sizes: learner: disco needs at least one layer, such as [512, 512]"
    if c.conv_channels and not c.hidden_sizes:
        yield ("conv_channels", "hidden_sizes"), "hidden_sizes: conv_channels needs at least one layer behind it"
    if 0 < c.disco_replay_capacity < c.disco_batch_size:
        message = f"disco_replay_capacity: {c.disco_replay_capacity} never holds disco_batch_size: {c.disco_batch_size}"
        yield ("disco_replay_capacity", "disco_batch_size"), message
    samples = c.rollout_length * c.envs_per_actor * (c.num_actors // c.num_gpus)
    if c.learning_rate_schedule == "adaptive" and c.num_epochs == 1 and c.minibatch_size >= samples:
        message = (
            "learning_rate_schedule: adaptive steers by the KL of one gradient step after another; a round has one"
        )
        yield ("learning_rate_schedule", "num_epochs", "minibatch_size"), message
    ids = env_ids(c.env_id)
    num_envs = c.envs_per_actor * (c.num_actors // c.num_gpus)
    if not all(ids) or len({*ids}) < len(ids) or len(ids) > _MOST_TASKS:
        yield ("env_id",), f"env_id: {c.env_id}: commas stand between two to {_MOST_TASKS} different ids"
    elif len(ids) > max(num_envs, 1):
        message = f"env_id: {len(ids)} tasks need as many environments of each learner, it has {num_envs}"
        yield ("env_id", "envs_per_actor", "num_actors", "num_gpus"), message
    if c.init_from and c.resume not in (None, "auto"):
        message = f"init_from: starts a fresh run, so it cannot be used together with resume: {c.resume}"
        yield ("init_from", "resume"), message
    if "max_episode_steps" in c.env_kwargs:
        yield ("env_kwargs",), "env_kwargs: max_episode_steps is a setting of its own, not an argument here"


class _Found(NamedTuple):
    """The value a file or the command line gives one setting; `is_valid` says whether there is one."""

    value: Any
    origin: str
    is_valid: bool
    is_inherited: bool


def load_config(path: str | Path, overrides: Sequence[str] = ()) -> Config:
    """Reads a YAML file, what it inherits, and `key=value` words, of which the last one for a key wins.

    Text settings take a word's value as it stands (but null is None where that is allowed), others read it as YAML.

    Raises:
        ConfigError: with one line for every mistake found.
    """
    found: dict[str, _Found] = {}
    errors: list[str] = []
    _read_file(os.fspath(path), (), found, errors)
    for word in overrides:
        _read_override(word, found, errors)
    values = {key: setting.default for key, setting in _SETTINGS.items()}
    values |= {key: item.value for key, item in found.items() if item.is_valid}
    for (key, _), _ in _useless(values):
        if key in found and found[key].is_inherited:  # nobody chose it here: run, and record, what is in force
            del found[key]
            values[key] = _SETTINGS[key].default
    origins = {key: found[key].origin if key in found else "default" for key in _SETTINGS}
    broken = {key for key, item in found.items() if not item.is_valid}
    for keys, message in _conflicts({key: value for key, value in values.items() if key not in broken}):
        place = next((origins[key] for key in keys if origins[key] != "default"), "default")
        errors.append(f"{place}: {message}")
    if errors:
        raise ConfigError("\n".join(errors))
    return Config(**values, name=Path(path).stem, origins=origins)


def _read_file(path: str, chain: tuple[str, ...], found: dict[str, _Found], errors: list[str]) -> None:
    """Reads a file into `found`, the one it inherits first; `chain` holds the files that inherit this one."""
    try:
        root = compose(Path(path).read_bytes().decode("utf-8-sig"), path)
        if isinstance(root, yaml.ScalarNode) and not root.value:
            return  # nothing but `---`
        if not isinstance(root, yaml.MappingNode):
            raise RefusedError(f"{path}:{root.start_mark.line + 1}: expected lines of the form `key: value`")
        merged: set[int] = set()
        entries = entries_of(root, merged, lambda line, message: errors.append(f"{path}:{line}: {message}"))
        line, parent = entries.pop("inherits", (0, None))
        if parent is not None:
            _read_parent(parent, f"{path}:{line}", (*chain, path), found, errors)
        for key, (line, node) in entries.items():
            if key in _SETTINGS:
                found[key] = _read_setting(_SETTINGS[key], node, f"{path}:{line}", errors, is_inherited=bool(chain))
            elif id(node) not in merged:  # an unknown key may hold what `<<` merges
                errors.append(f"{path}:{line}: {_unknown(key)}")
    except OSError as error:
        errors.append(f"{path}: cannot be read: {error.strerror}")
    except UnicodeDecodeError as error:
        errors.append(f"{path}: not UTF-8 text (byte {error.start})")
    except RecursionError:
        errors.append(f"{path}: nested too deeply, or an anchor that contains itself")
    except RefusedError as error:
        errors.append(str(error))


def _read_parent(
    node: yaml.Node, place: str, chain: tuple[str, ...], found: dict[str, _Found], errors: list[str]
) -> None:
    """Reads the file that `inherits` names in the last file of `chain`."""
    if not isinstance(node, yaml.ScalarNode) or not node.value.strip() or not node.value.isprintable():
        errors.append(f"{place}: inherits: got {shown(node)}; allowed: the path of one file, relative to this one")
        return
    parent = os.path.normpath(Path(chain[-1]).parent / node.value)
    if os.path.realpath(parent) in map(os.path.realpath, chain):
        errors.append(f"{place}: inherits: a circle: {' -> '.join((*chain, parent))}")
    elif not os.path.isfile(parent):
        errors.append(f"{place}: inherits: no such file: {parent}")
    else:
        _read_file(parent, chain, found, errors)


def _read_override(word: str, found: dict[str, _Found], errors: list[str]) -> None:
    """Reads one `key=value` word of the command line."""
    key, equals, text = word.partition("=")
    if not equals or key not in _SETTINGS:
        errors.append(f"command line: {_unknown(key) if equals else f'{word}: expected key=value'}")
        return
    setting = _SETTINGS[key]
    node: yaml.Node = yaml.ScalarNode(STR_TAG, text, style='"')
    if setting.kind != "str" or (text == "null" and setting.type != setting.kind):
        try:
            node = compose(text or "null", "command line")
        except RefusedError as error:
            errors.append(f"{error} in {word}")
            return
    found[key] = _read_setting(setting, node, "command line", errors, is_inherited=False)


def _read_setting(setting: Setting, node: yaml.Node, place: str, errors: list[str], *, is_inherited: bool) -> _Found:
    try:
        value = setting.check(resolve(node, setting.kind))
    except RefusedError as refused:
        errors.append(f"{place}: {_complaint(setting, shown(node), refused)}")
        return _Found(None, place, False, is_inherited)
    return _Found(value, place, True, is_inherited)


def _complaint(setting: Setting, given: str, refused: RefusedError) -> str:
    hint = f" ({refused})" if str(refused) else ""
    return f"{setting.name}: got {given}; allowed: {setting.allowed}{hint}"


def _nearest(word: str, words: Sequence[str]) -> str:
    return "".join(f"did you mean {match}?" for match in difflib.get_close_matches(word, words, n=1))


def _unknown(key: str) -> str:
    hint = _nearest(key, [*_SETTINGS, "inherits"])
    return f"{key}: unknown setting" + (f"; {hint}" if hint else "")


def dump_effective(config: Config) -> str:
    """YAML text of all settings, their origins as comments, which `load_config` reads back to an equal Config."""
    return "".join(f"{key}: {to_yaml(getattr(config, key))}  # {config.origins[key]}\n" for key in _SETTINGS)


def save_effective(config: Config, path: str | Path) -> None:
    """Writes `dump_effective` to a file."""
    Path(path).write_text(dump_effective(config), encoding="utf-8")
