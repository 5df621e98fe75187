#!/usr/bin/env python3
"""stable-baselines3's PPO on a run's task, budget, settings and seed, left as a run folder that `compare` reads.

    python bench/peers/sb3_run.py output/half_cheetah-a

`ddp-ppo compare ... --against sb3` runs this and reads the folders. A run that was trained before is not trained again.

Observations and rewards are normalised as in the run (VecNormalize), environments step in turn in one process
(DummyVecEnv), torch has one thread: what is quickest for small networks. Evaluations are the run's own, with the same
seeds, deterministic actions and frozen statistics; they do not count as training time.

Shapes: K environments, D observation size, A action size.
"""

from __future__ import annotations

import argparse
import csv
import importlib.util
import json
import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from ddp_ppo.config.load import load_config
from ddp_ppo.config.settings import Config, ConfigError
from ddp_ppo.envs.build import make_batch_env
from ddp_ppo.errors import EnvError, blamed
from ddp_ppo.processes.lifetime import die_with_parent
from ddp_ppo.protocols import BoolArray, FloatArray
from ddp_ppo.report.groups import SB3
from ddp_ppo.runs.metric_table import TABLE_FILE, save_table
from ddp_ppo.runs.reading import Given, Run, Settings, read_run, read_settings
from ddp_ppo.runs.versions import save_versions
from ddp_ppo.sampling.episodes import EVAL_BLOCK, Episode, blocks_of, evaluation_seeds, run_block

_PACKAGE = "stable-baselines3"
_CLIP = 10.0  # of normalised observations and rewards, as in our own runs
_EPISODES_OF_A_ROUND = 1_000_000  # more than any round ends, so that none is forgotten
_METRICS = {  # ours: theirs
    "train/policy_loss": "train/policy_gradient_loss",
    "train/value_loss": "train/value_loss",
    "train/approx_kl": "train/approx_kl",
    "train/clip_fraction": "train/clip_fraction",
    "train/explained_variance": "train/explained_variance",
    "train/learning_rate": "train/learning_rate",
}
_SAME_ONLY: Mapping[str, tuple[Any, ...]] = {  # what has a counterpart there
    "learner": ("ppo",),
    "env_ids": ((),),
    "discretize_actions": (None,),
    "learning_rate_schedule": ("constant", "linear"),
    "ppo.recompute_advantages": (False,),
}


