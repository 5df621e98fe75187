"""Runs Python in a mount namespace of its own: `python mounts.py "tmpfs PATH OPTIONS; ..." COPY_TO WORD ...`.

Every item is one file system that exists only for the program and what it starts: a full disk, a small /dev/shm or a
read-only folder is as real as anywhere, and is gone with the program. Needs root. `COPY_TO` is where the first one's
files are copied at the end; "-" copies nothing.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path

_CLONE_NEWNS = 0x00020000


def can_mount() -> bool:
    """Whether this process may make a namespace and mount in it."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return False
    words = [sys.executable, __file__, "/mnt size=1m", "-", "-c", "pass"]
    return subprocess.run(words, capture_output=True, timeout=30).returncode == 0


def main() -> int:
    """Mounts, runs the words, copies; returns their exit code."""
    mounts, copy_to, *words = sys.argv[1:]
    if ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWNS):
        return 1
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    places = [item.split() for item in mounts.split(";")]
    for place, options in places:
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", place], check=True)
    if copy_to == "-":
        os.execv(sys.executable, [sys.executable, *words])
    code = subprocess.run([sys.executable, *words]).returncode
    shutil.copytree(places[0][0], Path(copy_to), dirs_exist_ok=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
