"""Waits in the way that the first word names and says what becomes of it; with the word "nohup" it ignores SIGHUP.

With the word "caller" it is a program that goes on: it says what is raised in it.
"""

import ctypes
import select
import signal
import sys
import threading

from ddp_ppo.processes.stop_request import CutShort, StopRequest


def wait(seconds=30.0):
    """Waits; a signal handler runs, and the wait goes on."""
    select.select([], [], [], seconds)


def cuttable(stop):
    """Waits in work that may be cut short, and would begin another piece of it."""
    try:
        with stop.cuttable():
            wait()
    except CutShort:
        print("cut", stop.signal, stop.is_overdue, flush=True)
    try:
        with stop.cuttable():
            print("never", flush=True)
    except CutShort:
        print("not begun", flush=True)
    stop.__exit__()
    print(signal.getsignal(signal.SIGTERM) == signal.SIG_DFL, threading.active_count(), flush=True)


def stubborn(stop):
    """Waits in work that may not be cut short."""
    wait()
    print("never", flush=True)


def deaf(stop):
    """Waits outside of Python, in work that may not be cut short."""
    while True:
        ctypes.CDLL(None).sleep(30)


def quick(stop):
    """Looks for a request again and again."""
    while stop.signal is None:
        wait(0.01)
    stop.__exit__()
    print("asked", stop.signal, stop.is_overdue, flush=True)


how, *more = sys.argv[1:]
if "nohup" in more:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
request = StopRequest(may_exit="caller" not in more).__enter__()
if how == "deaf":
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
print("ready", flush=True)
try:
    {"cuttable": cuttable, "stubborn": stubborn, "deaf": deaf, "quick": quick}[how](request)
except BaseException as error:
    if "caller" not in more:
        raise
    request.__exit__()
    print("raised", repr(error), request.is_given_up, threading.active_count(), flush=True)
