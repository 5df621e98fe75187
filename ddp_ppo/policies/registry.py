"""Which class acts: the setting `policy_backend` and the network decide. Torch is loaded only for a policy in torch."""

from __future__ import annotations

from typing import cast

from ddp_ppo.errors import FAULTS, EnvError, blamed, describe_cause
from ddp_ppo.imports import import_here
from ddp_ppo.policies.network import NetworkSpec
from ddp_ppo.policies.numpy_policy import NumpyPolicy
from ddp_ppo.protocols import EnvSpec, Policy

_MEMBERS = ("state_size", "head", "load", "begin", "act", "mode", "logp", "rollout_values")  # when it has been built


def build_policy(backend: str, network: NetworkSpec, env: EnvSpec, *, num_envs: int, num_steps: int = 1) -> Policy:
    """The policy that acts for K environments, `num_steps` steps at a time; it has to be given its parameters.

    Args:
        backend: "auto" (NumPy where it covers the network), "numpy", "torch", or `module:Class` of a custom policy,
            which takes (network, env, num_envs, num_steps).

    Raises:
        EnvError: a custom class cannot be imported or built, or lacks members of `Policy`.
    """
    if ":" in backend:
        return _custom(backend, network, env, num_envs, num_steps)
    if chosen_backend(backend, network) == "torch":
        from ddp_ppo.policies.torch_policy import TorchPolicy

        return TorchPolicy(network, env, num_envs, num_steps)
    return NumpyPolicy(network, env, num_envs, num_steps)


def chosen_backend(backend: str, network: NetworkSpec) -> str:
    """ "numpy", "torch" or a custom class: what the setting policy_backend means with this network."""
    if ":" in backend:
        return backend
    return "numpy" if backend != "torch" and network.is_mlp else "torch"


def _custom(backend: str, network: NetworkSpec, env: EnvSpec, num_envs: int, num_steps: int) -> Policy:
    """A policy of a class from outside of the package."""
    module, _, name = backend.partition(":")
    try:
        custom = getattr(import_here(module), name)
    except FAULTS as error:
        raise EnvError(f"policy_backend: {backend} cannot be imported: {describe_cause(error)}") from error
    if not callable(custom):
        raise EnvError(f"policy_backend: {backend} is not a class but {custom!r}")
    with blamed(f"policy_backend: {backend}(network, env, {num_envs}, {num_steps}) failed"):
        policy = custom(network, env, num_envs, num_steps)
    if missing := [member for member in _MEMBERS if not hasattr(policy, member)]:
        raise EnvError(f"policy_backend: {backend} lacks {', '.join(missing)} of Policy (ddp_ppo/protocols.py)")
    return cast(Policy, policy)
