"""The global random generators of this process, which environments may draw from: saved and restored as plain values.

They are those of `random`, of NumPy (`numpy.random.seed`) and, if the process has loaded it, of torch on the CPU.
Torch is not imported here.
"""

from __future__ import annotations

import random
import sys
from typing import Any

import numpy as np

PlainState = dict[str, Any]


def save_global_generators() -> PlainState:
    """Where the generators stand, as arrays and plain values."""
    version, words, gauss = random.getstate()
    state: PlainState = {
        "random": {"version": version, "words": words, "gauss": gauss},
        "numpy": np.random.get_state(legacy=False),
    }
    if torch := sys.modules.get("torch"):
        state["torch"] = torch.get_rng_state().numpy()
    return state


def restore_global_generators(state: PlainState) -> None:
    """Continues from what `save_global_generators` returned, as far as this process has the same generators."""
    own = state["random"]
    random.setstate((own["version"], tuple(own["words"]), own["gauss"]))
    np.random.set_state(state["numpy"])
    if (torch := sys.modules.get("torch")) and "torch" in state:
        torch.set_rng_state(torch.from_numpy(state["torch"]))
