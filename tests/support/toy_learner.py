"""Kinds of learners as a module outside of the package would have them: one that fits, and some that do not."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import ClassVar

from ddp_ppo.config.rules import NoEffect, Rule
from ddp_ppo.config.setting import setting


@dataclass(frozen=True, kw_only=True)
class ToySettings:
    """Settings of a learner that does not exist."""

    title: ClassVar[str] = "the toy"
    unread: ClassVar[tuple[str, ...]] = ("gae_lambda",)
    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            ("toy.step", "gamma"),
            lambda c: c.section.step > c.gamma,
            lambda c: f"toy.step: {c.section.step} is more than gamma: {c.gamma}",
        ),
    )
    no_effects: ClassVar[tuple[NoEffect, ...]] = (
        NoEffect("toy.way", "toy.num_steps", lambda number: number is None, "no step is taken"),
    )

    step: float = setting(0.5, above=0, high=1, doc="Size of a step.")
    num_steps: int | None = setting(3, low=1, doc="Steps of a round.")
    way: str = setting("up", doc="Where they lead.")


@dataclass(frozen=True, kw_only=True)
class BareSettings:
    """A field that is not declared as a setting."""

    step: float = 0.5


@dataclass(kw_only=True)
class LooseSettings:
    """Settings that could be changed."""

    step: float = setting(0.5, doc="Size of a step.")


TOY = SimpleNamespace(name="toy", settings=ToySettings)
NO_SETTINGS = SimpleNamespace(name="toy")
TAKEN = SimpleNamespace(name="ppo", settings=ToySettings)
GENERAL = SimpleNamespace(name="seed", settings=ToySettings)
FLAT = SimpleNamespace(name="clip_range", settings=ToySettings)
MEMBER = SimpleNamespace(name="origins", settings=ToySettings)
KEY = SimpleNamespace(name="inherits", settings=ToySettings)
KEYWORD = SimpleNamespace(name="class", settings=ToySettings)
SPACED = SimpleNamespace(name="a toy", settings=ToySettings)
BARE = SimpleNamespace(name="bare", settings=BareSettings)
LOOSE = SimpleNamespace(name="loose", settings=LooseSettings)
PLAIN = SimpleNamespace(name="plain", settings=dict)
