"""Compares the training speed of this working tree with other PPO trainers: the same work, in alternating runs.

`python bench/peers.py --peers sb3,cleanrl --shape small --repeats 3` runs ours and each peer in turn, prints a table
and, as its last line, one JSON object. A peer is a script in `peers/` and a virtual environment in `.venvs/`, made on
demand. It measures the machine as it is, so nothing else should run on it. See README.md beside this file.
"""

from __future__ import annotations

import argparse
import csv
import fcntl
import json
import os
import platform
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent / "peers"))

from environments import BENCH, PEERS, PLOT, ROOT, VENVS, RunError, install, last_json, python_of, run, say
from peer_report import OWN, markdown, summary, write
from workload import SHAPES, WARMUP_ROUNDS, Shape, Work, learning, num_rounds

QUIET_LOAD = 0.5  # of the last minute; more, and something else is likely to run
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the comparison; exits 1 where no peer could be measured."""
    options = parse(arguments)
    VENVS.mkdir(exist_ok=True)
    with open(VENVS / "lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("peers.py: another comparison is running on this machine")
            return 2
        failures = install_all(options)
        if options.install_only:
            print(json.dumps({"failures": failures}))
            return 1 if failures else 0
        try:
            result = compare(options, failures)
        except RunError as error:
            say(f"peers.py: {OWN} failed: {error}")
            return 1
        print(markdown(result))
        if options.out:
            options.out.parent.mkdir(parents=True, exist_ok=True)
            write(result, options.out.with_suffix(".md"), draw(result, options.out.with_suffix(".png")))
    print(json.dumps(result))
    return 0 if result["ratios"] else 1


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peers", type=_peer_names, default=list(PEERS), help=f"of {','.join(PEERS)}; default: all")
    parser.add_argument("--shape", choices=SHAPES, default="small")
    parser.add_argument("--repeats", type=_positive, default=3, help="pairs of runs for each peer")
    parser.add_argument("--steps", type=_positive, help="environment steps of each run; default: the shape's")
    parser.add_argument("--threads", type=_positive, default=1, help="torch threads of each peer")
    parser.add_argument("--out", type=Path, help="writes OUT.md and OUT.png, such as docs/peers_small")
    parser.add_argument("--python", default=_default_python(), help="runs ours and makes the peers' environments")
    parser.add_argument("--install-only", action="store_true", help="makes the environments and measures nothing")
    options = parser.parse_args(arguments)
    if (python := shutil.which(options.python)) is None:
        parser.error(f"--python: {options.python}: no such program")
    options.python = os.path.abspath(python)  # runs start in folders of their own; a link stays a link
    if options.out:
        options.out = options.out.with_suffix("")
    return options


def _peer_names(text: str) -> list[str]:
    names = list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    unknown = [name for name in names if name not in PEERS]
    if unknown or not names:
        raise argparse.ArgumentTypeError(f"{', '.join(unknown) or 'nothing'}: choose from {', '.join(PEERS)}")
    return names


def _positive(text: str) -> int:
    number = int(float(text)) if re.fullmatch(r"[\d.]+e\d+", text) else int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text}: must be at least 1")
    return number


def _default_python() -> str:
    own = ROOT / ".venv" / "bin" / "python"
    return str(own) if own.exists() else sys.executable


def install_all(options: argparse.Namespace) -> dict[str, str]:
    """Makes the environments before anything is measured; returns the reasons of those that could not be made."""
    wanted = {name: PEERS[name] for name in options.peers} | ({"plot": PLOT} if options.out else {})
    failures = {}
    for name, peer in wanted.items():
        try:
            install(name, peer, options.python)
        except RunError as error:
            failures[name] = f"not installed: {error}"
            say(f"{name}: {failures[name]}")
    return failures


def compare(options: argparse.Namespace, failures: Mapping[str, str]) -> dict[str, Any]:
    """Runs ours and a peer next to each other, peer by peer, `repeats` times over; a peer that fails is left out.

    Raises:
        RunError: ours failed.
    """
    failed = {name: reason for name, reason in failures.items() if name in PEERS}
    shape, about = SHAPES[options.shape], machine(options.python)
    if about["load"] > QUIET_LOAD:
        say(f"note: the load of this machine was {about['load']} before the first run; it should be near 0")
    own_versions = about.pop("versions")
    pairs: dict[str, list[tuple[dict[str, Any], dict[str, Any]]]] = {name: [] for name in options.peers}
    for repeat in range(1, options.repeats + 1):
        for name in (name for name in options.peers if name not in failed):
            own = run_own(options, seed=repeat) | {"versions": own_versions}
            say(f"{repeat}/{options.repeats} {OWN}: {_run_line(own)}")
            try:
                peer = run_peer(name, options, seed=repeat)
            except RunError as error:
                failed[name] = f"failed: {error}"
                say(f"{repeat}/{options.repeats} {name}: {failed[name]}")
                continue
            say(f"{repeat}/{options.repeats} {name}: {_run_line(peer)}")
            pairs[name].append((own, peer))
    return {
        "shape": options.shape,
        "steps": num_rounds(shape, options.steps) * shape.samples,
        "repeats": options.repeats,
        "threads": options.threads,
        "machine": about,
        **summary(pairs),
        "failures": failed,
    }


def run_own(options: argparse.Namespace, *, seed: int) -> dict[str, Any]:
    """One run of train.py as a user starts it; its speed is read from its metrics."""
    shape = SHAPES[options.shape]
    environ = {key: value for key, value in os.environ.items() if key not in THREAD_VARIABLES}
    with tempfile.TemporaryDirectory(prefix="ddp-ppo-bench-") as folder:
        metrics = Path(folder) / "metrics.csv"
        command = [options.python, str(ROOT / "train.py"), str(ROOT / "configs" / "half_cheetah.yaml")]
        settings = own_settings(shape, options.steps) | {"seed": seed, "output_dir": folder, "metrics_path": metrics}
        run([*command, *(f"{key}={value}" for key, value in settings.items())], environ | {"CUDA_VISIBLE_DEVICES": ""})
        with open(metrics, newline="") as file:
            result = own_result(list(csv.DictReader(file)))
    return result | {"num_envs": shape.own[0] * shape.own[1]}


def own_settings(shape: Shape, steps: int | None) -> dict[str, Any]:
    """Settings of train.py for a shape: the peers' constants, evaluated once at the end."""
    num_actors, envs_per_actor, rollout_length = shape.own
    return {
        "env_id": shape.env_id,
        "device": "cpu",
        "total_env_steps": num_rounds(shape, steps) * shape.samples,
        "num_actors": num_actors,
        "envs_per_actor": envs_per_actor,
        "rollout_length": rollout_length,
        "minibatch_size": shape.minibatch_size,
        "hidden_sizes": str(list(shape.hidden_sizes)),
        "num_epochs": Work.num_epochs,
        "learning_rate_schedule": "constant",
        "value_coef": Work.value_coef,
        "init_log_std": 0.0,
        "eval_interval": 0,
        "eval_episodes": 1,
    }


