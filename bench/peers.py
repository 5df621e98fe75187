"""Compares the training speed of this working tree with other PPO trainers: the same work, in alternating runs.

`python bench/peers.py --peers sb3,cleanrl --shape small --repeats 3` runs ours and each peer in turn, prints a table and
as its last line one JSON object. A peer is a script in `peers/` and a virtual environment in `.venvs/`, made on demand.
It measures one machine as it is: nothing else should run on it. See README.md beside this file.
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
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BENCH = Path(__file__).resolve().parent
ROOT = BENCH.parent
VENVS = BENCH / ".venvs"
sys.path.insert(0, str(BENCH / "peers"))

from workload import ENV_ID, NUM_EPISODES, SHAPES, WARMUP_ROUNDS, Shape, learning, num_rounds  # noqa: E402

OWN = "ours"
LEARNED_GAIN = 100.0  # of the mean return over the run; random actions vary by about 30 between means of ten episodes
RUN_TIMEOUT_SECONDS = 3600.0
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
MUJOCO = "gymnasium[mujoco]"


@dataclass(frozen=True)
class Peer:
    """What a peer needs: packages, and which of them `constraints.txt` pins (None: all that it names)."""

    packages: tuple[str, ...]
    pinned: tuple[str, ...] | None = None


PEERS = {
    "sb3": Peer(("stable-baselines3", MUJOCO)),
    "cleanrl": Peer(("torch", MUJOCO)),
    "skrl": Peer(("skrl", "torch", MUJOCO)),
    "rsl_rl": Peer(("rsl-rl-lib", "torch", MUJOCO)),
    "tianshou": Peer(("tianshou", MUJOCO)),
    "torchrl": Peer(("torchrl", MUJOCO)),
    "envpool": Peer(("envpool", "torch", MUJOCO)),
    "sample_factory": Peer(("sample-factory", MUJOCO, "mujoco<3"), pinned=("torch",)),
}
PLOT = Peer(("matplotlib",))


class RunError(RuntimeError):
    """A command failed; the message is the last thing it said."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the comparison; exits 1 where no peer could be measured."""
    options = parse(arguments)
    VENVS.mkdir(exist_ok=True)
    with open(VENVS / "lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("peers.py: another comparison is running on this machine", file=sys.stderr)
            return 2
        failures = install(options)
        if options.install_only:
            print(json.dumps({"failures": failures}))
            return 1 if failures else 0
        try:
            result = compare(options, failures)
        except RunError as error:
            print(f"peers.py: {OWN} failed: {error}", file=sys.stderr)
            return 1
        print(markdown(result))
        if options.out:
            write(result, options)
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


def install(options: argparse.Namespace) -> dict[str, str]:
    """Makes the environments before anything is measured; returns the reasons of those that could not be made."""
    wanted = {name: PEERS[name] for name in options.peers} | ({"plot": PLOT} if options.out else {})
    failures = {}
    for name, peer in wanted.items():
        try:
            _install(name, peer, options.python)
        except RunError as error:
            failures[name] = f"not installed: {error}"
            say(f"{name}: {failures[name]}")
    return failures


def _install(name: str, peer: Peer, python: str) -> None:
    folder = VENVS / name
    stamp, pins = folder / "complete", constraints(peer, (ROOT / "constraints.txt").read_text())
    fingerprint = "\n".join((run([python, "-VV"]), *peer.packages, pins))
    if stamp.exists() and stamp.read_text() == fingerprint:
        return
    say(f"{name}: installing {' '.join(peer.packages)} ...")
    run([python, "-m", "venv", "--clear", str(folder)])
    (folder / "constraints.txt").write_text(pins)
    pip = [_python_of(name), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    run([*pip, "-c", str(folder / "constraints.txt"), *peer.packages])
    stamp.write_text(fingerprint)


def constraints(peer: Peer, text: str) -> str:
    """The lines of constraints.txt that hold for a peer."""
    if peer.pinned is None:
        return text
    return "".join(line for line in text.splitlines(True) if line.split("==")[0].lower() in peer.pinned)


def _python_of(name: str) -> str:
    return str(VENVS / name / "bin" / "python")


def compare(options: argparse.Namespace, failures: Mapping[str, str]) -> dict[str, Any]:
    """Runs ours and a peer next to each other, peer by peer, `repeats` times over; a peer that fails is left out.

    Raises:
        RunError: ours failed.
    """
    failed = {name: reason for name, reason in failures.items() if name in PEERS}
    load = os.getloadavg()[0]
    pairs: dict[str, list[tuple[dict[str, Any], dict[str, Any]]]] = {name: [] for name in options.peers}
    for repeat in range(1, options.repeats + 1):
        for name in options.peers:
            if name in failed:
                continue
            own = run_own(options, seed=repeat)
            say(f"{repeat}/{options.repeats} {OWN}: {_run_line(own)}")
            try:
                peer = run_peer(name, options, seed=repeat)
            except RunError as error:
                failed[name] = f"failed: {error}"
                say(f"{repeat}/{options.repeats} {name}: {failed[name]}")
                continue
            pairs[name].append((own, peer))
            say(f"{repeat}/{options.repeats} {name}: {_run_line(peer)}")
    runs = {OWN: [own for pair in pairs.values() for own, _ in pair]}
    runs |= {name: [peer for _, peer in pair] for name, pair in pairs.items() if pair}
    return {
        "shape": options.shape,
        "steps": num_rounds(SHAPES[options.shape], options.steps) * SHAPES[options.shape].samples,
        "repeats": options.repeats,
        "threads": options.threads,
        "machine": machine(options.python) | {"load_before": round(load, 2)},
        "ratios": {
            name: spread([own["steps_per_second"] / peer["steps_per_second"] for own, peer in pair])
            for name, pair in pairs.items()
            if pair
        },
        "steps_per_second": {name: spread([r["steps_per_second"] for r in found]) for name, found in runs.items() if found},
        "learning": {name: _learning(found) for name, found in runs.items() if found},
        "num_envs": {name: found[0]["num_envs"] for name, found in runs.items() if found},
        "versions": {name: found[0]["versions"] for name, found in runs.items() if found},
        "failures": failed,
        "runs": {name: [round(r["steps_per_second"], 1) for r in found] for name, found in runs.items()},
    }


def spread(values: Sequence[float]) -> dict[str, float]:
    """Smallest, middle and largest value."""
    return {"min": min(values), "median": statistics.median(values), "max": max(values)}


def _learning(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Median over runs of the first and the last episodes' return, and whether every run learned."""
    pairs = [(r["first_return"], r["return"]) for r in runs if r["return"] is not None]
    if not pairs:
        return {"first_return": None, "return": None, "has_learned": None}
    first, last = (statistics.median(column) for column in zip(*pairs, strict=True))
    return {"first_return": first, "return": last, "has_learned": all(b - a >= LEARNED_GAIN for a, b in pairs)}


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
    return result | {"num_envs": shape.own[0] * shape.own[1], "versions": versions(options.python)}


def own_settings(shape: Shape, steps: int | None) -> dict[str, Any]:
    """Settings of train.py for a shape: the peers' constants, evaluated once at the end."""
    num_actors, envs_per_actor, rollout_length = shape.own
    return {
        "env_id": ENV_ID,
        "device": "cpu",
        "total_env_steps": num_rounds(shape, steps) * shape.samples,
        "num_actors": num_actors,
        "envs_per_actor": envs_per_actor,
        "rollout_length": rollout_length,
        "minibatch_size": shape.minibatch_size,
        "hidden_sizes": str(list(shape.hidden_sizes)),
        "num_epochs": 10,
        "learning_rate_schedule": "constant",
        "value_coef": 0.5,
        "init_log_std": 0.0,
        "eval_interval": 0,
        "eval_episodes": 1,
    }


def own_result(rows: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    """Speed and returns from the rows of metrics.csv: without the warm-up and without the last round, which evaluates."""
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
    output = run([_python_of(name), str(BENCH / "peers" / f"{name}_ppo.py"), *words], environ)
    return last_json(output)


def last_json(text: str) -> dict[str, Any]:
    """The object on the last line.

    Raises:
        RunError: it is none.
    """
    last = (text.strip().splitlines() or [""])[-1]
    try:
        result = json.loads(last)
    except json.JSONDecodeError:
        result = None
    if not isinstance(result, dict):
        raise RunError(f"the last line of the output is no JSON object: {last[:200]}")
    return result


def run(command: Sequence[str], environ: Mapping[str, str] | None = None) -> str:
    """Runs a command in a folder of its own to its end; returns its standard output.

    Raises:
        RunError: with the last line that it wrote where it failed, or where it took too long.
    """
    with (
        tempfile.TemporaryDirectory(prefix="ddp-ppo-bench-") as folder,
        subprocess.Popen(
            command,
            cwd=folder,
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as process,
    ):
        try:
            output, errors = process.communicate(timeout=RUN_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            raise RunError(f"no end within {RUN_TIMEOUT_SECONDS:.0f} s") from None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    if process.returncode:
        raise RunError(f"exit {process.returncode}: {reason(errors) or reason(output) or 'it said nothing'}")
    return output


def reason(text: str) -> str:
    """The last line, or the last that begins with ERROR, which pip follows with hints."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR")]
    return (errors or lines or [""])[-1][:300]


_OWN_VERSIONS = """
import json, sys
from importlib.metadata import version
import ddp_ppo
names = ("torch", "numpy", "gymnasium", "mujoco")
print(json.dumps({"ddp_ppo": ddp_ppo.__version__, **{name: version(name) for name in names}}))
"""


def versions(python: str) -> dict[str, str]:
    """What ours runs with."""
    return last_json(run([python, "-c", _OWN_VERSIONS], {**os.environ, "PYTHONPATH": str(ROOT)}))


def machine(python: str) -> dict[str, Any]:
    """Where it was measured."""
    try:
        cpu = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        cpu = None
    kernels = {key: value for key, value in os.environ.items() if key.startswith("OPENBLAS_") and key not in THREAD_VARIABLES}
    return {
        "cpu": cpu[1] if cpu else platform.processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "python": run([python, "-V"]).split()[1],
        "torch": versions(python)["torch"],
        **kernels,
    }


def _run_line(result: Mapping[str, Any]) -> str:
    returns = f", return {result['first_return']:.0f} -> {result['return']:.0f}" if result["return"] is not None else ""
    return f"{result['steps_per_second']:,.0f} steps/s over {result['seconds']:.1f} s{returns}"


def markdown(result: Mapping[str, Any]) -> str:
    """The result as a table with the machine, the versions and what failed."""
    shape, about = SHAPES[result["shape"]], result["machine"]
    lines = [
        f"{ENV_ID}, shape {result['shape']}: {shape.samples} transitions a round, mini-batch {shape.minibatch_size}, "
        f"hidden layers {list(shape.hidden_sizes)}, 10 epochs; {result['steps']:,} steps a run, {result['repeats']} pairs "
        f"of runs for each peer, {result['threads']} torch thread(s) for peers.",
        "",
        "| trainer | environments | steps/s min | median | max | ours / peer min | median | max | "
        f"return first {NUM_EPISODES} -> last {NUM_EPISODES} episodes | learned |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, speed in result["steps_per_second"].items():
        ratio = result["ratios"].get(name)
        cells = [name, str(result["num_envs"][name]), *(f"{speed[key]:,.0f}" for key in ("min", "median", "max"))]
        cells += [f"{ratio[key]:.1f}" if ratio else "" for key in ("min", "median", "max")]
        lines.append("| " + " | ".join([*cells, *_learning_cells(result["learning"][name])]) + " |")
    lines += [f"| {name} | {why.replace('|', '/')} | | | | | | | | |" for name, why in result["failures"].items()]
    lines += ["", f"Machine: {', '.join(f'{key} {value}' for key, value in about.items())}.", "", "Versions:", ""]
    lines += [f"- {n}: {', '.join(f'{k} {v}' for k, v in found.items())}" for n, found in result["versions"].items()]
    return "\n".join(lines)


def _learning_cells(found: Mapping[str, Any]) -> list[str]:
    if found["return"] is None:
        return ["too few episodes", "unknown"]
    return [f"{found['first_return']:.0f} -> {found['return']:.0f}", "yes" if found["has_learned"] else "NO"]


def write(result: Mapping[str, Any], options: argparse.Namespace) -> None:
    """Writes the table and the plot; without matplotlib's environment only the table."""
    options.out.parent.mkdir(parents=True, exist_ok=True)
    image = options.out.with_suffix(".png")
    text = f"# Speed beside other trainers: {result['shape']}\n\nMade by `bench/peers.py`.\n\n{markdown(result)}\n"
    with tempfile.TemporaryDirectory(prefix="ddp-ppo-bench-") as folder:
        data = Path(folder) / "result.json"
        data.write_text(json.dumps(result))
        try:
            run([_python_of("plot"), str(BENCH / "peers" / "plot.py"), str(data), str(image.absolute())])
            text += f"\n![steps per second of each trainer]({image.name})\n"
        except (RunError, OSError) as error:
            say(f"no plot: {error}")
    options.out.with_suffix(".md").write_text(text)
    say(f"wrote {options.out}.md")


def say(text: str) -> None:
    """Progress goes to standard error, so that the output is the table and the JSON line."""
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    if shutil.which(parse(None).python) is None:
        sys.exit("peers.py: --python: no such program")
    sys.exit(main())
