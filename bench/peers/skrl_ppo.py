"""skrl: PPO with its sequential trainer on Gymnasium's SyncVectorEnv; observations are normalised, rewards are not.

Nothing is written to TensorBoard and no checkpoint is kept, which favours skrl.
"""

import gymnasium
import torch
from skrl.agents.torch.ppo import PPO
from skrl.envs.wrappers.torch import wrap_env
from skrl.memories.torch import RandomMemory
from skrl.models.torch import DeterministicMixin, GaussianMixin, Model
from skrl.resources.preprocessors.torch import RunningStandardScaler
from skrl.trainers.torch import SequentialTrainer
from skrl.utils import set_seed
from torch import nn
from workload import Stopwatch, make_env, parse

work = parse(num_envs=2)


def mlp(num_inputs: int, num_outputs: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for size in work.hidden_sizes:
        layers += [nn.Linear(num_inputs, size), nn.Tanh()]
        num_inputs = size
    return nn.Sequential(*layers, nn.Linear(num_inputs, num_outputs))


class Policy(GaussianMixin, Model):
    """Gaussian with a log standard deviation for each action."""

    def __init__(self, **spaces) -> None:
        Model.__init__(self, **spaces)
        GaussianMixin.__init__(self, clip_actions=False)
        self.net = mlp(self.num_observations, self.num_actions)
        self.log_std = nn.Parameter(torch.zeros(self.num_actions))

    def compute(self, inputs, role):
        """Mean and log standard deviation."""
        return self.net(inputs["observations"]), {"log_std": self.log_std}


class Value(DeterministicMixin, Model):
    """The critic."""

    def __init__(self, **spaces) -> None:
        Model.__init__(self, **spaces)
        DeterministicMixin.__init__(self)
        self.net = mlp(self.num_observations, 1)

    def compute(self, inputs, role):
        """Value of each observation."""
        return self.net(inputs["observations"]), {}


class TimedPPO(PPO):
    """A round ends with the update."""

    def update(self, **kwargs) -> None:
        """The library's own, then the time."""
        super().update(**kwargs)
        stopwatch.round_ended()


torch.set_num_threads(work.threads)
set_seed(work.seed)
stopwatch = Stopwatch(work)
make = [lambda: gymnasium.wrappers.ClipAction(make_env(stopwatch))] * work.num_envs
mode = gymnasium.vector.AutoresetMode.SAME_STEP
env = wrap_env(gymnasium.vector.SyncVectorEnv(make, autoreset_mode=mode))
spaces = {"observation_space": env.observation_space, "action_space": env.action_space}
agent = TimedPPO(
    models={
        name: kind(**spaces, state_space=None, device="cpu") for name, kind in (("policy", Policy), ("value", Value))
    },
    memory=RandomMemory(memory_size=work.rollout_length, num_envs=work.num_envs, device="cpu"),
    cfg={
        "rollouts": work.rollout_length,
        "learning_epochs": work.num_epochs,
        "mini_batches": work.num_minibatches,
        "discount_factor": work.gamma,
        "gae_lambda": work.gae_lambda,
        "learning_rate": work.learning_rate,
        "observation_preprocessor": RunningStandardScaler,
        "observation_preprocessor_kwargs": {"size": env.observation_space, "device": "cpu"},
        "grad_norm_clip": work.max_grad_norm,
        "ratio_clip": work.clip_range,
        "value_clip": 0.0,
        "value_loss_scale": work.value_coef,
        "time_limit_bootstrap": True,
        "experiment": {"write_interval": 0, "checkpoint_interval": 0},
    },
    device="cpu",
    **spaces,
)
settings = {
    "timesteps": work.num_rounds * work.rollout_length,
    "headless": True,
    "disable_progressbar": True,
    "close_environment_at_exit": False,  # it would write below the result
}
SequentialTrainer(cfg=settings, env=env, agents=agent).train()
stopwatch.report("skrl", "gymnasium", "mujoco")
