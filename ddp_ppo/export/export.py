"""`ddp-ppo export`: a policy as files that act without this package, each loaded again and compared with the policy.

policy.onnx    raw observations [N, D] in, actions out: normaliser, actor, clip or choice in one graph, any N
policy.npz     the same numbers for run_policy.py, which needs NumPy alone; not of a policy with convolutions
policy.json    what each column is, limits, time step, versions, hashes, and how near the files are to the policy
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import math
from contextlib import chdir
from dataclasses import asdict, dataclass
from pathlib import Path
from shlex import quote
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddp_ppo.config.settings import ConfigError
from ddp_ppo.envs.columns import Interface, describe_interface
from ddp_ppo.export import run_policy
from ddp_ppo.export.onnx_graph import onnx_graph
from ddp_ppo.export.parity import (
    NUM_EXTREME,
    NUM_REAL,
    Acted,
    Behaviour,
    Parity,
    beginning,
    measure,
    observations,
    policy_act,
    tolerance_of,
    torch_act,
)
from ddp_ppo.export.run_policy import TOLERANCE
from ddp_ppo.policies.normalizer import Normalizer
from ddp_ppo.protocols import FloatArray
from ddp_ppo.runs.files import write_atomically
from ddp_ppo.runs.model import Model, load_model
from ddp_ppo.runs.model_env import in_environment
from ddp_ppo.runs.versions import versions
from ddp_ppo.text import entry

FORMAT = 1
NOTE = (
    "These files compute the actions that training computed. That does not validate it on a real robot: where its "
    "observations come from, delays, actuators and safety limits were not looked at. Neither does policy.onnx look "
    "whether an observation is finite: it acts on a NaN as on any other value."
)
RULE = (
    f"{TOLERANCE:g} of a row's largest output, which counts as 1 at least; sqrt(n / 256) times as much where the "
    "longest sum has n > 256 terms"
)
_NUM_CHECKED = 64  # observations of each kind that run_policy.py repeats


@dataclass(frozen=True)
class Exported:
    """What was written, and how near it is to the policy.

    Attributes:
        folder: holds the files.
        parities: training's own actors first, then each artefact.
        document: the content of policy.json.
    """

    folder: Path
    parities: list[Parity]
    document: dict[str, Any]

    @property
    def has_passed(self) -> bool:
        """Whether every artefact acts as the policy does."""
        return all(parity.has_passed for parity in self.parities)


def has_extra() -> bool:
    """Whether the packages are there that write and run ONNX files."""
    return all(importlib.util.find_spec(package) for package in ("onnx", "onnxruntime"))


def export(place: str | Path, folder: str | Path | None = None) -> Exported:
    """Exports the model of a run folder, a checkpoint or a model file.

    Args:
        folder: where to; without one `<model>_export` beside the model file.

    Raises:
        ConfigError: the extra is missing, or the folder cannot be made.
        CheckpointError, EnvError: no model there, or its environment cannot be built.
    """
    if not has_extra():
        raise ConfigError("export needs onnx and onnxruntime: pip install 'ddp-ppo[export]'")
    model = in_environment(load_model(place))
    if ":" in (custom := model.info.get("policy_backend", "")):
        raise ConfigError(
            f"export: {model.path} acts through the custom policy {custom}; only MLPs and convolutions are exported"
        )
    target = model.path.with_name(f"{model.path.stem}_export") if folder is None else Path(folder)
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"--out: cannot create {target}: {error.strerror}") from None
    return export_model(model, target)


def export_model(model: Model, folder: Path) -> Exported:
    """Writes the files into an existing folder, loads them again and compares them with the policy."""
    interface = describe_interface(model.env_arguments)
    with chdir("."):  # an environment may go to another folder
        obs = observations(model)
    write_onnx(model, folder, interface)
    acts = {"training's actors": policy_act(model), "policy.onnx": onnx_act(model, folder)}
    if model.network.is_mlp:
        write_numpy(model, folder, obs)
        acts["run_policy.py"] = runner_act(model, folder)
    with chdir("."):
        parities = measure(model, acts, obs)
    document = _finite(describe(model, interface, folder, parities))
    _write_text(folder / "policy.json", json.dumps(document, indent=2, allow_nan=False) + "\n")
    return Exported(folder, parities, document)


def write_numpy(model: Model, folder: Path, obs: FloatArray) -> None:
    """Writes policy.npz and run_policy.py; of obs [N, D] the first and the last ones are stored to check with."""
    checked = np.concatenate([obs[:_NUM_CHECKED], obs[-_NUM_CHECKED:]])
    expected = torch_act(model)(checked, beginning(model, len(checked))).output
    checks = {"check_obs": checked, "check_output": expected, "tolerance": np.array(tolerance_of(model.network))}
    arrays = {**_constants(model), **checks}
    write_atomically(folder / "policy.npz", lambda file: np.savez(file, allow_pickle=False, **arrays))
    source = Path(run_policy.__file__).read_bytes()
    write_atomically(folder / "run_policy.py", lambda file: file.write(source))


def _constants(model: Model) -> dict[str, NDArray[Any]]:
    """Everything that acting takes, by name: normaliser, weights [inputs, outputs], biases, bounds."""
    env, network = model.env, model.network
    normalizer = Normalizer(network.obs_size, scale=network.obs_scale)
    normalizer.load(model.obs_rms_state)
    blocks = [layer.view(model.parameters) for layer in network.trunk("actor")]
    return {
        "activation": np.array(network.activation),
        "action_kind": np.array(env.action_kind),
        "mean": normalizer.mean,
        "inv_std": normalizer.inv_std,
        "clip": np.array(normalizer.clip, np.float32),
        **{f"weight{index}": block[:-1] for index, block in enumerate(blocks)},
        **{f"bias{index}": block[-1] for index, block in enumerate(blocks)},
        **env.action.constants(),
    }


def write_onnx(model: Model, folder: Path, interface: Interface) -> None:
    """Writes policy.onnx: see onnx_graph."""
    constants = {name: array for name, array in _constants(model).items() if array.dtype.kind != "U"}
    content = onnx_graph(model, constants, interface, NOTE)
    write_atomically(folder / "policy.onnx", lambda file: file.write(content))


def onnx_act(model: Model, folder: Path) -> Behaviour:
    """policy.onnx as onnxruntime runs it on one core."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(folder / "policy.onnx", options, providers=["CPUExecutionProvider"])

    def act(obs: FloatArray, state: FloatArray) -> Acted:
        action, output = session.run(["action", "output"], {"obs": obs})
        return Acted(output, model.env.action.from_own(action))

    return act


