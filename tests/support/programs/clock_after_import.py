"""Prints whether MuJoCo's profiler clock is there after MuJoCo's own way to remove it."""

import ctypes
from pathlib import Path

import mujoco

mujoco.set_mjcb_time(None)
path = next(Path(mujoco.__file__).parent.glob("libmujoco.so*"))
print(ctypes.c_void_p.in_dll(ctypes.CDLL(str(path)), "mjcb_time").value is not None)
