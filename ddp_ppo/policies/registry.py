"""Which class acts: the setting `policy_backend` and the network decide. Torch is loaded only for a policy in torch."""

from __future__ import annotations

import importlib

from ddp_ppo.errors import EnvError
from ddp_ppo.policies.network import NetworkSpec
from ddp_ppo.policies.numpy_policy import NumpyPolicy
from ddp_ppo.protocols import EnvSpec, Policy


def build_policy(backend: str, network: NetworkSpec, env: EnvSpec, *, num_envs: int, num_steps: int = 1) -> Policy:
    """The policy that acts for K environments, `num_steps` steps at a time; it has to be given its parameters.

    Args:
        backend: "auto" (NumPy where it covers the network), "numpy", "torch", or `module:Class` of a custom policy,
            which takes (network, env, num_envs, num_steps).

    Raises:
        EnvError: a custom class cannot be imported.
    """
    if ":" in backend:
        module, _, name = backend.partition(":")
        try:
            custom: Policy = getattr(importlib.import_module(module), name)(network, env, num_envs, num_steps)
        except (ImportError, AttributeError) as error:
            raise EnvError(f"policy_backend: {backend} cannot be imported: {error}") from error
        return custom
    if chosen_backend(backend, network) == "torch":
        from ddp_ppo.policies.torch_policy import TorchPolicy

        return TorchPolicy(network, env, num_envs, num_steps)
    return NumpyPolicy(network, env, num_envs, num_steps)


def chosen_backend(backend: str, network: NetworkSpec) -> str:
    """ "numpy", "torch" or a custom class: what the setting policy_backend means with this network."""
    if ":" in backend:
        return backend
    return "numpy" if backend != "torch" and network.is_mlp else "torch"
