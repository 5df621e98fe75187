"""TorchRL: its collector, GAE, replay buffer and clipped loss, put together as in its PPO example for MuJoCo.

Several environments are stepped in process (SerialEnv). Observations are normalised, rewards are not. Advantages are
computed once a round, not before every epoch as in that example, which favours TorchRL.
"""

import gymnasium
import torch
from tensordict.nn import AddStateIndependentNormalScale, TensorDictModule
from torch import nn
from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer
from torchrl.data.replay_buffers.samplers import SamplerWithoutReplacement
from torchrl.envs import ClipTransform, DoubleToFloat, ExplorationType, GymWrapper, SerialEnv, TransformedEnv, VecNorm
from torchrl.modules import MLP, IndependentNormal, ProbabilisticActor, ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value.advantages import GAE
from workload import Stopwatch, make_env, parse

work = parse(num_envs=1)
torch.set_num_threads(work.threads)
torch.manual_seed(work.seed)
stopwatch = Stopwatch(work)


def one_env() -> GymWrapper:
    return GymWrapper(gymnasium.wrappers.ClipAction(make_env(stopwatch)), device="cpu")


env = TransformedEnv(one_env() if work.num_envs == 1 else SerialEnv(work.num_envs, one_env))
env.append_transform(DoubleToFloat(in_keys=["observation"]))
env.append_transform(VecNorm(in_keys=["observation"], decay=0.99999, eps=1e-2))
env.append_transform(ClipTransform(in_keys=["observation"], low=-work.clip, high=work.clip))
env.set_seed(work.seed)
num_obs, num_actions = env.observation_spec["observation"].shape[-1], env.action_spec.shape[-1]
shape = {"in_features": num_obs, "num_cells": list(work.hidden_sizes), "activation_class": nn.Tanh}
actor = ProbabilisticActor(
    TensorDictModule(
        nn.Sequential(MLP(out_features=num_actions, **shape), AddStateIndependentNormalScale(num_actions)),
        in_keys=["observation"],
        out_keys=["loc", "scale"],
    ),
    in_keys=["loc", "scale"],
    distribution_class=IndependentNormal,
    return_log_prob=True,
    default_interaction_type=ExplorationType.RANDOM,
)
critic = ValueOperator(MLP(out_features=1, **shape), in_keys=["observation"])
collector = Collector(env, actor, frames_per_batch=work.samples, total_frames=work.steps, device="cpu")
buffer = TensorDictReplayBuffer(
    storage=LazyTensorStorage(work.samples), sampler=SamplerWithoutReplacement(), batch_size=work.minibatch_size
)
advantages = GAE(gamma=work.gamma, lmbda=work.gae_lambda, value_network=critic, average_gae=False)
loss_module = ClipPPOLoss(
    actor,
    critic,
    clip_epsilon=work.clip_range,
    loss_critic_type="l2",
    entropy_bonus=False,
    critic_coeff=work.value_coef,
    normalize_advantage=True,
)
parameters = [*actor.parameters(), *critic.parameters()]
optimizer = torch.optim.Adam(parameters, lr=work.learning_rate, eps=work.adam_eps)
for data in collector:
    with torch.no_grad():
        data = advantages(data)
    for _ in range(work.num_epochs):
        buffer.extend(data.reshape(-1))
        for batch in buffer:
            losses = loss_module(batch)
            optimizer.zero_grad(set_to_none=True)
            (losses["loss_objective"] + losses["loss_critic"]).backward()
            nn.utils.clip_grad_norm_(parameters, work.max_grad_norm)
            optimizer.step()
    collector.update_policy_weights_()
    stopwatch.round_ended()
collector.shutdown()
stopwatch.report("torchrl", "tensordict", "gymnasium", "mujoco")
