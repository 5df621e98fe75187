"""Every setting does what it is there for: two runs that differ in it alone differ in what it steers (O-67)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import torch

from ddp_ppo.config.disco import DiscoSettings
from ddp_ppo.config.sections import canonical
from ddp_ppo.config.setting import settings_of
from ddp_ppo.config.settings import describe_settings
from tests.long.report import SKIPPED, Row, newest_run, start, verdict
from tests.support.process import read_csv
from tests.support.results import load

# A Box action that is the reward, episodes of 5 steps; 4 rounds of 64 samples, so that no update is too short to show.
CONFIG = """
env_id: tests.support.fixtures:Echo-v0
env_kwargs: {length: 5}
num_actors: 2
envs_per_actor: 2
rollout_length: 16
total_env_steps: 256
minibatch_size: 16
num_epochs: 3
learning_rate: 3e-3
hidden_sizes: [8]
eval_interval: 0
eval_episodes: 2
checkpoint_interval: 2
run_name: a
"""
# Settings that steer what is learnt: the parameters at the end must differ.
LEARNING = {
    "env_id": "tests.support.fixtures:Dice-v0",
    "env_kwargs": "{length: 7}",
    "max_episode_steps": "3",
    "seed": "2",
    "total_env_steps": "320",
    "num_actors": "4",
    "num_envs": "6",
    "envs_per_actor": "3",
    "rollout_length": "8",
    "gamma": "0.9",
    "gae_lambda": "0.5",
    "clip_range": "0.01",
    "value_clip_range": "0.01",
    "entropy_coef": "0.1",
    "value_coef": "0.1",
    "max_grad_norm": "0.01",
    "num_epochs": "2",
    "minibatch_size": "32",
    "learning_rate": "1e-3",
    "learning_rate_schedule": "constant",
    "adam_eps": "1e-2",
    "target_kl": "1e-6",
    "recompute_advantages": "true",
    "normalize_advantages": "false",
    "normalize_obs": "false",
    "normalize_reward": "false",
    "hidden_sizes": "[16]",
    "activation": "relu",
    "init_log_std": "-1",
    "overlap": "true",
}


def _checkpoints(run: Path) -> int:
    return len(list((run / "checkpoints").iterdir()))


def _evaluations(run: Path) -> list[str]:
    return [row["eval/return_mean"] for row in read_csv(run / "metrics.csv")]


# Settings that steer something else: value, other words of both runs, and what must differ.
OTHER: dict[str, tuple[str, tuple[str, ...], Callable[[Path], object]]] = {
    "checkpoint_interval": ("1", (), _checkpoints),
    "keep_checkpoints": ("1", (), _checkpoints),
    "eval_interval": ("1", (), _evaluations),
    "eval_episodes": ("7", ("env_id=CartPole-v1", "env_kwargs={}"), _evaluations),
    "metrics_path": ("m.csv", (), lambda run: (run / "metrics.csv").exists()),
    "output_dir": ("elsewhere", (), lambda run: run.parent.name),
    "run_name": ("b", (), lambda run: run.name),
}
# Settings whose effect another test shows.
ELSEWHERE = {
    "env_ids": "envs/test_multi_task",
    "env_backend": "envs/mujoco/test_tasks",
    "remove_profiler_clock": "envs/mujoco/test_profiler_clock",
    "device": "distributed/test_topology",
    "learner": "learners/test_registry",
    "num_gpus": "distributed/test_topology",
    "actors_per_gpu": "config/test_rules",
    "param_sync_interval": "training/test_trainer",
    "sync_mode": "training/test_trainer",
    "policy_backend": "sampling/test_actor_pool",
    "update_backend": "learners/ppo/test_learner",
    "solved_return": "report/test_report",
    "resume": "training/test_trainer",
    "init_from": "training/test_trainer",
    "init_statistics": "learners/test_starting_point",
    "actor_timeout_seconds": "training/test_trainer",
    "max_actor_restarts": "sampling/test_actor_pool",
    "max_env_instances": "training/test_plan",
    "collective_timeout_seconds": "distributed/test_group",
    "learner_threads": "learners/ppo/updates/test_critic_worker",
    **{name: "learners/test_registry" for name in settings_of(DiscoSettings, "disco")},
    "conv_channels": "learners/test_registry",
    "image_layout": "policies/test_convolution",
    "discretize_actions": "learners/test_registry",
}


def unlisted() -> list[str]:
    """Settings without a row, and rows without a setting."""
    return sorted(
        {setting.name for setting in describe_settings()} ^ {canonical(key) for key in (*LEARNING, *OTHER, *ELSEWHERE)}
    )


def run(folder: Path, part: str = "") -> Iterator[Row]:
    """One row for each setting."""
    config = folder / "config.yaml"
    config.write_text(CONFIG)
    whole = parameters(trained(folder / "whole", config))
    again = parameters(trained(folder / "again", config))
    yield Row(verdict(torch.equal(whole, again)), "nothing changed", "the same parameters to the last bit")
    for key, value in LEARNING.items():
        if part in key:
            found = parameters(trained(folder / key, config, f"{key}={value}"))
            is_different = found.shape != whole.shape or not torch.equal(found, whole)
            yield Row(
                verdict(is_different), key, f"{value}: the parameters {'differ' if is_different else 'are equal'}"
            )
    for key, (value, words, seen) in OTHER.items():
        if part in key:
            first, second = (
                seen(trained(folder / f"{key}-{len(more)}", config, *words, *more))
                for more in ((), (f"{key}={value}",))
            )
            yield Row(verdict(first != second), key, f"{first} -> {second}")
    for key, test in ELSEWHERE.items():
        if part in key:
            yield Row(SKIPPED, key, f"shown by {test}")


def trained(folder: Path, config: Path, *words: str) -> Path:
    """The run folder of a training that succeeded."""
    with start(folder, config, *words) as program:
        ended = program.end(120)
    if ended.code:
        raise AssertionError(f"{words}: {ended.err}")
    run_folder = newest_run(folder)
    return run_folder if run_folder is not None else next((folder / "elsewhere").glob("*-*"))


def parameters(run_folder: Path) -> torch.Tensor:
    """At the end of a run."""
    return load(max((run_folder / "checkpoints").iterdir()))["ranks"][0]["learner"]["parameters"]
