"""What runs leave, as tests read it: files of tensors, metrics, events, curves; and which process is which."""

import itertools
import json
from pathlib import Path

import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from tests.support.process import ROOT

OF_A_START = {"elapsed_seconds", "settings", "metrics_first"}  # differ between two starts that train the same


def load(path):
    """What a file holds, read by torch's safe loader."""
    return torch.load(path, map_location="cpu", weights_only=True)


def last_checkpoint(folder):
    """The content of the newest checkpoint of a run folder."""
    return load(max((folder / "checkpoints").iterdir()))


def differences(first, second, path=""):
    """Where two contents of files differ in a single bit."""
    if isinstance(first, torch.Tensor):
        is_equal = isinstance(second, torch.Tensor) and first.dtype == second.dtype and torch.equal(first, second)
        return [] if is_equal else [path]
    if type(first) is not type(second):
        return [path]
    if isinstance(first, dict):
        if first.keys() != second.keys():
            return [path]
        return [
            d for key in first if key not in OF_A_START for d in differences(first[key], second[key], f"{path}/{key}")
        ]
    if isinstance(first, list):
        pairs = enumerate(itertools.zip_longest(first, second))
        return [d for i, (a, b) in pairs for d in differences(a, b, f"{path}/{i}")]
    return [] if first == second or (first != first and second != second) else [path]


def parameters_of(model):
    """All parameters of a model file, in ascending order."""
    values = [tensor for trunk in ("actor", "critic") for tensor in model[trunk].values()]
    values += [] if model["log_std"] is None else [model["log_std"]]
    return torch.cat([tensor.flatten() for tensor in values]).sort().values


def scalars(folder):
    """{tag: [(step, value)]} of all event files in a TensorBoard folder, as TensorBoard itself would show them."""
    events = EventAccumulator(str(folder), size_guidance={"scalars": 0}).Reload()
    return {tag: [(event.step, event.value) for event in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def numbers(rows, column):
    """A column as numbers, None for an empty cell."""
    return [float(row[column]) if row[column] else None for row in rows]


def tensors(content):
    """All tensors of a file's content."""
    if isinstance(content, torch.Tensor):
        return [content]
    items = content.values() if isinstance(content, dict) else content if isinstance(content, list) else []
    return [tensor for item in items for tensor in tensors(item)]


def events_of(run):
    """The events of a run folder."""
    return [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]


def is_learner(pid, rank):
    """Whether a process is the learner of this rank, not one of its actors."""
    command, environ = (Path(f"/proc/{pid}/{name}").read_bytes().split(b"\0") for name in ("cmdline", "environ"))
    return str(ROOT / "train.py").encode() in command and f"RANK={rank}".encode() in environ
