"""Rollouts for the learner, one a round: publish parameters and statistics, have the actors sample, hand the data over.

With `overlap` the actors sample the next rollout, with the parameters of now, while the learner trains on this one: the
policy that sampled is then one round older than the one that is trained, and the ratios are those of the two.

Shapes: T rollout_length, B environments of the learner, P parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ddp_ppo.envs.instance import TRAINING, Instances
from ddp_ppo.maths.moments import RmsState
from ddp_ppo.policies.normalizer import reward_scale
from ddp_ppo.protocols import ActorReport, Arrays, FloatArray, PlainState
from ddp_ppo.sampling.actor import ActorJob
from ddp_ppo.sampling.actor_pool import ActorPool
from ddp_ppo.sampling.blocks import env_blocks, obs_moments, return_moments
from ddp_ppo.sampling.episodes import EVAL_BLOCK, Episode
from ddp_ppo.sampling.final_obs import FinalObs
from ddp_ppo.sampling.rollout import DISCOUNTED_RETURN, RAW, Normalization, Rollout, slot_name
from ddp_ppo.sampling.shared_memory import SharedBlock
from ddp_ppo.training.plan import Plan


class Frozen(NamedTuple):
    """What a whole rollout is sampled with."""

    parameters: FloatArray  # [P]
    obs_rms_state: RmsState
    return_rms_state: RmsState


@dataclass(frozen=True, kw_only=True)
class Sampled:
    """One rollout of all actors.

    Attributes:
        rollout: the annotated data.
        reports: of each actor, in their order.
        policy_lag: rounds by which the policy that sampled is older than the one to train.
    """

    rollout: Rollout
    reports: list[ActorReport]
    policy_lag: int

    @property
    def overlap(self) -> str:
        """Bodies that overlap at the first reset, in words; empty if none do, and after the first round."""
        return self.reports[0].overlap

    @property
    def outside(self) -> str:
        """An observation far outside its space, in words; empty if none is, and once one has been reported."""
        return self.reports[0].outside

    @property
    def annotate_seconds(self) -> float:
        """What the slowest actor took to complete its slices."""
        return max(report.annotate_seconds for report in self.reports)

    @property
    def idle_seconds(self) -> float:
        """How long an actor waited on average for the slowest one."""
        seconds = [report.sample_seconds + report.annotate_seconds for report in self.reports]
        return max(seconds) - sum(seconds) / len(seconds)


class Sampler:
    """The rollout slots of one learner and the actors that fill them."""

    def __init__(self, plan: Plan, block: SharedBlock, pool: ActorPool) -> None:
        self._plan = plan
        self._arrays = block.arrays
        self._pool = pool
        self._lag = plan.num_slots - 1
        names = [field.name for field in plan.fields]
        self._rollouts = [
            Rollout({name: block.arrays[slot_name(name, slot)] for name in names}) for slot in range(plan.num_slots)
        ]
        self._normalizations = [RAW] * plan.num_slots
        self._in_flight: int | None = None  # round that the actors are sampling or have sampled
        self._settled: list[ActorReport] | None = None  # the reports of it, once they are in
        self._states: list[PlainState] | None = None

    def collect(self, round_index: int, now: Frozen) -> Sampled:
        """The rollout of this round; where sampling overlaps training it sets the actors to the next one too."""
        lag = int(self._in_flight is not None)
        if self._in_flight is None:
            self._begin(round_index, now)
        assert self._in_flight == round_index
        self.settle()
        reports, self._settled, self._in_flight = self._settled, None, None
        assert reports is not None
        self._states = self._pool.states
        self._complete(reports, round_index % len(self._rollouts))
        if self._lag and round_index + 1 < self._plan.num_rounds:
            self._begin(round_index + 1, now)
        slot = round_index % len(self._rollouts)
        if all(report.final_obs is not None for report in reports):
            final_obs: Any = FinalObs.joined([report.final_obs for report in reports])
            self._rollouts[slot].arrays["final_obs"] = final_obs
        self._rollouts[slot].fill(self._normalizations[slot])
        return Sampled(rollout=self._rollouts[slot], reports=reports, policy_lag=lag)

    def _complete(self, reports: Sequence[ActorReport], slot: int) -> None:
        """Adds the moments of the blocks that several actors share, which none of them could take."""
        config, rollout, first = self._plan.config, self._rollouts[slot], reports[0]
        for block, own in enumerate(env_blocks(self._plan.topology.num_envs)):
            if config.normalize_obs and not any(block in report.obs_rms_moments for report in reports):
                first.obs_rms_moments[block] = obs_moments(rollout["obs"], own)
            if config.normalize_reward and not any(block in report.return_rms_moments for report in reports):
                returns = self._arrays[slot_name(DISCOUNTED_RETURN, slot)]
                first.return_rms_moments[block] = return_moments(returns, own)

    @property
    def states(self) -> list[PlainState]:
        """Where the environments stood after the rollout that was collected last."""
        return self._pool.states if self._states is None else self._states

    def slices_of(self, actor_id: int, round_index: int) -> Arrays:
        """An actor's own slices of a round's rollout."""
        own = self._plan.topology.slices[actor_id]
        rollout = self._rollouts[round_index % len(self._rollouts)]
        return {name: array[:, own] for name, array in rollout.arrays.items()}

    def settle(self) -> None:
        """Waits until no actor is sampling."""
        if self._in_flight is not None and self._settled is None:
            self._settled = self._pool.end_sample()

    def evaluate(self, seeds: Sequence[int], now: Frozen) -> list[Episode]:
        """One deterministic episode for each seed with these parameters."""
        self.settle()
        slot = 0 if self._in_flight is None else (self._in_flight + 1) % len(self._rollouts)
        self._publish(slot, now)
        return self._pool.evaluate(seeds, slot)

    def stop(self) -> None:
        """Ends the actors at once, whatever they are doing."""
        self._pool.close(0.0)

    def _begin(self, round_index: int, now: Frozen) -> None:
        slot = round_index % len(self._rollouts)
        self._publish(slot, now)
        self._in_flight = round_index
        self._pool.begin_sample(round_index, slot)

    def _publish(self, slot: int, now: Frozen) -> None:
        config = self._plan.config
        state = now.obs_rms_state
        scale = reward_scale(now.return_rms_state) if config.normalize_reward else 1.0
        for name, value in (
            ("parameters", now.parameters),
            ("obs_mean", state["mean"]),
            ("obs_var", state["var"]),
            ("obs_count", state["count"]),
            ("reward_scale", scale),
        ):
            self._arrays[slot_name(name, slot)][:] = value
        self._normalizations[slot] = Normalization(state if config.normalize_obs else None, scale)


def actor_jobs(plan: Plan, block: SharedBlock) -> list[ActorJob]:
    """What each actor of this learner is told."""
    return [_actor_job(plan, block, actor_id, own) for actor_id, own in enumerate(plan.topology.slices)]


def _actor_job(plan: Plan, block: SharedBlock, actor_id: int, own: slice) -> ActorJob:
    config, topology = plan.config, plan.topology
    return ActorJob(
        actor_id=actor_id,
        rank=topology.rank,
        first_env=own.start,
        num_envs=own.stop - own.start,
        num_envs_of_learner=topology.num_envs,
        rollout_length=config.rollout_length,
        seed=config.seed,
        env_arguments=config.env_arguments,
        instances=Instances(offset=topology.rank * topology.num_envs, seed=config.seed, key=(TRAINING, topology.rank)),
        eval_instances=Instances(offset=plan.num_training_instances + actor_id * EVAL_BLOCK, seed=config.seed),
        num_eval_instances=plan.num_eval_instances[actor_id],
        env=plan.env,
        network=plan.network,
        policy_backend=config.policy_backend,
        annotate=plan.kind.annotate,
        gamma=config.gamma,
        gae_lambda=config.gae_lambda,
        field_names=tuple(field.name for field in plan.fields),
        num_slots=plan.num_slots,
        block=block,
        normalize_obs=config.normalize_obs,
        normalize_reward=config.normalize_reward,
        sends_final_obs=plan.kind.reads_final_obs(config),
        assistant=plan.kind.assistant(plan),
    )
