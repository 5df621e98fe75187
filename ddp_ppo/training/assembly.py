"""Puts the parts of one learner's run together, each after what it needs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

import torch

from ddp_ppo.distributed.group import LearnerGroup
from ddp_ppo.learners.interface import Workplace
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
from ddp_ppo.training.resources import ResourceMeter
from ddp_ppo.training.sampler import Sampler, actor_jobs
from ddp_ppo.training.saving import Saver
from ddp_ppo.training.sync import Sync, share_folder


class Parts:
    """What a run consists of in a learner's process, with actors that are ready.

    Attributes:
        recorder, evaluator, saver, diagnosis, meter: what is written, and what of.
        block, pool, sampler: the shared memory, the actors, and the rollouts that they fill.
        group, learner, sync: the other learners, this one, and what keeps them together.
    """

    def __init__(
        self,
        plan: Plan,
        start: StartingPoint,
        *,
        console: Console,
        stop: StopRequest,
        stack: ExitStack,
        num_done: Callable[[], int],
    ) -> None:
        """Makes each part after those that it needs.

        Args:
            start: what a fresh learner starts from.
            stack: closes everything.
            num_done: how many rounds are done, whenever it is called.

        Raises:
            CutShort: a stop request came before the actors were ready.
        """
        # First: whatever fails from here on is written down in the run folder.
        self.recorder = stack.enter_context((Recorder if plan.topology.rank == 0 else FaultRecorder)(plan, console))
        for note in plan.notes:
            self.recorder.say(f"note: {note}")
        self._start_processes(plan, stack, num_done)
        self._make_learner(plan, start, stop)
        with stop.cuttable():
            self.pool.wait_ready()
        self.meter = ResourceMeter(lambda: self.pool.pids, torch.device(plan.topology.device))

    def _start_processes(self, plan: Plan, stack: ExitStack, num_done: Callable[[], int]) -> None:
        """Starts the actors, then meets the other learners: environments are built in the meantime."""
        recorder, topology, seconds = self.recorder, plan.topology, plan.config.collective_timeout_seconds
        self.block = SharedBlock(plan.block_shapes)
        stack.callback(self.block.close)
        pool = _started(
            plan,
            self.block,
            on_restart=lambda what: recorder.event("actor_restart", num_done(), what),
            say=recorder.say,
        )
        self.pool = stack.enter_context(pool)
        self.group = stack.enter_context(LearnerGroup(topology, timeout_seconds=seconds))
        recorder.join(share_folder(self.group, recorder.path, num_done()))
        stack.enter_context(page_locked(self.block.memory, topology.device, recorder.say))

    def _make_learner(self, plan: Plan, start: StartingPoint, stop: StopRequest) -> None:
        """Makes the learner, which trains in the block, is helped by an actor and averages with the group."""
        recorder, config = self.recorder, plan.config
        workplace = Workplace(start=start, group=self.group, arrays=self.block.arrays, pool=self.pool)
        self.learner = plan.kind.make(plan, workplace)
        self.sampler = Sampler(plan, self.block, self.pool)
        self.diagnosis = Diagnosis(plan, self.learner, sampler=self.sampler, recorder=recorder)
        table, interval = (*METRICS, *plan.kind.metrics), config.param_sync_interval
        self.sync = Sync(self.group, self.learner, table, interval=interval, num_rounds=plan.num_rounds)
        self.evaluator = Evaluator(
            plan, self.sampler, sync=self.sync, diagnosis=self.diagnosis, recorder=recorder, stop=stop
        )
        self.saver = Saver(self.group, self.sync, evaluator=self.evaluator, recorder=recorder)


def _started(
    plan: Plan, block: SharedBlock, *, on_restart: Callable[[str], None], say: Callable[[str], None]
) -> ActorPool:
    return ActorPool(
        actor_jobs(plan, block),
        timeout_seconds=plan.config.actor_timeout_seconds,
        max_restarts=plan.config.max_actor_restarts,
        on_restart=on_restart,
        say=say,
    )
