"""tianshou: PPO with its on-policy trainer on DummyVectorEnv; observations are normalised, rewards are not."""

import gymnasium
import numpy as np
import torch
from tianshou.algorithm import PPO
from tianshou.algorithm.modelfree.reinforce import ProbabilisticActorPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Collector, CollectStats, VectorReplayBuffer
from tianshou.env import DummyVectorEnv, VectorEnvNormObs
from tianshou.trainer import OnPolicyTrainerParams
from tianshou.utils.net.common import Net
from tianshou.utils.net.continuous import ContinuousActorProbabilistic, ContinuousCritic
from torch.distributions import Independent, Normal
from workload import Stopwatch, make_env, parse


class TimedPPO(PPO):
    """A round ends with the update."""

    def update(self, *args, **kwargs):
        """The library's own, then the time."""
        statistics = super().update(*args, **kwargs)
        stopwatch.round_ended()
        return statistics


work = parse(num_envs=2)
torch.set_num_threads(work.threads)
torch.manual_seed(work.seed)
np.random.seed(work.seed)
stopwatch = Stopwatch(work)
envs = VectorEnvNormObs(DummyVectorEnv([lambda: make_env(stopwatch)] * work.num_envs))
envs.seed(work.seed)
action_space: gymnasium.Space = envs.action_space[0]
obs_shape = envs.observation_space[0].shape


def net() -> Net:
    return Net(state_shape=obs_shape, hidden_sizes=work.hidden_sizes, activation=torch.nn.Tanh)


algorithm = TimedPPO(
    policy=ProbabilisticActorPolicy(
        actor=ContinuousActorProbabilistic(preprocess_net=net(), action_shape=action_space.shape, unbounded=True),
        dist_fn=lambda loc_scale: Independent(Normal(*loc_scale), 1),
        action_space=action_space,
    ),
    critic=ContinuousCritic(preprocess_net=net()),
    optim=AdamOptimizerFactory(lr=work.learning_rate, eps=work.adam_eps),
    eps_clip=work.clip_range,
    vf_coef=work.value_coef,
    ent_coef=0.0,
    max_grad_norm=work.max_grad_norm,
    gae_lambda=work.gae_lambda,
    gamma=work.gamma,
    max_batchsize=work.samples,
)
collector = Collector[CollectStats](algorithm, envs, VectorReplayBuffer(work.samples, work.num_envs))
algorithm.run_training(
    OnPolicyTrainerParams(
        training_collector=collector,
        max_epochs=1,
        epoch_num_steps=work.steps,
        collection_step_num_env_steps=work.samples,
        batch_size=work.minibatch_size,
        update_step_num_repetitions=work.num_epochs,
        verbose=False,
        show_progress=False,
    )
)
stopwatch.report("tianshou", "gymnasium", "mujoco")