def main(words: Sequence[str] | None = None) -> int:
    """Trains once for each run folder of the command line and returns the exit status."""
    parser = argparse.ArgumentParser(description="Train stable-baselines3's PPO as runs were trained.")
    parser.add_argument("folders", nargs="+", metavar="RUN", help="run folder")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the list of folders it leaves to this file")
    options = parser.parse_args(words)
    try:
        folders = [str(train_sb3(read_run(folder))) for folder in options.folders]
    except (ConfigError, EnvError) as error:
        print(f"ddp-ppo: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    if options.json:
        options.json.write_text(json.dumps(folders))
    return 0


def train_sb3(run: Run) -> Path:
    """Trains with the run's seed, or takes the folder of an earlier call with the same settings; returns the folder.

    Raises:
        ConfigError: the package is not installed, or a setting has no counterpart in it.
        EnvError: the task cannot be built by Gymnasium.
    """
    seed = run.setting("seed")
    settings = _settings(run)
    folder, is_done = _place(run.path.parent / f"{run.name}-{SB3}-seed{seed}", settings)
    if is_done:
        print(f"taken: {folder}, trained before with the same settings", flush=True)
        return folder
    config = load_config(run.path / "config.yaml")
    for key, allowed in _SAME_ONLY.items():
        if (value := config.values()[key]) not in allowed:
            raise ConfigError(f"--against sb3: {key}: {value} has no counterpart in {_PACKAGE}")
    _require_installed()
    print(f"training {_PACKAGE}, seed {seed}, {config.total_env_steps:,} environment steps ...", flush=True)
    rows = _train(config, num_learners=round(run.transitions_per_round / config.samples_per_round))
    _write(folder, run, settings, rows)
    print(f"trained in {rows[-1]['time/elapsed_seconds']:.1f} s, evaluations included: {folder}", flush=True)
    return folder


def _settings(run: Run) -> Settings:
    changed = {"learner": SB3, "run_name": f"{SB3}-seed{run.setting('seed')}", "metrics_path": None}
    changed |= {"resume": None, "init_from": None}
    return {**run.settings, **{key: Given(json.dumps(value), f"--against {SB3}") for key, value in changed.items()}}


def _place(path: Path, settings: Settings) -> tuple[Path, bool]:
    """A folder that holds such a run already, else one that is free."""
    wanted = {key: given.value for key, given in settings.items()}
    number = 1
    place = path
    while place.exists():
        file = place / "config.yaml"
        found = read_settings(file.read_text()) if file.exists() else {}
        if {key: given.value for key, given in found.items()} == wanted:
            return place, True
        number += 1
        place = path.with_name(f"{path.name}-{number}")
    return place, False


def _train(config: Config, *, num_learners: int) -> list[dict[str, float]]:
    """One row of metrics for each round. A call of `learn` is a round, with our schedule of the learning rate."""
    model, envs = _model(config, num_learners)
    per_round, num_rounds = config.transitions_per_round(num_learners), config.num_rounds(num_learners)
    evaluation_env = make_batch_env(num_envs=EVAL_BLOCK, **config.env_arguments)
    policy = _Acting(model, envs)
    rows: list[dict[str, float]] = []
    start = time.perf_counter()
    for round_index in range(1, num_rounds + 1):
        began = time.perf_counter()
        if config.learning_rate_schedule == "linear":
            model.lr_schedule = _constant(config.learning_rate * (1.0 - (round_index - 1) / num_rounds))
        model.learn(per_round, reset_num_timesteps=False)
        learned = time.perf_counter()
        is_due = config.eval_interval > 0 and round_index % config.eval_interval == 0
        seeds = evaluation_seeds(config.seed, config.eval_episodes) if is_due or round_index == num_rounds else []
        episodes = [
            episode for block in blocks_of(seeds) for episode in run_block(evaluation_env, lambda: policy, block)
        ]
        ended = time.perf_counter()
        rows.append(
            {
                "round": round_index,
                "env_steps": round_index * per_round,
                "buffer_size": per_round,
                **_round_metrics(model),
                **_evaluation_metrics(episodes),
                "time/steps_per_second": per_round / (learned - began),
                "time/elapsed_seconds": ended - start,
                "time/record_seconds": ended - learned,
                "time/round_seconds": ended - began,
            }
        )
    envs.close()
    evaluation_env.close()
    return rows


def _require_installed() -> None:
    if importlib.util.find_spec("stable_baselines3") is None:
        raise ConfigError(f"--against sb3: {_PACKAGE} is not installed; pip install -c constraints.txt -e '.[compare]'")


def _model(config: Config, num_learners: int) -> tuple[Any, Any]:
    """The learner and its normalised environments."""
    import torch
    from stable_baselines3 import PPO
    from stable_baselines3.common.logger import Logger
    from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

    torch.set_num_threads(1)
    envs = VecNormalize(
        DummyVecEnv([lambda: _make_env(config)] * (config.envs_per_learner * num_learners)),
        norm_obs=config.normalize_obs,
        norm_reward=config.normalize_reward,
        gamma=config.gamma,
        clip_obs=_CLIP,
        clip_reward=_CLIP if config.normalize_reward else math.inf,
    )
    activation = {"tanh": torch.nn.Tanh, "relu": torch.nn.ReLU, "elu": torch.nn.ELU}[config.activation]
    model = PPO(
        "MlpPolicy",
        envs,
        learning_rate=config.learning_rate,
        n_steps=config.rollout_length,
        batch_size=min(config.ppo.minibatch_size, config.samples_per_round) * num_learners,
        n_epochs=config.ppo.num_epochs,
        gamma=config.gamma,
        gae_lambda=config.gae_lambda,
        clip_range=config.ppo.clip_range,
        clip_range_vf=config.ppo.value_clip_range,
        normalize_advantage=config.ppo.normalize_advantages,
        ent_coef=config.ppo.entropy_coef,
        vf_coef=config.ppo.value_coef,
        max_grad_norm=math.inf if config.ppo.max_grad_norm is None else config.ppo.max_grad_norm,
        target_kl=config.ppo.target_kl,
        stats_window_size=_EPISODES_OF_A_ROUND,
        policy_kwargs={
            "net_arch": list(config.hidden_sizes),
            "activation_fn": activation,
            "log_std_init": config.init_log_std,
            "optimizer_kwargs": {"eps": config.ppo.adam_eps},
        },
        seed=config.seed,
        device="cpu",
    )
    model.set_logger(Logger(None, []))
    return model, envs


def _make_env(config: Config) -> Any:
    """One environment as Gymnasium makes it; its monitor notes raw returns."""
    import gymnasium
    from stable_baselines3.common.monitor import Monitor

    with blamed(f"--against sb3: {config.env_id} is not made by Gymnasium"):
        env = gymnasium.make(
            config.env_id, max_episode_steps=config.max_episode_steps, **config.env_arguments["env_kwargs"]
        )
    return Monitor(env)


class _Acting:
    """Their policy as `episodes` wants it: raw observations in, the likeliest actions out."""

    def __init__(self, model: Any, envs: Any) -> None:
        self._model, self._envs = model, envs
        self._shape = envs.observation_space.shape

    def choose(self, obs: FloatArray) -> NDArray[Any]:
        """Actions [K, A] or [K] for observations [K, D]."""
        seen = self._envs.normalize_obs(obs.reshape(-1, *self._shape))
        actions: NDArray[Any] = self._model.predict(seen, deterministic=True)[0]
        return actions.astype(np.float32) if actions.ndim > 1 else actions

    def after(self, ended: BoolArray) -> None:
        """Nothing is remembered of an episode."""


def _constant(value: float) -> Callable[[float], float]:
    return lambda progress: value


def _round_metrics(model: Any) -> dict[str, float]:
    logged = model.logger.name_to_value
    episodes = [(float(episode["r"]), float(episode["l"])) for episode in model.ep_info_buffer]
    model.ep_info_buffer.clear()
    returns, lengths = zip(*episodes, strict=True) if episodes else ((), ())
    return {
        **{ours: float(logged[theirs]) for ours, theirs in _METRICS.items()},
        "train/entropy": -float(logged["train/entropy_loss"]),
        "rollout/episodes": len(episodes),
        "rollout/episode_return_mean": _mean(returns),
        "rollout/episode_length_mean": _mean(lengths),
    }


def _evaluation_metrics(episodes: Sequence[Episode]) -> dict[str, float]:
    returns = [episode.episode_return for episode in episodes]
    return {
        "eval/return_mean": _mean(returns),
        "eval/return_std": float(np.std(returns)) if episodes else math.nan,
        "eval/length_mean": _mean([episode.length for episode in episodes]),
    }


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else math.nan


def _write(folder: Path, run: Run, settings: Settings, rows: Sequence[Mapping[str, float]]) -> None:
    """The run folder; its settings come last, because with them it counts as whole."""
    folder.mkdir(parents=True)
    with open(folder / "metrics.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(rows[0])
        writer.writerows(["" if math.isnan(value) else value for value in row.values()] for row in rows)
    save_table(folder / TABLE_FILE, run.table)
    save_versions(folder / "versions.json", _PACKAGE)
    (folder / "lock").write_text(f"\n{run.name}-{SB3}\n")
    lines = (f"{key}: {given.value}  # {given.origin}\n" for key, given in settings.items())
    (folder / "config.yaml").write_text("".join(lines))


if __name__ == "__main__":
    die_with_parent()
    sys.exit(main())
