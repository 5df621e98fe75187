"""Two settings of the MuJoCo library, made once per process: no profiler clock, and warnings go to `logging`.

`import mujoco` installs a clock that the engine reads several times in every step to fill its profiling timers, which
nothing here looks at. Without it a step is 14 to 16 % faster (HalfCheetah: 26.3 -> 22.7 us per control step) and
computes the same numbers. `mujoco.set_mjcb_time(None)` does not remove it, so the C pointer is cleared.

This can go with the first MuJoCo release that installs no clock, or whose `set_mjcb_time(None)` removes it: the pointer
is then empty after that call, and test_profiler_clock says so by failing.
"""

from __future__ import annotations

import ctypes
import logging
import os
import re
import sys
from collections import Counter
from pathlib import Path

_LOGGER = logging.getLogger(__name__)
_warning_counts: Counter[str] = Counter()


def prepare_mujoco(*, clock: bool) -> None:
    """Makes both settings where this process has imported MuJoCo; `clock` leaves the profiler clock as it is."""
    if "mujoco" in sys.modules:
        log_warnings()
        if not clock:
            remove_profiler_clock()


def remove_profiler_clock() -> bool:
    """Clears MuJoCo's time callback in this process; returns whether it is now absent. Never raises.

    It touches nothing where the loaded library or its symbol is not found, and leaves every clock that is not the one
    of MuJoCo's own Python package.
    """
    try:
        import mujoco

        folder = Path(mujoco.__file__).parent
        path = next(path for pattern in ("libmujoco.so*", "libmujoco*.dylib") for path in folder.glob(pattern))
        library = ctypes.CDLL(str(path), mode=os.RTLD_NOLOAD | os.RTLD_LAZY)  # never a second copy of the library
        clock = ctypes.c_void_p.in_dll(library, "mjcb_time")
        if clock.value is not None and (mujoco.get_mjcb_time() is not None or _file_of(clock.value).parent != folder):
            raise LookupError("it is not the one of MuJoCo's Python package")
        clock.value = None
    except (ImportError, AttributeError, LookupError, StopIteration, OSError, ValueError, TypeError) as error:
        _LOGGER.debug("MuJoCo's profiler clock stays: %s: %s", type(error).__name__, error)
        return False
    return True


class _SymbolInfo(ctypes.Structure):
    _fields_ = (
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("symbol", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    )


def _file_of(address: int) -> Path:
    """The loaded library that an address lies in, `Path()` for none: what the symbol holds is no function pointer."""
    info = _SymbolInfo()
    ctypes.CDLL(None).dladdr(ctypes.c_void_p(address), ctypes.byref(info))
    return Path(os.fsdecode(info.file or b""))


def log_warnings() -> None:
    """Sends MuJoCo's warnings to `logging` instead of stderr and a MUJOCO_LOG.TXT in the current directory.

    MuJoCo gives each kind of warning once per environment and episode; it is logged the 1st, 2nd, 4th, 8th ... time,
    with the count. A handler that someone else has set stays.
    """
    import mujoco

    if mujoco.get_mju_user_warning() is None:
        mujoco.set_mju_user_warning(_log_warning)


def _log_warning(text: str) -> None:
    if "deprecated" in text:  # about the syntax of a model file, such as Gymnasium's own HalfCheetah
        _LOGGER.debug("MuJoCo: %s", text)
        return
    kind = re.sub(r"\d+", "#", text)
    _warning_counts[kind] += 1
    count = _warning_counts[kind]
    if count & (count - 1) == 0:
        _LOGGER.warning("MuJoCo (warning of this kind no. %d in this process): %s", count, text)
