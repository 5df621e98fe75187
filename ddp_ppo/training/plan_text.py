"""What a run will do, in words: the lines that `ddp-ppo plan` prints."""

from __future__ import annotations

from ddp_ppo.config.settings import Config
from ddp_ppo.sampling.shared_memory import block_bytes
from ddp_ppo.training.plan import Plan, actors_text


def plan_text(plan: Plan) -> str:
    """What `plan_lines` and the notes say, for a person."""
    lines = [f"{name:14} {text}" for name, text in plan_lines(plan).items()]
    return "\n".join([*lines, *(f"note: {note}" for note in plan.notes)])


def _widths(config: Config) -> str:
    """Of the layers of a network."""
    dense = "x".join(map(str, config.hidden_sizes)) or "linear"
    return f"convolutions {'x'.join(map(str, config.conv_channels))}, {dense}" if config.conv_channels else dense


def _instances_text(plan: Plan) -> str:
    """How many instances of the environment are open at once, at most."""
    training, evaluation = plan.num_training_instances, sum(plan.num_eval_instances)
    own = f"and {evaluation} for evaluations" if evaluation else "which also run the evaluations"
    return f"at most {training + evaluation} open at once: {training} for training {own}"


def _image_line(plan: Plan) -> dict[str, str]:
    """How the network reads an image; nothing where it reads none."""
    network = plan.network
    if not network.image:
        return {}
    channels, height, width = network.picture
    layout = network.image_layout.replace("_", " ")
    values = "standardised" if plan.config.normalize_obs else f"raw values times {network.obs_scale:.4g}"
    return {"image": f"{list(network.image)}, {layout}: {height} x {width} pixels of {channels} channels, {values}"}


def plan_lines(plan: Plan) -> dict[str, str]:
    """Ranks, devices, actors, environments and mini-batch arithmetic of a run."""
    config, topology, env = plan.config, plan.topology, plan.env
    samples = plan.num_samples
    steps = config.transitions_per_round(topology.num_learners)
    device = "cpu" if topology.device == "cpu" else topology.device.split(":")[0] + ":0 .."
    lines = [
        (
            "environment",
            f"{env.env_id}, backend {env.backend}: {env.obs_size} observations, {env.action.describe()} actions, "
            f"time limit {env.max_episode_steps or 'none'}",
        ),
        (
            "network",
            f"{_widths(config)} {plan.network.activation}, "
            f"{plan.kind.num_parameters(config, plan.network):,} parameters",
        ),
        (
            "learners",
            f"{topology.num_learners} on {device}, {topology.backend} between them"
            if topology.num_learners > 1
            else f"1 on {topology.device}",
        ),
        (
            "actors",
            f"{actors_text(topology)}, {topology.num_envs * topology.num_learners} in total"
            + (" (num_actors: auto)" if config.actors_per_learner is None else ""),
        ),
        ("instances", _instances_text(plan)),
        (
            "round",
            f"{config.rollout_length} steps x {topology.num_envs} environments = {samples:,} samples per learner, "
            f"{steps:,} transitions in all",
        ),
        ("update", plan.kind.update_text(plan)),
        (
            "run",
            f"{plan.num_rounds} rounds = {plan.num_env_steps:,} environment steps "
            f"({config.total_env_steps:,} asked for)",
        ),
        ("shared memory", f"{block_bytes(plan.block_shapes) / 2**20:.1f} MiB for each learner"),
    ]
    environment, *rest = lines
    return {**dict([environment]), **_image_line(plan), **dict(rest)}
