"""A process that ends with the one that started it, however that one ends. Torch-free."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Mapping

_PR_SET_PDEATHSIG = 1
_POLL_SECONDS = 1.0
_CONNECT_SECONDS = 5.0


def die_with_parent() -> None:
    """Has the kernel (Linux) or a thread that looks every second (elsewhere) end this process when its parent dies."""
    parent = os.getppid()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died before the call
            os._exit(1)
    else:
        threading.Thread(target=_watch, args=(parent,), daemon=True).start()


def die_with_agent(environ: Mapping[str, str]) -> None:
    """The same for a worker of torchrun, whose agent may be gone, and its store with it, before the worker begins."""
    die_with_parent()
    if environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        try:
            socket.create_connection((environ["MASTER_ADDR"], int(environ["MASTER_PORT"])), _CONNECT_SECONDS).close()
        except ConnectionRefusedError:
            os._exit(1)
        except OSError:
            return  # an address that cannot be reached from here says nothing of the agent


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_POLL_SECONDS)
    os._exit(1)
