"""`ddp-ppo evaluate MODEL ...`: whole episodes under fixed conditions, the same for every model and every time.

Seeds are those of the (first) model's own run unless others are asked for, and episodes run in blocks of one size: the
return that a run logged for its best model comes out again to the last bit on the same machine and backend. Statistics
over episodes tell how sure a policy's return is, not what another training seed would give. Two verdicts are kept
apart: whether episodes run at all, and whether the policy reaches the task's standard (`solved_return`).
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ddp_ppo.config.settings import Config
from ddp_ppo.maths.seeding import Purpose, stream
from ddp_ppo.maths.statistics import bootstrap_interval, iqm, iqm_of_rows, mean_of_rows, probability_of_improvement
from ddp_ppo.protocols import Policy
from ddp_ppo.runs.model import Model, acting_policy, make_envs
from ddp_ppo.sampling.drive import Player
from ddp_ppo.sampling.episodes import ENDLESS_STEPS, EVAL_BLOCK, Episode, blocks_of, evaluation_seeds, run_block
from ddp_ppo.sampling.finite import NonFiniteError
from ddp_ppo.text import table

_MOST_SHOWN = 20  # seeds that the table of episodes still shows
Actions = Literal["deterministic", "stochastic"]


@dataclass(frozen=True)
class Evaluation:
    """One model's episodes, in the order of their seeds.

    Attributes:
        model: what acted.
        actions: "deterministic", or "stochastic" for samples.
        episodes: seed, return, length and end of each; `end` is "terminated", "truncated" or "cut" (neither came).
    """

    model: Model
    actions: Actions
    episodes: tuple[Episode, ...]

    def __repr__(self) -> str:
        figures = f"{len(self.episodes)} episodes, return {self.return_mean:.6g} +- {self.return_std:.3g}"
        return f"Evaluation({self.model.path}, {self.actions}, {figures})"

    @property
    def returns(self) -> NDArray[np.float64]:
        """[num_episodes] raw."""
        return np.array([episode.episode_return for episode in self.episodes])

    @property
    def return_mean(self) -> float:
        """Mean of the returns."""
        return float(self.returns.mean())

    @property
    def return_std(self) -> float:
        """Standard deviation of the returns over the episodes."""
        return float(self.returns.std())

    @property
    def ends(self) -> dict[str, int]:
        """Episodes by why they ended."""
        return dict(Counter(episode.end for episode in self.episodes))

    @cached_property
    def summary(self) -> dict[str, Any]:
        """What is written down of it, plain values; an interval is None where there is one episode only."""
        returns, model = self.returns, self.model
        intervals = {
            "mean_interval": bootstrap_interval(returns, mean_of_rows),
            "iqm_interval": bootstrap_interval(returns, iqm_of_rows),
        }
        return {
            "model": model.name,
            "path": str(model.path),
            "round": model.info.get("round"),
            "actions": self.actions,
            "return_mean": self.return_mean,
            "return_std": self.return_std,
            "return_iqm": iqm(returns),
            **{name: None if np.isnan(low) else [low, high] for name, (low, high) in intervals.items()},
            "length_mean": float(np.mean([episode.length for episode in self.episodes])),
            "ends": self.ends,
            "logged_return": self.logged_return,
            "changed": list(model.changed),
            "episodes": [episode._asdict() for episode in self.episodes],
        }

    @property
    def logged_return(self) -> float | None:
        """What the run logged for this policy, seeds, actions and environment; None where it did not evaluate that."""
        seeds = [episode.seed for episode in self.episodes]
        is_own = self.actions == "deterministic" and seeds == own_seeds(self.model) and not self.model.changed
        return self.model.info.get("eval_return") if is_own else None


def own_seeds(model: Model, seed: int | None = None, num_episodes: int | None = None) -> list[int]:
    """The environment seeds of the evaluations of the model's run, or of a run with this seed and so many episodes."""
    seed = model.info.get("seed", Config.seed) if seed is None else seed
    return evaluation_seeds(seed, num_episodes or model.info.get("eval_episodes", Config.eval_episodes))


