#!/usr/bin/env python3
"""Searches settings with Optuna: `tune.py CONFIG.yaml [KEY=VALUE ...] [--trials 20] [--seeds 2] [--out output/tune]`.

An example to copy: `suggest` lists the values to try. A trial trains the configuration once per seed. Its score is the
mean of the last evaluations; it is stopped if it falls below the median of the others at the same point. The study is a
file in `--out`: run the script several times for parallel trials, or again to continue. Needs `pip install optuna`.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
from collections.abc import Mapping
from functools import partial
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy: each process computes on one core

import optuna

import ddp_ppo


def suggest(trial: optuna.trial.BaseTrial) -> list[str]:
    """The settings of a trial, as KEY=VALUE arguments."""
    values = {
        "learning_rate": trial.suggest_float("learning_rate", 1e-4, 3e-3, log=True),
        "gamma": 1 - trial.suggest_float("1 - gamma", 1e-3, 1e-1, log=True),
        "gae_lambda": trial.suggest_categorical("gae_lambda", [0.8, 0.9, 0.95, 0.98]),
        "num_epochs": trial.suggest_categorical("num_epochs", [5, 10, 20]),
        "minibatch_size": trial.suggest_categorical("minibatch_size", [64, 128, 256]),
        "entropy_coef": trial.suggest_categorical("entropy_coef", [0.0, 0.001, 0.01]),
    }
    return [f"{key}={value}" for key, value in values.items()]


def is_worth_it(row: Mapping[str, float], trial: optuna.Trial, first_step: int) -> bool:
    """Reports an evaluation to Optuna; False ends the run of a trial with poor evaluations."""
    if math.isnan(row["eval/return_mean"]):  # there was none in this round
        return True
    trial.report(row["eval/return_mean"], first_step + int(row["env_steps"]))
    return not trial.should_prune()


def objective(trial: optuna.Trial, options: argparse.Namespace) -> float:
    """Mean return of the last evaluations, with one training per seed; Ctrl-C ends the study."""
    returns = []
    for seed in range(1, options.seeds + 1):
        config = _config(trial, options, seed)
        folder = Path(config.output_dir) / f"{config.name}-{config.run_name}"
        if folder.exists():
            raise FileExistsError(f"{folder} belongs to another study; choose another --out")
        on_round = partial(is_worth_it, trial=trial, first_step=(seed - 1) * config.total_env_steps)
        result = ddp_ppo.train(config, on_round=on_round)
        if trial.should_prune():
            raise optuna.TrialPruned
        returns.append(result.eval_return)
    return statistics.mean(returns)


def _config(trial: optuna.Trial, options: argparse.Namespace, seed: int) -> ddp_ppo.Config:
    fixed = [f"output_dir={options.out}", f"run_name=trial-{trial.number}-seed-{seed}", f"seed={seed}"]
    return ddp_ppo.load_config(options.config, [*suggest(trial), *options.overrides, *fixed])


def main() -> None:
    """Runs the trials and prints the best settings so far."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config")
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="settings that override those of a trial")
    parser.add_argument("--trials", type=int, default=20, metavar="N", help="trials of this process (default 20)")
    parser.add_argument("--seeds", type=int, default=2, metavar="N", help="trainings per trial (default 2)")
    parser.add_argument("--out", type=Path, default=Path("output/tune"), metavar="DIR", help="default: output/tune")
    options = parser.parse_intermixed_args()
    options.out.mkdir(parents=True, exist_ok=True)
    study = optuna.create_study(
        study_name=Path(options.config).stem,
        storage=f"sqlite:///{options.out}/study.db",
        load_if_exists=True,
        direction="maximize",
        pruner=optuna.pruners.MedianPruner(n_startup_trials=5),
    )
    study.optimize(lambda trial: objective(trial, options), n_trials=options.trials)
    finished = [trial for trial in study.trials if trial.value is not None]
    print(f"{len(study.trials)} trials, {len(finished)} finished: the best is {study.best_trial.number}", end=", ")
    settings = " ".join([*suggest(optuna.trial.FixedTrial(study.best_params)), *options.overrides])
    print(f"return {study.best_value:.1f}\ntrain it       ddp-ppo train {options.config} {settings}")


if __name__ == "__main__":
    main()
