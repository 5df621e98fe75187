"""Puts the parts of one learner's run together, each after what it needs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

from ddp_ppo.distributed.group import LearnerGroup
from ddp_ppo.learners.interface import Learner, Workplace
from ddp_ppo.learners.starting_point import StartingPoint
from ddp_ppo.processes.stop_request import StopRequest
from ddp_ppo.runs.console import Console
from ddp_ppo.runs.metric_table import METRICS
from ddp_ppo.sampling.actor_pool import ActorPool
from ddp_ppo.sampling.shared_memory import SharedBlock, page_locked
from ddp_ppo.training.diagnosis import Diagnosis
from ddp_ppo.training.evaluator import Evaluator
from ddp_ppo.training.plan import Plan
from ddp_ppo.training.recorder import FaultRecorder, Recorder
from ddp_ppo.training.sampler import Sampler, actor_jobs
from ddp_ppo.training.saving import Saver
from ddp_ppo.training.sync import Sync, share_folder


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What a run consists of in a learner's process."""

    recorder: FaultRecorder
    pool: ActorPool
    group: LearnerGroup
    learner: Learner
    sampler: Sampler
    diagnosis: Diagnosis
    sync: Sync
    evaluator: Evaluator
    saver: Saver


def assemble(
    plan: Plan,
    start: StartingPoint,
    *,
    console: Console,
    stop: StopRequest,
    stack: ExitStack,
    num_done: Callable[[], int],
) -> Parts:
    """Starts the actors, meets the other learners, and makes what learns, with actors that are ready.

    Args:
        start: what a fresh learner starts from.
        stack: closes everything.
        num_done: how many rounds are done, whenever it is called.

    Raises:
        CutShort: a stop request came before the actors were ready.
    """
    config, topology = plan.config, plan.topology
    # First: whatever fails from here on is written down in the run folder.
    recorder = stack.enter_context((Recorder if topology.rank == 0 else FaultRecorder)(plan, console))
    for note in plan.notes:
        recorder.say(f"note: {note}")
    # Before the learners meet: actors build their environments in the meantime.
    block = SharedBlock(plan.block_shapes)
    stack.callback(block.close)
    pool = stack.enter_context(_started(plan, block, lambda what: recorder.event("actor_restart", num_done(), what)))
    group = stack.enter_context(LearnerGroup(topology, timeout_seconds=config.collective_timeout_seconds))
    recorder.join(share_folder(group, recorder.path, num_done()))
    stack.enter_context(page_locked(block.memory, topology.device, recorder.say))
    # After all three: a learner trains in the block, is helped by an actor, and averages with the group.
    learner = plan.kind.make(plan, Workplace(start=start, group=group, arrays=block.arrays, pool=pool))
    sampler = Sampler(plan, block, pool)
    diagnosis = Diagnosis(plan, learner, sampler=sampler, recorder=recorder)
    table = (*METRICS, *plan.kind.metrics)
    sync = Sync(group, learner, table, interval=config.param_sync_interval, num_rounds=plan.num_rounds)
    evaluator = Evaluator(plan, sampler, sync=sync, diagnosis=diagnosis, recorder=recorder, stop=stop)
    saver = Saver(group, sync, evaluator=evaluator, recorder=recorder)
    with stop.cuttable():
        pool.wait_ready()
    return Parts(
        recorder=recorder,
        pool=pool,
        group=group,
        learner=learner,
        sampler=sampler,
        diagnosis=diagnosis,
        sync=sync,
        evaluator=evaluator,
        saver=saver,
    )


def _started(plan: Plan, block: SharedBlock, on_restart: Callable[[str], None]) -> ActorPool:
    return ActorPool(
        actor_jobs(plan, block),
        timeout_seconds=plan.config.actor_timeout_seconds,
        max_restarts=plan.config.max_actor_restarts,
        on_restart=on_restart,
    )
