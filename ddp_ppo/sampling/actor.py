"""An actor process: K environments and a copy of the policy, one whole rollout for each "sample" of its learner.

Only commands and small statistics cross the pipe; tensors are written to the shared block. The process of an MLP
policy never imports torch: it starts in 0.3 s and takes 60 MB instead of 240. It dies with its learner.

Shapes: T rollout_length, B environments of the learner, K environments of this actor, D observation size.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ddp_ppo.envs.build import make_batch_env, make_up_to
from ddp_ppo.envs.inspection import ObsLimits, first_overlap, names_of
from ddp_ppo.envs.instance import Instances
from ddp_ppo.envs.multi_task import task_ids
from ddp_ppo.envs.own_class import watch_first_calls
from ddp_ppo.envs.same import require_same
from ddp_ppo.envs.state import require_plain
from ddp_ppo.envs.step_loop import step_loop
from ddp_ppo.errors import EnvError, printable, text_of
from ddp_ppo.maths.gae import accumulate_backwards
from ddp_ppo.maths.moments import RmsState
from ddp_ppo.maths.seeding import Purpose, integer_seed, seed_global_generators, stream
from ddp_ppo.policies.network import NetworkSpec
from ddp_ppo.policies.registry import build_policy
from ddp_ppo.processes.global_generators import restore_global_generators, save_global_generators
from ddp_ppo.processes.lifetime import die_with_parent, lead_group, outlast_readers
from ddp_ppo.protocols import (
    ActorReport,
    Arrays,
    BatchEnv,
    EnvSpec,
    EpisodeEnd,
    FloatArray,
    PlainState,
    Policy,
    Rows,
)
from ddp_ppo.sampling.block_policy import BlockPolicy
from ddp_ppo.sampling.blocks import obs_moments, parts_of, return_moments
from ddp_ppo.sampling.drive import Player
from ddp_ppo.sampling.episodes import EVAL_BLOCK, Episode, run_block
from ddp_ppo.sampling.final_obs import FinalObs
from ddp_ppo.sampling.finite import (
    SIMULATION_STATE,
    NonFiniteError,
    NotFinite,
    first_in_annotations,
    first_in_parameters,
    first_in_steps,
)
from ddp_ppo.sampling.rollout import DISCOUNTED_RETURN, REWARD_CLIP, Annotate, Discounting, slot_name
from ddp_ppo.sampling.shared_memory import SharedBlock

_STEP_FIELDS = ("obs", "act", "terminated", "truncated", "final_obs")


class Assistant(Protocol):
    """What an idle actor helps its learner with."""

    def serve(self) -> None:
        """Helps until the learner has trained the round."""


AssistantFactory = Callable[[Arrays], Assistant]  # of the shared block's arrays


@dataclass(frozen=True, kw_only=True)
class ActorJob:
    """All that an actor is told when it is spawned; plain values and the shared block.

    Functions in it travel by reference: the actor imports their modules before anything else.

    Attributes:
        actor_id: index among the actors of its learner.
        rank: its learner.
        first_env, num_envs: its slices [first_env, first_env + K) of the rollout.
        num_envs_of_learner: B, which decides on the blocks of environments.
        rollout_length: T.
        env_arguments: keyword arguments of `make_batch_env` but num_envs.
        instances, eval_instances: how environments for training and for evaluations are told apart.
        num_eval_instances: how many environments it may build for evaluations; 0 lends those that it trains in.
        env: what the learner knows of the environment; the actor's own must be the same.
        network, policy_backend: the policy's shape and which class acts, as for `build_policy`.
        annotate: what completes a rollout.
        field_names: the arrays of the block that belong to a rollout.
        num_slots: rollouts that the block has room for.
        normalize_obs, normalize_reward: which moments to report.
        sends_final_obs: whether the learner reads the last observations of episodes.
        assistant: makes what helps the learner while it trains; None where nothing does.
    """

    actor_id: int
    rank: int
    first_env: int
    num_envs: int
    num_envs_of_learner: int
    rollout_length: int
    seed: int
    env_arguments: dict[str, Any]
    instances: Instances
    eval_instances: Instances
    num_eval_instances: int
    env: EnvSpec
    network: NetworkSpec
    policy_backend: str
    annotate: Annotate
    gamma: float
    gae_lambda: float
    field_names: tuple[str, ...]
    num_slots: int
    block: SharedBlock
    normalize_obs: bool
    normalize_reward: bool
    sends_final_obs: bool
    assistant: AssistantFactory | None


class Actor:
    """Samples rollouts into its slices; owns its environments, its policy and where their episodes stand."""

    def __init__(self, job: ActorJob, say: Callable[[str], None] = lambda note: None) -> None:
        """Builds the environments and starts their episodes; `say` is called with what a person should know."""
        self._job, self._say = job, say
        self._env = make_batch_env(
            num_envs=job.num_envs, first_index=job.first_env, instances=job.instances, **job.env_arguments
        )
        require_same(self._env.spec, job.env, f"environment {job.first_env} of rank {job.rank}", "the first one built")
        watch_first_calls(self._env)
        own = slice(job.first_env, job.first_env + job.num_envs)
        self._parts = parts_of(own, job.num_envs_of_learner)
        self._policies = [self._build_policy(part.size, job.rollout_length) for part in self._parts]
        is_one_block = len(self._parts) == 1 and self._parts[0].is_complete
        acting = self._policies[0] if is_one_block else BlockPolicy(self._policies, self._parts)
        self._player = Player(acting, job.num_envs)
        # Now: environment or policy may have been the first to load torch.
        seed_global_generators(integer_seed(job.seed, Purpose.GLOBAL, job.rank, job.actor_id))
        self._arrays = arrays = job.block.arrays
        self._own = own
        self._block_of = [part.block for part in self._parts for _ in range(*part.own.indices(job.num_envs))]
        self._slots: list[dict[str, Any]] = [
            {
                **{name: arrays[slot_name(name, slot)][:, own] for name in job.field_names},
                "final_obs": FinalObs(job.rollout_length, job.num_envs, job.env.obs_dtype),
            }
            for slot in range(job.num_slots)
        ]
        self._reward = np.zeros((job.rollout_length, job.num_envs))
        progress = arrays["progress"][job.actor_id : job.actor_id + 1]
        self._rows = [
            Rows(reward=self._reward, progress=progress, **{name: slices[name] for name in _STEP_FIELDS})
            for slices in self._slots
        ]
        self._run_steps = step_loop(self._env)
        self._episode_return = np.zeros(job.num_envs)
        self._episode_length = np.zeros(job.num_envs, np.int64)
        self._discounted_return = np.zeros(job.num_envs)
        self._num_rounds = 0  # that have been sampled
        self._start_episodes()
        is_first = job.actor_id == job.rank == 0  # one of all is enough to find it out
        self._overlap = first_overlap(self._env) if is_first else ""
        self._limits = ObsLimits.of(self._env) if is_first else None
        self._eval_env: BatchEnv | None = None  # the one for training where that is lent
        self._assistant: Assistant | None = None

    def _start_episodes(self) -> None:
        """Starts new episodes, after some rounds with other seeds than before: no episode comes a second time."""
        job, key = self._job, (self._num_rounds,) if self._num_rounds else ()
        envs = range(job.first_env, job.first_env + job.num_envs)
        seeds = [integer_seed(job.seed, Purpose.ENVIRONMENT, job.rank, env, *key) for env in envs]
        self._obs = self._env.reset(seeds).copy()

    def _build_policy(self, num_envs: int, num_steps: int) -> Policy:
        job = self._job
        return build_policy(job.policy_backend, job.network, job.env, num_envs=num_envs, num_steps=num_steps)

    def save(self) -> PlainState:
        """Where the environments and their episodes stand between two rollouts; "env" is None if it cannot be saved."""
        env = None if self._job.env.unsaved else self._env.save()
        require_plain(env, f"{self._job.env.env_id}: save()")
        return {
            "env": env,
            "episode_return": self._episode_return.copy(),
            "episode_length": self._episode_length.copy(),
            "discounted_return": self._discounted_return.copy(),
            "policy_state": self._player.state.copy(),
            "num_rounds": self._num_rounds,
            "generators": save_global_generators(),
        }

    def restore(self, state: PlainState) -> None:
        """Goes on where `save` was called; where the environments could not be saved they start new episodes.

        "generators" is None where the global generators were those of other processes: they start new streams.
        """
        job, self._num_rounds = self._job, state["num_rounds"]
        if self._is_saved(state):
            self._obs = self._env.restore(state["env"]).copy()
            self._player.state[:] = state.get("policy_state", 0.0)  # missing in checkpoints of a policy without a state
            self._episode_return = np.array(state["episode_return"], np.float64)
            self._episode_length = np.array(state["episode_length"], np.int64)
            self._discounted_return = np.array(state["discounted_return"], np.float64)
        if state["generators"] is not None:
            restore_global_generators(state["generators"])
        elif self._num_rounds:
            seed_global_generators(integer_seed(job.seed, Purpose.GLOBAL, job.rank, job.actor_id, self._num_rounds))
        if not self._is_saved(state) and self._num_rounds:
            self._start_episodes()

    def _is_saved(self, state: PlainState) -> bool:
        return state["env"] is not None and not self._job.env.unsaved

    def sample(self, round_index: int, slot: int = 0) -> ActorReport:
        """Fills this actor's slices of a rollout slot with T steps, annotates them and reports on them."""
        job, start = self._job, time.perf_counter()
        slices = self._slots[slot]
        policy = self._player.policy
        policy.load(self._published("parameters", slot), self._obs_rms_state(slot))
        for part, one in zip(self._parts, self._policies, strict=True):
            one.begin(stream(job.seed, Purpose.ACTION_NOISE, job.rank, part.block, round_index))
        rows = self._rows[slot]
        rows.final_obs.clear()
        rows.obs[0][...] = self._obs
        reward_terms = self._player.rollout(self._run_steps, rows)
        self._obs = rows.obs[-1].copy()
        self._num_rounds = round_index + 1
        sampled = time.perf_counter()
        slices["reward"][:] = self._reward
        self._require_finite(first_in_steps(slices), slot)
        scale = float(self._published("reward_scale", slot)[0])
        clip = REWARD_CLIP if job.normalize_reward else np.inf
        job.annotate(policy, slices, Discounting(job.gamma, job.gae_lambda, scale, clip))
        self._require_finite(first_in_annotations(slices), slot)
        return self._report(slot, reward_terms, start=start, sampled=sampled)

    def _require_finite(self, bad: NotFinite | None, slot: int) -> None:
        if bad is None:
            return
        if bad.stage in ("observation", "final observation", "reward"):
            bad = self._named(bad)
        elif parameter := first_in_parameters(self._job.network, self._published("parameters", slot)):
            raise NonFiniteError(f"the parameter {parameter}, as it was published")
        raise NonFiniteError(bad.words(self._job.first_env), bad._asdict())

    def _named(self, bad: NotFinite) -> NotFinite:
        """The same in the environment's own words, and blamed on the state of its simulation if that is not finite."""
        state, column = names_of(self._env, bad.env, bad.column)
        return bad._replace(stage=SIMULATION_STATE, name=state) if state else bad._replace(name=column)

    def _report(self, slot: int, reward_terms: Mapping[str, float], *, start: float, sampled: float) -> ActorReport:
        """What a rollout has to report that began at `start` and was sampled, not yet annotated, at `sampled`."""
        job, slices = self._job, self._slots[slot]
        ended = slices["terminated"] | slices["truncated"]
        ends, returns, lengths = self._finished_episodes(ended)
        own_blocks = [part for part in self._parts if part.is_complete]
        of_obs: dict[int, RmsState] = {}
        of_returns: dict[int, RmsState] = {}
        if job.normalize_obs:
            of_obs = {part.block: obs_moments(slices["obs"], part.own) for part in own_blocks}
        if job.normalize_reward:
            discounted = self._discounted_returns(ended)
            of_returns = {part.block: return_moments(discounted, part.own) for part in own_blocks}
            if (together := slot_name(DISCOUNTED_RETURN, slot)) in self._arrays:
                self._arrays[together][:, self._own] = discounted
        overlap, self._overlap = self._overlap, ""  # told once
        if outside := self._limits.first_outside(slices["obs"]) if self._limits else "":
            self._limits = None  # likewise
        return ActorReport(
            actor_id=job.rank * len(self._arrays["progress"]) + job.actor_id,
            num_envs=job.num_envs,
            episodes=len(returns),
            episode_ends=ends,
            episode_returns=returns,
            episode_return_sum=float(sum(returns)),
            episode_len_sum=sum(lengths),
            episode_terminations=int(np.count_nonzero(slices["terminated"])),
            obs_rms_moments=of_obs,
            return_rms_moments=of_returns,
            reward_terms=reward_terms,
            overlap=overlap,
            sample_seconds=sampled - start,
            annotate_seconds=time.perf_counter() - sampled,
            state=self.save(),
            outside=outside,
            final_obs=slices["final_obs"] if job.sends_final_obs else None,
        )

    def _finished_episodes(self, ended: NDArray[np.bool_]) -> tuple[list[EpisodeEnd], list[float], list[int]]:
        """Ends, raw returns and lengths of the episodes that ended in this rollout; the open ones are carried on."""
        ends, returns, lengths = [], [], []
        first = np.zeros(self._job.num_envs, np.int64)
        for step, i in np.argwhere(ended).tolist():
            ends.append(EpisodeEnd(self._block_of[i], step, self._job.first_env + i))
            returns.append(float(self._episode_return[i] + self._reward[first[i] : step + 1, i].sum()))
            lengths.append(int(self._episode_length[i] + step + 1 - first[i]))
            self._episode_return[i] = 0.0
            self._episode_length[i] = 0
            first[i] = step + 1
        for i in range(self._job.num_envs):
            self._episode_return[i] += self._reward[first[i] :, i].sum()
        self._episode_length += self._job.rollout_length - first
        return ends, returns, lengths

    def _discounted_returns(self, ended: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Running discounted returns [T, K] from each episode's start, whose spread scales the rewards."""
        total = self._reward.copy()
        total[0] += self._job.gamma * self._discounted_return
        decay = np.zeros_like(total)
        decay[1:] = self._job.gamma * ~ended[:-1]
        accumulate_backwards(total[::-1], decay[::-1])
        self._discounted_return = total[-1] * ~ended[-1]
        return total

    def _published(self, name: str, slot: int) -> NDArray[Any]:
        return self._arrays[slot_name(name, slot)]

    def _obs_rms_state(self, slot: int) -> RmsState | None:
        if not self._job.normalize_obs:
            return None
        mean, var, count = (self._published(name, slot) for name in ("obs_mean", "obs_var", "obs_count"))
        return {"mean": mean, "var": var, "count": float(count[0])}

    def evaluate(self, seeds: list[int], slot: int = 0) -> list[Episode]:
        """One block of deterministic episodes with the published parameters, in environments built for evaluations.

        Where the environment allows no further instance, those for training are lent, and then go on where they were;
        if their state cannot be saved, they start new episodes.
        """
        if self._eval_env is None:
            self._eval_env = self._built_for_evaluation() or self._env
            self._eval_player = Player(self._build_policy(EVAL_BLOCK, 1), EVAL_BLOCK)
        player = self._eval_player
        player.policy.load(self._published("parameters", slot), self._obs_rms_state(slot))
        counted = _Counted(player, self._arrays["progress"][self._job.actor_id : self._job.actor_id + 1])
        is_lent = self._eval_env is self._env
        before = self.save() if is_lent else {}
        episodes = run_block(self._eval_env, counted.begin, seeds)
        if is_lent:
            self._take_back(before)
        return episodes

    def _built_for_evaluation(self) -> BatchEnv | None:
        """Environments for evaluations; None if the environment, or the plan, allows no further one."""
        job, error = self._job, EnvError("max_env_instances leaves none")
        if job.num_eval_instances:
            try:
                return make_up_to(job.num_eval_instances, instances=job.eval_instances, **job.env_arguments)
            except EnvError as refused:
                error = refused
        if len(task_ids(job.env_arguments["env_id"])) > 1:  # each row of a block is one of the tasks
            raise error
        if job.actor_id == 0:  # one of all is enough to say it
            has_state = self._env.save() is not None
            ending = "continue afterwards" if has_state else "start again afterwards, as their state cannot be saved"
            why = "evaluations run in the environments that train, as no further one can be built"
            self._say(f"{why} ({error}); training's episodes {ending}")
        return None

    def _take_back(self, before: PlainState) -> None:
        """Lets the environments that were lent continue with training."""
        if before["env"] is not None:
            self.restore(before)
            return
        self._player.restart()
        for carried in (self._episode_return, self._episode_length, self._discounted_return):
            carried[:] = 0
        self._start_episodes()

    def assist(self) -> None:
        """Helps the learner until it has trained the round."""
        if self._assistant is None:
            assert self._job.assistant is not None  # nobody asks for help that there is none of
            self._assistant = self._job.assistant(self._arrays)
        self._assistant.serve()

    def close(self) -> None:
        """Closes the environments."""
        try:
            self._env.close()
        finally:
            if self._eval_env not in (None, self._env):
                self._eval_env.close()


class _Counted:
    """Counts the actions of a player in `progress`, so that a slow evaluation can be told from one that hangs."""

    def __init__(self, player: Player, progress: NDArray[np.int64]) -> None:
        self._player, self._progress = player, progress
        self.after = player.after
        progress[0] = 0

    def begin(self) -> _Counted:
        """Itself, where all environments have been reset."""
        self._player.restart()
        return self

    def choose(self, obs: FloatArray) -> NDArray[Any]:
        """Actions for observations [K, D]."""
        self._progress[0] += 1
        return self._player.choose(obs)


def actor_main(job: ActorJob, connection: Connection) -> None:
    """Serves the learner's commands until "close" or until the learner is gone.

    Answers ("ready", state), ("done", result) or ("error", (summary, traceback, where)), before that perhaps ("note",
    what a person should know). Whatever is raised is an
    error: an environment's connection that is lost, or its sys.exit(), is no end of this process.
    """
    lead_group()
    learner = multiprocessing.parent_process()
    die_with_parent(learner.pid if learner is not None else None)
    outlast_readers()
    os.register_at_fork(after_in_child=connection.close)
    try:
        actor = Actor(job, partial(_answer, connection, "note"))
        _answer(connection, "ready", actor.save())
        while (command := _next_command(connection))[0] != "close":
            _answer(connection, "done", getattr(actor, command[0])(*command[1:]))
        actor.close()
    except BaseException as error:
        where = getattr(error, "where", None)
        summary = f"{type(error).__name__}: {text_of(error)}"
        _answer(connection, "error", (summary, printable(traceback.format_exc()), where))
    finally:
        for child in multiprocessing.active_children():
            if not child.daemon:  # Python would wait for it
                child.kill()


def _answer(connection: Connection, kind: str, content: Any) -> None:
    if connection.closed:
        os._exit(1)  # a child that an environment has forked and let go on: it is no second actor
    with contextlib.suppress(OSError):  # the learner is gone, as the next command will say
        connection.send((kind, content))


def _next_command(connection: Connection) -> tuple[Any, ...]:
    try:
        command: tuple[Any, ...] = connection.recv()
    except (EOFError, OSError):  # the learner is gone
        return ("close",)
    return command
