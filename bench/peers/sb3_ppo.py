"""stable-baselines3: PPO on DummyVecEnv with VecNormalize."""

import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize
from workload import Stopwatch, make_env, parse


class Rounds(BaseCallback):
    """A round ends where the next rollout starts, the last one with the training."""

    def __init__(self, stopwatch: Stopwatch) -> None:
        super().__init__()
        self.stopwatch = stopwatch

    def _on_step(self) -> bool:
        return True

    def _on_rollout_start(self) -> None:
        if self.num_timesteps:
            self.stopwatch.round_ended()

    def _on_training_end(self) -> None:
        self.stopwatch.round_ended()


work = parse(num_envs=1)
torch.set_num_threads(work.threads)
stopwatch = Stopwatch(work)
envs = VecNormalize(
    DummyVecEnv([lambda: make_env(stopwatch)] * work.num_envs), clip_obs=work.clip, clip_reward=work.clip
)
model = PPO(
    "MlpPolicy",
    envs,
    learning_rate=work.learning_rate,
    n_steps=work.rollout_length,
    batch_size=work.minibatch_size,
    n_epochs=work.num_epochs,
    gamma=work.gamma,
    gae_lambda=work.gae_lambda,
    clip_range=work.clip_range,
    vf_coef=work.value_coef,
    max_grad_norm=work.max_grad_norm,
    policy_kwargs={"net_arch": list(work.hidden_sizes), "activation_fn": torch.nn.Tanh},
    seed=work.seed,
    device="cpu",
)
model.learn(work.steps, callback=Rounds(stopwatch))
stopwatch.report("stable_baselines3", "gymnasium", "mujoco")