def evaluate(model: Model, seeds: Sequence[int], *, actions: Actions = "deterministic") -> Evaluation:
    """Runs one episode for each seed, with frozen statistics.

    Stochastic actions draw their noise from a stream named by the first seed of each block.

    Raises:
        EnvError, CheckpointError: the environment cannot be built, or is another one than the model's.
        NonFiniteError: a reward or an observation is not finite.
    """
    policy = evaluation_policy(model)

    def begin(block: Sequence[int]) -> Player:
        generator = stream(block[0], Purpose.ACTION_NOISE) if actions == "stochastic" else None
        return Player(policy, EVAL_BLOCK, generator)

    with make_envs(model, min(EVAL_BLOCK, len(seeds))) as env:
        episodes = [one for block in blocks_of(seeds) for one in run_block(env, partial(begin, block), block)]
    for episode in episodes:
        if episode.fault:
            raise NonFiniteError(f"{model.path}: {episode.fault}")
    return Evaluation(model, actions, tuple(episodes))


def evaluation_policy(model: Model) -> Policy:
    """What acted in the run's own evaluations."""
    return acting_policy(model, EVAL_BLOCK)


def write_csv(path: Path, evaluations: Sequence[Evaluation]) -> None:
    """One row for each episode."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["model", "path", "round", "actions", "seed", "return", "length", "end", "changed"])
        for one in evaluations:
            head = [one.model.name, one.model.path, one.model.info.get("round", ""), one.actions]
            writer.writerows([*head, *episode, "; ".join(one.model.changed)] for episode in one.episodes)


def evaluation_text(evaluations: Sequence[Evaluation]) -> str:
    """Tables and verdicts for a person."""
    parts = [_summary_table(evaluations)]
    if any(one.model.env_arguments != evaluations[0].model.env_arguments for one in evaluations):
        parts[0] += "\nnote: these models are of different environments or settings of them; returns may not compare"
    if len(evaluations[0].episodes) <= _MOST_SHOWN:
        parts.append(_episode_table(evaluations))
    return "\n\n".join([*parts, "\n".join(line for one in evaluations for line in _verdicts(one))])


def _summary_table(evaluations: Sequence[Evaluation]) -> str:
    first = evaluations[0]
    rows = [["model", "actions", "mean", "95 % of mean", "std", "IQM", "95 % of IQM", "length", "ends"]]
    for one in evaluations:
        s = one.summary
        numbers = [f"{s['return_mean']:.1f}", _interval(s["mean_interval"]), f"{s['return_std']:.1f}"]
        numbers += [f"{s['return_iqm']:.1f}", _interval(s["iqm_interval"]), f"{s['length_mean']:.1f}"]
        rows.append([one.model.name, one.actions, *numbers, ends(one)])
    if len(evaluations) > 1:
        better = [f"{probability_of_improvement(one.returns, first.returns):.2f}" for one in evaluations[1:]]
        for row, cell in zip(rows, ("P(> first)", "", *better), strict=True):
            row.append(cell)
    return table(rows, num_left=2)


def _episode_table(evaluations: Sequence[Evaluation]) -> str:
    rows = [["seed", *(f"{one.model.name} {one.actions}" for one in evaluations)]]
    for episodes in zip(*(one.episodes for one in evaluations), strict=True):
        cells = [f"{episode.episode_return:.2f} in {episode.length}, {episode.end}" for episode in episodes]
        rows.append([str(episodes[0].seed), *cells])
    return table(rows, num_left=0)


def _verdicts(one: Evaluation) -> list[str]:
    mean, solved, logged = one.summary["return_mean"], one.model.info.get("solved_return"), one.logged_return
    lines = [f"{one.model.name}, {one.actions}", f"  loop       runs: {len(one.episodes)} episodes, {ends(one)}"]
    if "cut" in one.ends:
        lines.append(f"  note       cut: no end and no time limit, {ENDLESS_STEPS:,} steps were counted")
    if one.model.changed:
        lines.append(f"  changed    {'; '.join(one.model.changed)}: not comparable with what the run logged")
    if logged is not None:
        verdict = (
            "the same to the last bit" if logged == mean else f"now {mean!r}; another machine, backend or release?"
        )
        lines.append(f"  logged     {logged!r} in round {one.model.info['round']}: {verdict}")
    if solved is not None and one.actions == "deterministic" and not one.model.changed:
        verdict = "reached" if mean >= solved else "not reached"
        lines.append(f"  standard   solved_return {solved:g}: {verdict} ({mean:.1f})")
    return lines


def ends(one: Evaluation) -> str:
    """Why its episodes ended, in words."""
    return ", ".join(f"{count} {end}" for end, count in sorted(one.ends.items()))


def _interval(bounds: list[float] | None) -> str:
    return "-" if bounds is None else f"{bounds[0]:.1f} .. {bounds[1]:.1f}"
