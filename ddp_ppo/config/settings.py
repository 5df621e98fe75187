"""The configuration of a run: the general settings, and a section of settings for each learner.

Values are checked once: one by one where they are read (code here, files and words in load.py), then all of them
together (settle.py), and every mistake is reported at once.
Symbols: T rollout_length, B environments of one learner, N = T*B samples of one learner and round.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from ddp_ppo.config.disco import DiscoSettings
from ddp_ppo.config.frozen import FrozenDict
from ddp_ppo.config.given import read_given, signature_of
from ddp_ppo.config.ppo import PPOSettings
from ddp_ppo.config.reading import Reading
from ddp_ppo.config.rules import envs_of_actors
from ddp_ppo.config.sections import EXPECTED, OWN, PATTERN, canonical
from ddp_ppo.config.setting import ConfigError, Setting, setting, settings_of
from ddp_ppo.config.settle import settled
from ddp_ppo.config.yaml_text import plain_data

__all__ = ["GENERAL", "Config", "ConfigError", "describe_settings"]

_CLASS = r"[A-Za-z_][\w.]*:[A-Za-z_]\w*"
_BACKEND = rf"auto|gymnasium|mujoco|{_CLASS}"


@dataclass(frozen=True, kw_only=True)
class Config:
    """All settings of one run, checked on construction (`ConfigError`).

    A program may also construct it with, and read, the names from before there were sections: clip_range for
    ppo.clip_range, disco_batch_size for disco.batch_size. Type checkers do not know them.
    """

    # fmt: off
    env_id: str = setting("HalfCheetah-v5", doc=
        "Task: a Gymnasium id, or `module:Class`, a vectorised class that you have written.")
    env_ids: tuple[str, ...] = setting((), words="ids", doc=
        "Up to five tasks with equal spaces, which one agent is trained on at the same time; replaces env_id. []: only "
        "env_id.")
    env_kwargs: Mapping[str, Any] = setting({}, doc=
        "Arguments for the environment's constructor. Replaces an inherited mapping completely.")
    env_backend: str = setting("auto", pattern=_BACKEND, expected="auto, gymnasium, mujoco or module:Class", doc=
        "What steps the environments; auto: the array-wise MuJoCo tasks (MuJoCo 3.17 and newer), "
        "else Gymnasium. `module:Class` is your own.")
    max_episode_steps: int | None = setting(None, low=1, doc=
        "Steps after which an episode is truncated; replaces the environment's own limit, which null keeps.")
    discretize_actions: int | None = setting(None, low=2, high=64, doc=
        "Makes a Box action a choice from a grid with so many values of each dimension, 64 choices at most; null "
        "leaves Box actions as they are.")
    remove_profiler_clock: bool = setting(True, doc=
        "Removes MuJoCo's Python profiler clock, which makes mj_step 14-16 % slower. false keeps MuJoCo's timers.")
    seed: int = setting(1, low=0, doc=
        "Root of every random stream of the run: the same seed on the same machine gives the same run.")
    device: Literal["auto", "cpu", "cuda", "mps"] = setting("auto", doc=
        "Where learners compute; auto prefers cuda, mps, cpu in this order. cpu under torchrun: num_gpus CPU learners.")
    total_env_steps: int = setting(1_000_000, low=1, doc=
        "Environment steps of the complete run, all learners together; rounded up to complete rounds, at least one. A "
        "resumed run counts the steps that it has already made.")
    learner: str = setting("ppo", pattern=PATTERN, expected=EXPECTED, doc=
        "Learning algorithm: proximal policy optimisation, the discovered rule Disco103 for discrete actions, or the "
        "LearnerKind that a module of yours holds.")
    num_gpus: int = setting(1, low=1, doc=
        "Learners of the complete run, on all nodes together. More than one needs torchrun.")
    num_actors: int | Literal["auto"] = setting("auto", low=1, doc=
        "Actor processes of the complete run, a multiple of num_gpus; auto: as few for each learner as keep its cores "
        "busy. Results do not depend on it.")
    actors_per_gpu: int | None = setting(None, low=1, doc=
        "Actors of each learner; null: num_actors / num_gpus. If set, num_actors must be num_gpus * actors_per_gpu.")
    num_envs: int | None = setting(None, low=1, doc=
        "B, environments of each learner, which its actors share; null: its actors (auto: 2) times envs_per_actor. "
        "More: faster, but larger rounds.")
    envs_per_actor: int | None = setting(None, low=1, doc=
        "Environments of each actor, in place of num_envs; null: 8 if that is null too.")
    max_env_instances: int | None = setting(None, low=1, doc=
        "Instances of the environment that a run may have open at once (one robot: 1). Evaluations build what training "
        "leaves, and run in training's own where that is none. null: as many as `plan` shows; if the environment "
        "refuses one for evaluations, they run in training's own too.")
    rollout_length: int = setting(128, low=1, doc=
        "T, steps of each environment in a round. Short: frequent updates, more bootstrapping. Long: the reverse.")
    param_sync_interval: int = setting(1, low=1, doc=
        "Rounds between two averagings of the learners' parameters. Large: less communication, learners drift apart.")
    sync_mode: Literal["parameters", "gradients"] = setting("parameters", doc=
        "What learners average: parameters every param_sync_interval rounds, or gradients every mini-batch (slower).")
    gamma: float = setting(0.99, low=0, high=1, doc=
        "Discount of a step. Near 1 looks further ahead and is noisier; 0 sees the next reward only.")
    gae_lambda: float = setting(0.95, low=0, high=1, doc=
        "Lambda of generalised advantage estimation: 0 trusts the critic (biased), 1 the sampled return (noisy).")
    learning_rate: float = setting(3e-4, above=0, doc=
        "Adam's step size; with a schedule, its first value. In a resumed run a new value replaces the present one.")
    learning_rate_schedule: Literal["constant", "linear", "adaptive"] = setting("linear", doc=
        "linear falls to 0 over total_env_steps. adaptive divides the rate by 1.5 after a round whose KL is above 2 x "
        "target_kl and multiplies it by 1.5 if the KL is below half of that; between 1e-6 and 1e-2.")
    normalize_obs: bool = setting(True, doc=
        "Standardises observations with running statistics.")
    normalize_reward: bool = setting(True, doc=
        "Divides rewards by the running standard deviation of the discounted return and clips them to [-10, 10]. "
        "Metrics always show raw returns.")
    hidden_sizes: tuple[int, ...] = setting((64, 64), doc=
        "Widths of the hidden layers of actor and critic; [] is a linear policy.")
    conv_channels: tuple[int, ...] = setting((), doc=
        "Channels of convolutions (3x3, stride 2, padding 1) before the hidden layers, for observations that are "
        "images; [] flattens them.")
    image_layout: Literal["auto", "channels_last", "channels_first"] = setting("auto", doc=
        "Which side of an image holds the channels. auto reads the shape: equal neighbouring sides are a square "
        "picture, a side of at most 4 opposite a longer one is channels; other shapes need the setting.")
    activation: Literal["tanh", "relu", "elu"] = setting("tanh", doc=
        "Nonlinearity after each hidden layer.")
    init_log_std: float = setting(0.0, low=-5, high=2, doc=
        "Initial log standard deviation of a Box action, which is always kept within [-5, 2]. -1 to -2 explores less. "
        "With init_from a value that you set replaces the model's.")
    policy_backend: str = setting("auto", pattern=rf"auto|numpy|torch|{_CLASS}",
        expected="auto, numpy, torch or module:Class", doc=
        "What computes actions in the actors; auto takes NumPy where it covers the policy. `module:Class` is a custom "
        "policy, which may remember things from step to step.")
    output_dir: str = setting("output", is_path=True, expected="a path", doc=
        "Folder of the model files and of the run folders.")
    run_name: str | None = setting(None, pattern=r"(?![.\s])[^/\\]*[^/\\\s]", expected="a plain folder name", doc=
        "Folder name of the run; null builds one from the configuration's name and the time.")
    metrics_path: str | None = setting(None, is_path=True, expected="a path", doc=
        "CSV file of the metrics; null is metrics.csv in the run folder. A fresh start overwrites it.")
    checkpoint_interval: int = setting(50, low=1, doc=
        "Rounds between two training checkpoints; one more is written at the end.")
    keep_checkpoints: int = setting(3, low=1, doc=
        "Latest training checkpoints that stay on disk.")
    eval_interval: int = setting(50, low=0, doc=
        "Rounds between two evaluations, which choose the best model; 0 evaluates at the end only.")
    eval_episodes: int = setting(10, low=1, high=100_000, doc=
        "Episodes of one evaluation, always from the same seeds, with deterministic actions. An episode without an end "
        "or a time limit is cut after 10,000 steps.")
    solved_return: float | None = setting(None, doc=
        "Mean evaluation return from which the task counts as solved; null where it has no such standard.")
    resume: str | None = setting(None, is_path=True, expected="auto or a path", doc=
        "Continues a run: its folder, one of its checkpoints, or auto for the latest run if there is one. A setting "
        "that is not given again keeps the run's value.")
    init_from: str | None = setting(None, is_path=True, expected="a path", doc=
        "Run folder (its best model), checkpoint or model file that a fresh run starts from: every layer that fits.")
    init_statistics: Literal["keep", "restart"] = setting("keep", doc=
        "Observation and return statistics of init_from. restart: where the task's observations or rewards changed.")
    actor_timeout_seconds: float = setting(300.0, above=0, high=604_800, doc=
        "Longest that an actor may take for one step of its environments, or to start, before it counts as hung.")
    max_actor_restarts: int = setting(3, low=0, doc=
        "Times that each learner starts a dead or hung actor again before the run fails.")
    collective_timeout_seconds: float = setting(300.0, above=0, high=604_800, doc=
        "Longest wait of a learner for the others. Must exceed the largest difference between their round times.")
    learner_threads: int | None = setting(None, low=1, doc=
        "CPU cores of each learner's update, including idle actors that help it; null: its share of the machine's.")
    overlap: bool = setting(False, doc=
        "Sample the next rollout while the learner trains on this one, with a policy that is one round older.")
    # fmt: on
    ppo: PPOSettings = field(default_factory=PPOSettings)
    disco: DiscoSettings = field(default_factory=DiscoSettings)
    external: Mapping[str, Any] = field(default_factory=FrozenDict)  # of a learner from outside: section -> settings
    name: str = field(default="config", compare=False)  # stem of the file it was read from
    words: tuple[str, ...] = field(default=(), compare=False)  # as a command takes them; empty if a program made it
    origins: Mapping[str, str] = field(default_factory=FrozenDict, compare=False)  # default, file:line, code, ...

    if not TYPE_CHECKING:

        def __init__(
            self,
            *,
            name: str = "config",
            words: tuple[str, ...] = (),
            origins: Mapping[str, str] = FrozenDict(),
            **given: Any,
        ) -> None:
            """Takes fields, sections as objects or as mappings, and names without their section."""
            reading = read_given(GENERAL, given, origins, taken=TAKEN)
            vars(self).update(vars(settled(reading, type(self), name, words)))

        def __getattr__(self, name: str) -> Any:
            section, _, key = canonical(name).rpartition(".")
            if section:
                return getattr(getattr(self, section), key)
            if name in vars(self).get("external", ()):
                return self.external[name]
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def sections(self) -> dict[str, Any]:
        """The settings of every learner by the names of their sections."""
        return {**{name: getattr(self, name) for name in OWN}, **self.external}

    @property
    def section(self) -> Any:
        """The settings of the learner that trains: `ppo`, `disco`, or those of one from outside the package."""
        return self.sections[self.learner] if self.learner in OWN else next(iter(self.external.values()))

    def is_named(self, name: str) -> bool:
        """Whether a person has given this setting: as a word, in code or in their file, not in one that it inherits."""
        origin = self.origins[name]
        return origin != "default" and not getattr(origin, "is_inherited", False)

    def values(self) -> dict[str, Any]:
        """The value of every setting by its name, such as gamma or ppo.clip_range."""
        return {name: getattr(self, name) for name in GENERAL} | {
            f"{section}.{name}": value for section, one in self.sections.items() for name, value in vars(one).items()
        }

    @property
    def tasks(self) -> tuple[str, ...]:
        """The ids of what the agent is trained on: those of env_ids, else env_id."""
        return self.env_ids or (self.env_id,)

    @property
    def env_arguments(self) -> dict[str, Any]:
        """Keyword arguments of `make_batch_env` and `describe_env`: plain data, a copy."""
        return {
            "env_id": list(self.env_ids) or self.env_id,
            "env_kwargs": plain_data(self.env_kwargs),
            "backend": self.env_backend,
            "max_episode_steps": self.max_episode_steps,
            "discretize_actions": self.discretize_actions,
            "remove_profiler_clock": self.remove_profiler_clock,
        }

    @property
    def actors_per_learner(self) -> int | None:
        """Actors of each learner; None if its cores decide."""
        return self.actors_per_gpu if self.num_actors == "auto" else self.num_actors // self.num_gpus

    @property
    def envs_per_learner(self) -> int:
        """B, environments of one learner."""
        return self.num_envs or envs_of_actors(self)

    @property
    def samples_per_round(self) -> int:
        """N = T*B, samples of one learner and round."""
        return self.rollout_length * self.envs_per_learner

    def transitions_per_round(self, num_learners: int) -> int:
        """Environment steps of one round, all learners together."""
        return self.samples_per_round * num_learners

    def num_rounds(self, num_learners: int, *, done: int = 0, env_steps: int = 0) -> int:
        """Rounds of the run: those done, in which so many steps were made, and full ones until `total_env_steps`."""
        left = max(0, self.total_env_steps - env_steps)
        return done - (-left // self.transitions_per_round(num_learners))


GENERAL = settings_of(Config)
_FIELDS = {item.name: item for item in dataclasses.fields(Config)}
TAKEN = frozenset({*_FIELDS, *dir(Config), "inherits"})  # names that no section of a learner from outside may have

if not TYPE_CHECKING:
    Config.__signature__ = signature_of(  # for help(): the settings, as __init__ itself takes any name
        (one for name, one in _FIELDS.items() if name != "origins"), returns=Config
    )


def describe_settings() -> tuple[Setting, ...]:
    """All settings of the package in their declared order: the general ones, then each learner's."""
    return tuple(Reading(GENERAL, OWN, {}).settings.values())
