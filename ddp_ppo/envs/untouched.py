"""What a user's module or constructor may not leave behind: state of the process that others depend on.

Importing or building an environment may seed global generators, make NumPy raise on an underflow, or change torch's
default dtype. `untouched` puts all of that back, so that training is the same as without. Torch-free: torch is only
looked at if something else has loaded it.
"""

from __future__ import annotations

import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import numpy as np

from ddp_ppo.maths.seeding import kept_global_generators

_is_guarded = ContextVar("is_guarded", default=False)


class _State(NamedTuple):
    """One thing that belongs to the process: its name, how it is read, and how it is set to what was read before."""

    name: str
    get: Callable[[], Any]
    put: Callable[[Any], object]


def _raising() -> dict[str, str]:
    """The kinds of floating-point errors that NumPy does more than warn of."""
    return {kind: how for kind, how in np.geterr().items() if how in ("raise", "call")}


def _stop_raising(before: dict[str, str]) -> None:
    np.seterr(**{kind: before.get(kind, "warn") for kind in _raising()})  # type: ignore[arg-type]


def _error_filters() -> list[Any]:
    return [entry for entry in warnings.filters if entry[0] == "error"]


def _remove_error_filters(before: list[Any]) -> None:
    for action, message, category, module, line in _error_filters():
        if (action, message, category, module, line) not in before:
            warnings.filters.remove((action, message, category, module, line))  # type: ignore[attr-defined]
    warnings._filters_mutated()  # type: ignore[attr-defined]


def _handlers() -> dict[int, Any]:
    """The handlers of signals that Python has set or can set again; only its main thread may."""
    if threading.current_thread() is not threading.main_thread():
        return {}
    found = {int(number): signal.getsignal(number) for number in signal.valid_signals()}
    return {number: handler for number, handler in found.items() if handler is not None}


def _put_handlers(before: dict[int, Any]) -> None:
    for number, handler in before.items():
        if signal.getsignal(number) != handler:
            signal.signal(number, handler)


_OF_PYTHON = (
    _State("numpy.seterr", _raising, _stop_raising),
    _State("warnings as errors", _error_filters, _remove_error_filters),
    _State("signal handlers", _handlers, _put_handlers),
)


def _of_torch() -> list[_State]:
    """Torch's, if it is loaded."""
    torch: Any = sys.modules.get("torch")
    if torch is None:
        return []
    return [
        _State("torch's default dtype", torch.get_default_dtype, torch.set_default_dtype),
        _State("torch's default device", torch.get_default_device, _put_device),
        _State("torch's grad mode", torch.is_grad_enabled, torch.set_grad_enabled),
        _State("torch's number of threads", torch.get_num_threads, torch.set_num_threads),
        _State("torch's determinism", torch.get_deterministic_debug_mode, torch.set_deterministic_debug_mode),
        _State("torch's matmul precision", torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
        _State("torch's anomaly detection", torch.is_anomaly_enabled, torch.autograd.set_detect_anomaly),
    ]


def _put_device(before: Any) -> None:
    torch: Any = sys.modules["torch"]
    torch.set_default_device(None if before.type == "cpu" else before)  # None: torch's own, which costs nothing


def _torch_defaults() -> dict[str, Any]:
    """What a process has that has just loaded torch, as far as that does not depend on the machine."""
    torch: Any = sys.modules.get("torch")
    if torch is None:
        return {}
    return {
        "torch's default dtype": torch.float32,
        "torch's default device": torch.device("cpu"),
        "torch's grad mode": True,
        "torch's determinism": 0,
        "torch's matmul precision": "highest",
        "torch's anomaly detection": False,
    }


@contextmanager
def untouched(on_change: Callable[[str], None] = lambda name: None) -> Iterator[None]:
    """Puts back what importing or building an environment changes in this process; within another one it does nothing.

    Args:
        on_change: is called with the name of each state that had to be put back; global generators are not named.
    """
    if _is_guarded.get():
        yield
        return
    token = _is_guarded.set(True)
    before = {state.name: state.get() for state in (*_OF_PYTHON, *_of_torch())}
    try:
        with kept_global_generators():
            yield
    finally:
        _is_guarded.reset(token)
        before = _torch_defaults() | before  # the environment may have been the first to load torch
        for state in (*_OF_PYTHON, *_of_torch()):
            if state.name in before and state.get() != before[state.name]:
                state.put(before[state.name])
                on_change(state.name)
