"""Sample Factory: synchronous PPO with two rollout workers; HalfCheetah-v4, as it needs a Gymnasium without v5.

Observations and returns are normalised by the library. A mini-batch holds whole segments of trajectories there, so a
segment is at most one mini-batch long and advantages reach no further. Rounds are timed where the runner hears of them.
"""

import gymnasium
from sample_factory.algo.runners.runner import AlgoObserver
from sample_factory.cfg.arguments import parse_full_cfg, parse_sf_args
from sample_factory.envs.env_utils import register_env
from sample_factory.train import make_runner
from workload import Stopwatch, Work, parse

NUM_WORKERS = 2


def make_env(full_env_name, cfg=None, env_config=None, render_mode=None):
    return gymnasium.make("HalfCheetah-v4")


class Rounds(AlgoObserver):
    """A round ends with a training iteration."""

    def __init__(self, stopwatch: Stopwatch) -> None:
        self.stopwatch = stopwatch

    def on_training_step(self, runner, training_iteration_since_resume: int) -> None:
        """Called after each update."""
        self.stopwatch.round_ended()


def settings(work: Work) -> dict:
    """What differs from the library's defaults."""
    return {
        "env": "half_cheetah",
        "experiment": "bench",
        "train_dir": "train_dir",
        "device": "cpu",
        "seed": work.seed,
        "async_rl": False,
        "serial_mode": False,
        "num_workers": NUM_WORKERS,
        "num_envs_per_worker": work.num_envs // NUM_WORKERS,
        "worker_num_splits": 1,
        "batched_sampling": False,
        "train_for_env_steps": work.steps,
        "rollout": min(work.rollout_length, work.minibatch_size),
        "recurrence": 1,
        "use_rnn": False,
        "batch_size": work.minibatch_size,
        "num_batches_per_epoch": work.num_minibatches,
        "num_epochs": work.num_epochs,
        "shuffle_minibatches": True,
        "encoder_mlp_layers": list(work.hidden_sizes),
        "nonlinearity": "tanh",
        "actor_critic_share_weights": False,
        "adaptive_stddev": False,
        "policy_initialization": "orthogonal",
        "env_frameskip": 1,
        "reward_scale": 1.0,
        "normalize_input": True,
        "normalize_returns": True,
        "with_vtrace": False,
        "value_bootstrap": True,
        "gamma": work.gamma,
        "gae_lambda": work.gae_lambda,
        "ppo_clip_ratio": work.clip_range,
        "value_loss_coeff": work.value_coef,
        "exploration_loss_coeff": 0.0,
        "kl_loss_coeff": 0.0,
        "max_grad_norm": work.max_grad_norm,
        "learning_rate": work.learning_rate,
        "lr_schedule": "constant",
        "adam_eps": work.adam_eps,
        "stats_avg": 1_000_000,
        "restart_behavior": "overwrite",
    }


def main() -> None:
    """Trains and reports; guarded, as the workers import this file again."""
    work = parse(num_envs=2)
    stopwatch = Stopwatch(work)
    register_env("half_cheetah", make_env)
    words = ["--env=half_cheetah"]
    parser, _ = parse_sf_args(words)
    cfg = parse_full_cfg(parser, words)
    for key, value in settings(work).items():
        getattr(cfg, key)  # refuses a name that the library does not know
        setattr(cfg, key, value)
    cfg, runner = make_runner(cfg)
    runner.register_observer(Rounds(stopwatch))
    if runner.init() != 0 or runner.run() != 0:
        raise SystemExit("Sample Factory failed")
    stopwatch.returns += [float(value) for value in runner.policy_avg_stats.get("reward", [[]])[0]]
    stopwatch.report("sample-factory", "gymnasium", "mujoco")


if __name__ == "__main__":
    main()
