"""rsl_rl: OnPolicyRunner on Gymnasium's SyncVectorEnv; observations are normalised, rewards are not.

There is no log folder, so nothing is written, which favours rsl_rl.
"""

import gymnasium
import numpy as np
import torch
from rsl_rl.algorithms import PPO
from rsl_rl.env import VecEnv
from rsl_rl.runners import OnPolicyRunner
from tensordict import TensorDict
from workload import Stopwatch, make_env, parse

work = parse(num_envs=2)


class GymnasiumVecEnv(VecEnv):
    """Gymnasium's vector of environments as rsl_rl wants it."""

    device = "cpu"
    cfg: dict = {}  # noqa: RUF012 (rsl_rl's own attribute)
    max_episode_length = 1000

    def __init__(self, stopwatch: Stopwatch) -> None:
        make = [lambda: gymnasium.wrappers.ClipAction(make_env(stopwatch))] * work.num_envs
        mode = gymnasium.vector.AutoresetMode.SAME_STEP
        self.envs = gymnasium.vector.SyncVectorEnv(make, autoreset_mode=mode)
        self.num_envs, self.num_actions = work.num_envs, self.envs.single_action_space.shape[0]
        self.episode_length_buf = torch.zeros(work.num_envs, dtype=torch.long)
        self.obs = self._tensors(self.envs.reset(seed=work.seed)[0])

    def get_observations(self) -> TensorDict:
        """The current ones."""
        return self.obs

    def step(self, actions: torch.Tensor):
        """Steps all environments."""
        obs, reward, terminated, truncated, _ = self.envs.step(actions.numpy())
        self.obs = self._tensors(obs)
        done = torch.from_numpy(np.logical_or(terminated, truncated))
        return self.obs, torch.from_numpy(reward).float(), done, {"time_outs": torch.from_numpy(truncated)}

    def _tensors(self, obs: np.ndarray) -> TensorDict:
        return TensorDict({"policy": torch.from_numpy(obs).float()}, batch_size=[self.num_envs])


class TimedPPO(PPO):
    """A round ends with the update."""

    def update(self):
        """The library's own, then the time."""
        losses = super().update()
        stopwatch.round_ended()
        return losses


torch.set_num_threads(work.threads)
torch.manual_seed(work.seed)
stopwatch = Stopwatch(work)
network = {
    "class_name": "MLPModel",
    "hidden_dims": list(work.hidden_sizes),
    "activation": "tanh",
    "obs_normalization": True,
}
settings = {
    "num_steps_per_env": work.rollout_length,
    "save_interval": 10**9,
    "obs_groups": {"actor": ["policy"], "critic": ["policy"]},
    "actor": {**network, "distribution_cfg": {"class_name": "GaussianDistribution", "std_type": "log"}},
    "critic": dict(network),
    "algorithm": {
        "class_name": TimedPPO,
        "num_learning_epochs": work.num_epochs,
        "num_mini_batches": work.num_minibatches,
        "clip_param": work.clip_range,
        "gamma": work.gamma,
        "lam": work.gae_lambda,
        "value_loss_coef": work.value_coef,
        "entropy_coef": 0.0,
        "learning_rate": work.learning_rate,
        "max_grad_norm": work.max_grad_norm,
        "schedule": "fixed",
    },
}
OnPolicyRunner(GymnasiumVecEnv(stopwatch), settings, log_dir=None, device="cpu").learn(work.num_rounds)
stopwatch.report("rsl-rl-lib", "tensordict", "gymnasium", "mujoco")
