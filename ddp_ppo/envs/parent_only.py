"""Whether actors will know an environment that this process knows: a script or a notebook may be all that registers it.

Actors are new processes. They import the module in front of the colon, and the script that is running, but not what it
does below `if __name__ == "__main__":`, and no notebook. Whether they know an id is tried in such a process.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import gymnasium

from ddp_ppo.envs.build import own_class_path
from ddp_ppo.envs.multi_task import task_ids
from ddp_ppo.envs.registered import find_registered, import_module
from ddp_ppo.errors import EnvError
from ddp_ppo.processes.apart import ApartError, run_apart

_SECONDS = 60.0


def require_known_to_actors(env_id: str | Sequence[str], backend: str = "auto") -> None:
    """Raises EnvError if actors would not find the environment, or another one, under this id.

    Only where that is possible a process is started, which takes about half a second.
    """
    for one in task_ids(env_id):
        if not _may_be_known_here_alone(one, backend):
            continue
        here = _origin(one, backend)
        advice = (
            f"register it in a module, which actors import first: env_id={_module_of(one)}:{one.rpartition(':')[2]}"
        )
        try:
            there = run_apart(_origin, one, backend, seconds=_SECONDS)
        except ApartError as error:
            why = "only this process knows it, actors are processes of their own"
            raise EnvError(f"{one}: {why}; {advice}") from error
        if there != here:
            raise EnvError(f"{one}: here it is {here}, in actors, which are processes of their own, {there}; {advice}")


def _module_of(env_id: str) -> str:
    """Where it is defined; of a script or a notebook an example, as it has to be moved."""
    entry_point = gymnasium.registry[env_id].entry_point if env_id in gymnasium.registry else None
    module = getattr(entry_point, "__module__", "__main__")
    return "my_module" if module == "__main__" else str(module)


def _may_be_known_here_alone(env_id: str, backend: str) -> bool:
    path = own_class_path(env_id, backend) or env_id
    module = path.rpartition(":")[0]
    if module:
        return module == "__main__" or getattr(sys.modules.get(module), "__file__", None) is None
    entry_point = gymnasium.registry[env_id].entry_point
    return not (isinstance(entry_point, str) and entry_point.startswith("gymnasium.envs."))


def _origin(env_id: str, backend: str) -> str:
    """What stands behind an id, in words that are the same in every process."""
    path = own_class_path(env_id, backend)
    if path is not None:
        module, _, name = path.rpartition(":")
        return _place(getattr(import_module(module, path), name))
    spec = find_registered(env_id)
    entry_point = spec.entry_point if isinstance(spec.entry_point, str) else _place(spec.entry_point)
    return f"{entry_point} with {spec.kwargs} and max_episode_steps {spec.max_episode_steps}"


def _place(thing: Any) -> str:
    module = getattr(thing, "__module__", "").replace("__mp_main__", "__main__")  # what actors call the script
    return f"{module}:{getattr(thing, '__qualname__', type(thing).__name__)}"
