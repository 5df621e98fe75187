"""What is registered with Gymnasium under an id: finding it, importing its module, and what to do if there is none."""

from __future__ import annotations

import difflib
import importlib
import os
import re
import sys
from types import ModuleType

import gymnasium
from gymnasium.envs.registration import EnvSpec as RegisteredEnv
from gymnasium.envs.registration import WrapperSpec

from ddp_ppo.envs.graphics import explained
from ddp_ppo.envs.untouched import untouched
from ddp_ppo.errors import EnvError, blamed

_NEAR = 0.75  # how alike two ids have to be, without their versions, for one to be a slip of the other
# Which package registers ids that begin so, of packages that Gymnasium does not load on its own.
_PACKAGES = {
    "ALE/": "ale_py",
    "MiniGrid-": "minigrid",
    "BabyAI-": "minigrid",
    "Fetch": "gymnasium_robotics",
    "Hand": "gymnasium_robotics",
    "AntMaze_": "gymnasium_robotics",
    "PointMaze_": "gymnasium_robotics",
    "Adroit": "gymnasium_robotics",
    "FrankaKitchen-": "gymnasium_robotics",
    "dm_control/": "shimmy",
    "highway-": "highway_env",
    "Meta-World/": "metaworld",
}


def find_registered(env_id: str) -> RegisteredEnv:
    """Finds the registered environment `name` or `module:name`, importing the module first. Raises EnvError."""
    module, _, name = env_id.rpartition(":")
    if not name:
        raise EnvError(f"env_id {env_id!r}: a name is missing after the colon, as in my_envs:Tiny-v0")
    if module:
        import_module(module, env_id)
    if name not in gymnasium.registry:
        raise EnvError(f"env_id {env_id!r}: no environment {name!r} is registered; {_advice(module, name)}")
    return gymnasium.registry[name]


def _advice(module: str, name: str) -> str:
    """What to do about an id that is not registered: the nearest one, or the module that would register it."""
    known = {_without_version(one): one for one in sorted(gymnasium.registry)}  # the latest version of each
    if nearest := difflib.get_close_matches(_without_version(name), known, n=1, cutoff=_NEAR):
        return f"the nearest known one is {known[nearest[0]]!r}"
    if module:
        return f"module {module!r} does not register it: gymnasium.register has to run when the module is imported"
    package = next((package for start, package in _PACKAGES.items() if name.startswith(start)), None)
    example = f"{package}:{name}" if package else f"my_module:{name}"
    return f"put the package's module in front, which registers it: {example}"


def _without_version(name: str) -> str:
    return re.sub(r"-v\d+$", "", name).lower()


def require_wrapper_specs(registered: RegisteredEnv) -> None:
    """Raises EnvError where a registration names a wrapper in a way from which Gymnasium cannot build it."""
    for wrapper in registered.additional_wrappers:
        if not isinstance(wrapper, WrapperSpec) or wrapper.kwargs is None:
            name = getattr(wrapper, "name", getattr(wrapper, "__name__", repr(wrapper)))
            place = getattr(wrapper, "entry_point", f"{getattr(wrapper, '__module__', 'module')}:{name}")
            raise EnvError(
                f"{registered.id}: additional_wrappers cannot build {name}: register a function that returns the "
                f"wrapped environment, or give WrapperSpec({name!r}, {place!r}, kwargs={{}}); see docs/environments.md"
            )


def import_module(name: str, wanted_by: str) -> ModuleType:
    """Imports a user's module; the current directory counts as a place for modules, also in spawned children."""
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    with untouched(), explained(), blamed(f"{wanted_by}: cannot import module {name!r}"):
        return importlib.import_module(name)
