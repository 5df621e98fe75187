"""How a run ends early: TERM, INT and HUP let it finish its round, cut it short where it takes long, and end it anyway.

A thread reads the signals, so that they act even while the main thread waits inside a collective, where Python runs no
handler. It sleeps until one comes. Torch-free.
"""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

CUT_SECONDS = 3.0  # after the request: the round is cut short
END_SECONDS = 6.0  # after the request: the process ends, or an exception ends the work, whatever it does
_SAME_SECONDS = 0.4  # Ctrl-C reaches a learner twice, from the terminal and from torchrun
_ASKING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)  # the last one: the terminal has gone


class CutShort(BaseException):
    """The round is given up because the run was asked to stop; like KeyboardInterrupt, no error to handle."""


class StopRequest:
    """Listens for TERM, INT and HUP while it is entered as a context; a second signal ends the work at once.

    That ends the process where it may, which also ends what waits outside of Python. Else the main thread raises
    `interruption`, wherever it is: a program or a notebook that has called goes on.

    HUP that is ignored, as nohup has it, stays ignored. Python handles signals in its main thread alone: in another one
    nothing is listened for, and nothing ever asks the run to stop.

    Attributes:
        signal: what the run was asked to stop with; None as long as it was not.
        is_overdue: the round has to be cut short.
        is_given_up: the work did not end in time, or there was a second signal: nothing more is to be saved.
    """

    def __init__(self, *, may_exit: bool = False) -> None:
        """Listens later, as a context; `may_exit` says whether the process does nothing but the work."""
        self._may_exit = may_exit
        self.is_given_up = False
        self.signal: int | None = None
        self.is_overdue = False
        self._is_cuttable = False
        self._thread: threading.Thread | None = None

    def __enter__(self) -> StopRequest:
        if threading.current_thread() is threading.main_thread():
            self._start()
        return self

    def __exit__(self, *error: object) -> None:
        """Gives the signals back to whoever had them."""
        if self._thread is None:
            return
        signal.set_wakeup_fd(self._previous_wakeup)
        os.close(self._writer)  # which ends the thread
        self._thread.join()
        os.close(self._reader)
        for number, handler in self._previous.items():
            # None: it was not set by Python, which cannot set it again either.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def _start(self) -> None:
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)
        self._previous_wakeup = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        is_nohup = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
        asking = [number for number in _ASKING if not (is_nohup and number == signal.SIGHUP)]
        self._previous = {number: signal.signal(number, _ignore) for number in asking}
        self._previous[signal.SIGALRM] = signal.signal(signal.SIGALRM, self._cut)
        self._main = threading.get_ident()
        self._thread = threading.Thread(target=self._listen, name="stop request", daemon=True)
        self._thread.start()

    @contextmanager
    def cuttable(self) -> Iterator[None]:
        """Marks work that leaves nothing behind if it is given up at any point.

        Raises:
            CutShort: the round takes longer than a stop request allows, now or by the time that the work begins.
        """
        self._is_cuttable = True
        try:
            if self.is_overdue:
                raise CutShort("asked to stop")
            yield
        finally:
            self._is_cuttable = False

    def _cut(self, number: int, frame: object) -> None:
        if self.is_given_up:
            raise interruption(self.signal or signal.SIGINT)
        if self._is_cuttable and self.is_overdue:
            raise CutShort("asked to stop")

    def _listen(self) -> None:
        asked = 0.0
        while True:
            is_waiting = self.signal is None or self.is_given_up
            limit = None if is_waiting else asked + (END_SECONDS if self.is_overdue else CUT_SECONDS)
            wait = None if limit is None else max(0.0, limit - time.monotonic())
            if select.select([self._reader], [], [], wait)[0]:
                heard = os.read(self._reader, 64)
                if not heard:
                    return
                if not set(heard) & set(_ASKING):
                    continue
                number = next(number for number in heard if number in _ASKING)
                if self.signal is None:
                    self.signal, asked = number, time.monotonic()
                elif time.monotonic() > asked + _SAME_SECONDS:
                    self._end(number)
            elif self.is_overdue:
                self._end(self.signal or 0)
            else:
                self.is_overdue = True
                signal.pthread_kill(self._main, signal.SIGALRM)

    def _end(self, number: int) -> None:
        """Files get their final names complete, and actors die with their learner: the process may just end."""
        if self._may_exit:
            os._exit(128 + number)
        self.is_given_up = True
        signal.pthread_kill(self._main, signal.SIGALRM)


def interruption(number: int, words: str = "") -> BaseException:
    """What a signal does to a program: Ctrl-C's exception, or the exit with the status of any other signal."""
    return KeyboardInterrupt(words) if number == signal.SIGINT else SystemExit(128 + number)


def _ignore(number: int, frame: object) -> None:
    """The thread hears of it."""
