"""Prints whether clocks of others are removed, and whether they stay: a C function, no address, one of Python."""

import ctypes
from pathlib import Path

import mujoco

from ddp_ppo.envs.mujoco.profiler_clock import remove_profiler_clock

path = next(Path(mujoco.__file__).parent.glob("libmujoco.so*"))
clock = ctypes.c_void_p.in_dll(ctypes.CDLL(str(path)), "mjcb_time")
foreign = ctypes.cast(ctypes.CDLL(None).clock, ctypes.c_void_p).value
for address in (foreign, 0x4155415641574155):
    clock.value = address
    print(remove_profiler_clock(), clock.value == address)
clock.value = None
mujoco.set_mjcb_time(lambda: 0.0)
print(remove_profiler_clock(), clock.value is not None)
