"""The published meta-network weights disco_103.npz: found, downloaded, and checked before anything is done with them.

The file holds one array for each key "<module>/w" or "<module>/b", where the module's name has slashes of its own.
It is published under Apache-2.0 in github.com/google-deepmind/disco_rl and is not part of this project.
"""

from __future__ import annotations

import hashlib
import http.client
import io
import urllib.request
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ddp_ppo.config.paths import expand_path
from ddp_ppo.config.settings import ConfigError
from ddp_ppo.config.yaml_text import RefusedError
from ddp_ppo.protocols import FloatArray
from ddp_ppo.runs.files import write_atomically

FILE_NAME = "disco_103.npz"
ENVIRON_NAME = "DDP_PPO_DISCO_WEIGHTS"
URL = f"https://raw.githubusercontent.com/google-deepmind/disco_rl/main/disco_rl/update_rules/weights/{FILE_NAME}"
SHA256 = "dac840a15b81e8805326363458c33979626172618f620d9e6e170315388530aa"
_MAX_BYTES = 1 << 26  # the file has 2.8 MB

RNN_PREFIX = "lstm/~/meta_lstm/~unroll/"
_EMBEDDINGS = {  # the trajectory network and the meta-RNN each have their own
    "mlp/~/linear_0": (600, 16),
    "mlp/~/linear_1": (16, 1),
    "mlp_1/~/linear_0": (600, 16),
    "mlp_1/~/linear_1": (16, 1),
    "sequential/conv1_d": (1, 18, 16),
    "sequential/conv1_d_1": (1, 32, 2),
}
_MODULES: dict[str, tuple[int, ...]] = {
    **{f"lstm/{name}": shape for name, shape in _EMBEDDINGS.items()},
    "lstm/lstm/linear": (27 + 256, 4 * 256),
    "lstm/linear": (128, 256),
    "lstm/linear_1": (256, 1),
    "lstm/linear_2": (256, 600),
    "lstm/linear_3": (256, 600),
    "lstm/sequential_1/conv1_d": (1, 2 * (256 + 2), 16),
    "lstm/linear_4": (16, 1),
    **{f"{RNN_PREFIX}{name}": shape for name, shape in _EMBEDDINGS.items()},
    f"{RNN_PREFIX}mlp_2/~/linear_0": (27 + 2, 16),
    f"{RNN_PREFIX}lstm/linear": (16 + 128, 4 * 128),
}
SHAPES: dict[str, tuple[int, ...]] = {  # of all 42 arrays
    key: shape for module, w in _MODULES.items() for key, shape in ((f"{module}/w", w), (f"{module}/b", w[-1:]))
}

Weights = dict[str, FloatArray]


def cache_path(environ: Mapping[str, str]) -> Path:
    """Where the weights lie once they have been downloaded."""
    return Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ddp_ppo" / FILE_NAME


def find_weights(path: str | None, environ: Mapping[str, str]) -> Path:
    """The weights file: the one that is named, else that of DDP_PPO_DISCO_WEIGHTS, else the one in the user's cache.

    Raises:
        ConfigError: there is no such file; says how to get it.
    """
    place = Path(path or _named_by(environ) or cache_path(environ))
    if not place.is_file():
        raise ConfigError(
            f"{place}: no such file; DiscoRL needs the published weights {FILE_NAME} (2.8 MB): `ddp-ppo disco-weights` "
            f"downloads them, or download {URL} and name it with disco.weights or {ENVIRON_NAME}"
        )
    return place


def _named_by(environ: Mapping[str, str]) -> str:
    """The file that DDP_PPO_DISCO_WEIGHTS names; empty where it does not."""
    try:
        return expand_path(environ.get(ENVIRON_NAME, ""), environ)
    except RefusedError as error:
        raise ConfigError(f"{ENVIRON_NAME}: {error}") from error


def load_weights(path: Path) -> Weights:
    """All 42 arrays by name, float32.

    Raises:
        ConfigError: not an npz file, arrays that differ in name, shape or type (all are listed), or another sha256.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from None
    try:
        file = np.load(io.BytesIO(content), allow_pickle=False)
        if not isinstance(file, np.lib.npyio.NpzFile):
            raise ValueError("a single array")
        arrays = dict(file)
    except (OSError, EOFError, ValueError, zipfile.BadZipFile, zlib.error):
        raise ConfigError(f"{path}: not an npz file of arrays: {_unlike(content)}") from None
    if faults := [*_faults(arrays)]:
        raise ConfigError(f"{path}: not {FILE_NAME}: {'; '.join(faults)}")
    _require_published(content, str(path))
    return arrays


def _faults(arrays: Mapping[str, Any]) -> list[str]:
    """What is missing, too many, or of another shape or type."""
    faults = [f"{name} {shape} is missing" for name, shape in SHAPES.items() if name not in arrays]
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray):
            faults.append(f"{name} is not an array")
        elif name not in SHAPES:
            faults.append(f"{name} {array.shape} is unknown")
        elif array.shape != SHAPES[name] or array.dtype != np.float32:
            faults.append(f"{name} is {array.dtype} {array.shape}, not float32 {SHAPES[name]}")
    return faults


def _require_published(content: bytes, where: str, sha256: str = SHA256) -> None:
    if hashlib.sha256(content).hexdigest() != sha256:
        raise ConfigError(f"{where}: {_unlike(content, sha256)}")


def _unlike(content: bytes, sha256: str = SHA256) -> str:
    found = hashlib.sha256(content).hexdigest()
    return f"{len(content):,} bytes with sha256 {found}; {FILE_NAME} has {sha256}; `ddp-ppo disco-weights` downloads it"


def download_weights(target: Path, *, url: str = URL, sha256: str = SHA256, timeout_seconds: float = 60.0) -> None:
    """Downloads the weights to target, which only ever holds the whole published file.

    Raises:
        ConfigError: no connection, no such address, no place to write, or a file with another sha256.
    """
    try:
        with urllib.request.urlopen(url, timeout=timeout_seconds) as response:
            content = response.read(_MAX_BYTES)
            if response.length:  # what a declared length still owes
                raise http.client.IncompleteRead(content, response.length)
    except (OSError, http.client.HTTPException) as error:  # URLError, HTTPError and time-outs are OSErrors
        raise ConfigError(f"{url}: could not be downloaded ({error}); or download it yourself to {target}") from error
    _require_published(content, url, sha256)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(target, lambda file: file.write(content))
    except OSError as error:
        raise ConfigError(f"{target}: cannot be written ({error})") from error