def runner_act(model: Model, folder: Path) -> Behaviour:
    """run_policy.py of the folder, executed as it lies there."""
    runner = ModuleType("exported_run_policy")
    exec(compile((folder / "run_policy.py").read_text(), folder / "run_policy.py", "exec"), vars(runner))
    policy = runner.Policy(folder / "policy.npz")
    return lambda obs, state: Acted(policy.output(obs), model.env.action.from_own(policy(obs)))


def describe(model: Model, interface: Interface, folder: Path, parities: list[Parity]) -> dict[str, Any]:
    """The content of policy.json."""
    env, state, head = model.env, model.obs_rms_state, model.env.action.head
    obs: list[dict[str, Any]] = [column._asdict() for column in interface.obs]
    for column, number in zip(obs, interface.obs_values, strict=False):
        column["value"] = number
    if state is not None:
        for entry, mean, var in zip(obs, state["mean"], state["var"], strict=True):
            entry |= {"mean": float(mean), "std": math.sqrt(var)}
    values = env.action.document()
    for value, box in zip(values, interface.choices, strict=False):
        value["box"] = [*box]
    action = [column._asdict() | value for column, value in zip(interface.action, values, strict=True)]
    files = ("policy.onnx", "policy.npz", "run_policy.py") if model.network.is_mlp else ("policy.onnx",)
    return {
        "format": FORMAT,
        "note": NOTE,
        "env": {
            "env_id": env.env_id,
            "env_kwargs": model.env_arguments.get("env_kwargs", {}),
            "max_episode_steps": env.max_episode_steps,
            "changed": list(model.changed),
        },
        "obs": {"dtype": "float32", "shape": ["N", env.obs_size], "columns": obs},
        "action": {
            "kind": env.action_kind,
            "dtype": head.act_dtype,
            "shape": ["N", *head.act_shape],
            "choices" if env.action.has_alternatives else "columns": action,
        },
        "dt_seconds": interface.dt_seconds,
        "frame_skip": interface.frame_skip,
        "network": asdict(model.network),
        "source": {"file": str(model.path), "sha256": _sha256(model.path), **model.info},
        "files": {name: {"sha256": _sha256(folder / name)} for name in files},
        "parity": {
            "reference": "the policy in torch",
            "precision": "float32, one thread of a CPU, each in its own order of sums",
            "tolerance": tolerance_of(model.network),
            "tolerance_rule": RULE,
            "num_real_obs": NUM_REAL,
            "num_extreme_obs": NUM_EXTREME,
            "has_passed": all(parity.has_passed for parity in parities),
            "results": [parity._asdict() for parity in parities],
        },
        "versions": versions("onnx", "onnxruntime"),
    }


def _finite(value: Any) -> Any:
    """JSON has no infinity and no NaN: they become None, all the way down."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _write_text(path: Path, text: str) -> None:
    write_atomically(path, lambda file: file.write(text.encode()))


def export_text(exported: Exported) -> str:
    """The result as a table, and what to do next."""
    head = f"{'':18} {'observations':>12} {'episode':>9} {'its return':>12} {'length':>7}"
    rows = [
        f"{name:18} {obs_error:12.1e} {episode_error:9.1e} {episode_return:12.3f} {length:7d}"
        for name, obs_error, episode_error, episode_return, length, _ in exported.parities
    ]
    verdict = "PASS" if exported.has_passed else "FAIL"
    tolerance = exported.parities[0].tolerance
    warning = "" if exported.has_passed else "do not use these files; "
    allowed = f"{warning}allowed is {tolerance:.2g} from the policy in torch"
    return "\n".join(
        [
            f"largest errors on {NUM_REAL:,} real and {NUM_EXTREME:,} extreme observations, and along an episode",
            head,
            *rows,
            entry(verdict, f"{allowed} on the same observations; returns may differ more, where rounding grows"),
            *(entry("changed", f"{change} since the training") for change in exported.document["env"]["changed"]),
            entry("note", NOTE),
            entry("files", f"{exported.folder}: {', '.join((*exported.document['files'], 'policy.json'))}"),
            *(
                f"run it         python {quote(str(exported.folder / name))}"
                for name in exported.document["files"]
                if name == "run_policy.py"
            ),
        ]
    )
