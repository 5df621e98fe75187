"""What training starts from: fresh parameters, or what fits of the model that `init_from` names (fine-tuning).

Whole layers fit or do not, by name and shape: with other observations the first layers start afresh and the rest is
kept, with other actions it is the actor's last one. Optimizer, counters and the best return never come from it.

Shapes: P parameters, D observation size.
"""

from __future__ import annotations

from typing import NamedTuple

from ddp_ppo.config.settings import Config
from ddp_ppo.maths.moments import RmsState, empty_rms_state
from ddp_ppo.maths.seeding import Purpose, stream
from ddp_ppo.policies.network import NetworkSpec, from_named, hold_log_std, initial_parameters, to_named
from ddp_ppo.protocols import FloatArray
from ddp_ppo.runs.files import CheckpointError
from ddp_ppo.runs.model import Model, load_model

_STATISTICS = "observation statistics"


class StartingPoint(NamedTuple):
    """Parameters [P], statistics of observations [D] and of returns [1], and what a person should know of them."""

    parameters: FloatArray
    obs_rms_state: RmsState
    return_rms_state: RmsState
    notes: tuple[str, ...] = ()


def fresh_start(config: Config, network: NetworkSpec) -> StartingPoint:
    """Initial parameters of the run's seed, and no statistics."""
    parameters = initial_parameters(network, stream(config.seed, Purpose.INIT), config.init_log_std)
    return StartingPoint(parameters, empty_rms_state(network.obs_size), empty_rms_state(1))


def warm_start(config: Config, network: NetworkSpec) -> StartingPoint:
    """What fits of the model that `init_from` names, the rest as in a fresh start; a note lists what does not fit.

    Raises:
        CheckpointError: it is no model, no layer of it fits, or it cannot act as this configuration would have it.
    """
    assert config.init_from is not None
    model, start = load_model(config.init_from), fresh_start(config, network)
    here, there = _shapes(network), _shapes(model.network)
    fits = {name for name in here if here[name] == there.get(name)}
    _require_use(model, config, network, fits)
    named = to_named(network, start.parameters)
    for name, array in to_named(model.network, model.parameters).items():
        if name.removesuffix(".weight").removesuffix(".bias") in fits:
            named[name] = array
    parameters, notes = from_named(network, named), list[str]()
    if config.is_named("init_log_std") and network.distribution.num_log_std:
        parameters[network.log_std_slice] = config.init_log_std
        notes = [f"init_from: log_std begins at init_log_std: {config.init_log_std:g}, not at the model's"]
    hold_log_std(network, parameters)
    afresh = [
        f"{name} ({here.get(name, 'nothing')} here, {there.get(name, 'nothing')} in the model)"
        for name in {**here, **there}
        if name not in fits
    ]
    notes += [f"init_from: {model.path} fits only in part; initialised: {', '.join(afresh)}"] if afresh else []
    if config.init_statistics == "restart":
        return start._replace(parameters=parameters, notes=tuple(notes))
    if model.obs_rms_state is None and config.normalize_obs:
        notes.append(f"init_from: {model.path} acts on raw observations; normalize_obs: false keeps them as they were")
    obs = model.obs_rms_state if _STATISTICS in fits else None
    returns = model.return_rms_state
    return StartingPoint(parameters, obs or start.obs_rms_state, returns or start.return_rms_state, tuple(notes))


def _shapes(network: NetworkSpec) -> dict[str, str]:
    """What can be kept, by name, with what must be the same for that."""
    shapes = {layer.name: f"{layer.inputs} -> {layer.outputs}" for layer in network.layers}
    shapes[network.trunk("actor")[-1].name] += f" {network.head}"
    size = network.distribution.num_log_std
    log_std = {"log_std": f"{size} actions"} if size else {}
    return {**shapes, **log_std, _STATISTICS: f"{network.obs_size} columns"}


def _require_use(model: Model, config: Config, network: NetworkSpec, fits: set[str]) -> None:
    if (learner := model.info.get("learner", config.learner)) != config.learner:
        raise CheckpointError(
            f"init_from: {model.path} is of learner: {learner}, this configuration of {config.learner}"
        )
    if (activation := model.network.activation) != network.activation:
        raise CheckpointError(
            f"init_from: {model.path} has activation: {activation}, this configuration {network.activation}; "
            f"set activation: {activation}"
        )
    if fits <= {"log_std", _STATISTICS}:
        raise CheckpointError(
            f"init_from: no layer of {model.path} fits: it holds {model.network}, this configuration needs {network}"
        )
    if model.obs_rms_state is not None and not config.normalize_obs:
        raise CheckpointError(f"init_from: {model.path} acts on normalised observations; set normalize_obs: true")