def own_result(rows: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    """Speed and returns from the rows of metrics.csv; the warm-up and the last round, which evaluates, do not count."""
    first, last = rows[WARMUP_ROUNDS - 1], rows[-2]
    seconds = float(last["time/elapsed_seconds"]) - float(first["time/elapsed_seconds"])
    returns = []
    for row in rows:
        if row["rollout/episode_return_mean"]:
            returns += [float(row["rollout/episode_return_mean"])] * int(row["rollout/episodes"])
    steps = float(last["env_steps"]) - float(first["env_steps"])
    return {"steps_per_second": steps / seconds, "seconds": seconds, **learning(returns)}


def run_peer(name: str, options: argparse.Namespace, *, seed: int) -> dict[str, Any]:
    """One run of a peer's script; its last line is the result."""
    words = ["--shape", options.shape, "--seed", str(seed), "--threads", str(options.threads)]
    words += ["--steps", str(options.steps)] if options.steps else []
    environ = {**os.environ, **{key: str(options.threads) for key in THREAD_VARIABLES}, "CUDA_VISIBLE_DEVICES": ""}
    output = run([python_of(name), str(BENCH / "peers" / f"{name}_ppo.py"), *words], environ)
    return last_json(output)


_OWN_VERSIONS = """
import json
from importlib.metadata import version
import ddp_ppo
names = ("torch", "numpy", "gymnasium", "mujoco")
print(json.dumps({"ddp_ppo": ddp_ppo.__version__, **{name: version(name) for name in names}}))
"""


def machine(python: str) -> dict[str, Any]:
    """Where it is measured, with the `versions` that ours runs with."""
    try:
        cpu = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        cpu = None
    found = last_json(run([python, "-c", _OWN_VERSIONS], {**os.environ, "PYTHONPATH": str(ROOT)}))
    return {
        "cpu": cpu[1] if cpu else platform.processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "python": run([python, "-V"]).split()[1],
        "torch": found["torch"],
        "load": round(os.getloadavg()[0], 2),
        **{name: value for name, value in os.environ.items() if name.startswith("OPENBLAS_")},
        "versions": found,
    }


def _run_line(result: Mapping[str, Any]) -> str:
    returns = f", return {result['first_return']:.0f} -> {result['return']:.0f}" if result["return"] is not None else ""
    return f"{result['steps_per_second']:,.0f} steps/s over {result['seconds']:.1f} s{returns}"


def draw(result: Mapping[str, Any], image: Path) -> Path | None:
    """Has the plot drawn by matplotlib's own environment; returns the image, None where that failed."""
    with tempfile.TemporaryDirectory(prefix="ddp-ppo-bench-") as folder:
        data = Path(folder) / "result.json"
        data.write_text(json.dumps(result))
        try:
            run([python_of("plot"), str(BENCH / "peers" / "plot.py"), str(data), str(image.absolute())])
        except (RunError, OSError) as error:
            say(f"no plot: {error}")
            return None
    return image


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that the run in progress ends too
    sys.exit(main())
