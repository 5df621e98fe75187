"""Acts with a policy that `ddp-ppo export` wrote. Needs Python, NumPy and policy.npz beside this file, nothing else.

    python run_policy.py            acts on the stored observations and compares with the actions that training gave
    python run_policy.py OBS.csv    prints the action for each row of raw observations

    from run_policy import Policy
    action = Policy("policy.npz")(obs)    # obs [D] or [N, D] as the environment gives it; policy.json names the columns

It computes what training computed. That does not validate it on a real robot: where its observations come from, delays,
actuators and safety limits are another matter.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

TOLERANCE = 1e-5
ACTIVATIONS: dict[str, Any] = {
    "tanh": np.tanh,
    "relu": lambda x: np.maximum(x, 0.0),
    "elu": lambda x: np.maximum(x, 0.0) + np.expm1(np.minimum(x, 0.0)),
}
# How outputs become the environment's actions, by the kind of the action space.
DECISIONS: dict[str, Any] = {
    "box": lambda output, arrays: np.clip(output, arrays["action_low"], arrays["action_high"]),
    "discrete": lambda output, arrays: output.argmax(-1) + arrays["action_start"],
}


class Policy:
    """The deterministic policy: the mean, clipped to the action's limits, or the likeliest choice."""

    def __init__(self, path: Any) -> None:
        with np.load(path, allow_pickle=False) as file:
            self.arrays = dict(file)
        num_layers = sum(name.startswith("weight") for name in self.arrays)
        self.layers = [(self.arrays[f"weight{i}"], self.arrays[f"bias{i}"]) for i in range(num_layers)]
        self.activation = ACTIVATIONS[str(self.arrays["activation"])]

    def __call__(self, obs: Any) -> Any:
        """The action [A] or [N, A] float32, or the choice, an integer or [N]; ValueError for an unfit observation."""
        return self.decide(self.output(obs))

    def output(self, obs: Any) -> Any:
        """What the network says: the means or logits [A] or [N, A]."""
        x, arrays = np.asarray(obs, np.float32), self.arrays
        if x.shape[-1:] != arrays["mean"].shape:
            raise ValueError(f"an observation has {len(arrays['mean'])} columns, not the shape {x.shape}")
        if not np.isfinite(x).all():
            raise ValueError(f"observation not finite in column {np.argwhere(~np.isfinite(x))[0][-1]}")
        x = np.clip((x - arrays["mean"]) * arrays["inv_std"], -arrays["clip"], arrays["clip"])
        for weight, bias in self.layers[:-1]:
            x = self.activation(x @ weight + bias)
        return x @ self.layers[-1][0] + self.layers[-1][1]

    def decide(self, output: Any) -> Any:
        """The action for the environment."""
        return DECISIONS[str(self.arrays["action_kind"])](output, self.arrays)

    def error(self) -> float:
        """The largest difference from training's outputs on the stored observations, as a part of the largest output.

        Outputs below 1 count as 1.
        """
        expected = self.arrays["check_output"]
        scale = np.maximum(np.abs(expected).max(-1, keepdims=True), 1.0)
        return float((np.abs(self.output(self.arrays["check_obs"]) - expected) / scale).max())


def main(words: list[str]) -> int:
    """Checks itself, or acts on the rows of a file; returns the exit status."""
    policy = Policy(Path(__file__).with_name("policy.npz"))
    if words:
        try:
            actions = policy(np.loadtxt(words[0], np.float32, delimiter=",", ndmin=2))
        except (OSError, ValueError) as problem:
            sys.exit(f"{words[0]}: {problem}")
        np.savetxt(sys.stdout, actions.reshape(len(actions), -1), "%.9g", ",")
        return 0
    error, num_checked = policy.error(), len(policy.arrays["check_obs"])
    allowed = float(policy.arrays.get("tolerance", TOLERANCE))
    verdict = "PASS" if error <= allowed else "FAIL"
    print(
        f"{verdict}: largest difference from training on {num_checked} observations {error:.1e}, allowed {allowed:.2g}"
    )
    return 0 if verdict == "PASS" else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
