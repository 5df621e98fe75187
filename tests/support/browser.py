"""A headless Chromium that opens a page, answers questions about it and takes its picture; for tests that skip without.

It is driven over a pair of pipes in the DevTools protocol. It ends when they are closed, so also with the process that
started it, however that ends.
"""

from __future__ import annotations

import base64
import itertools
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import ExitStack, suppress
from typing import Any

BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
BROWSER = next(filter(None, map(shutil.which, BROWSERS)), None)
LIMIT_SECONDS = 60.0
POLL_SECONDS = 0.1
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe")
# 3 and 4 are the protocol's numbers; $0 is the browser's folder, which nobody else removes where the test was killed.
SHELL = '"$@" 3<&0 4>&1 </dev/null >/dev/null; rm -rf "$0"'


class Browser:
    """One page in a browser of its own; leaving it as a context ends the browser and all of its processes."""

    def __init__(self, width: int, height: int) -> None:
        self._numbers = itertools.count(1)
        self._received = b""
        self._where: dict[str, str] = {}
        with ExitStack() as ending:
            home = ending.enter_context(
                tempfile.TemporaryDirectory(prefix="ddp_ppo_browser_", ignore_cleanup_errors=True)
            )
            words = ["sh", "-c", SHELL, home, BROWSER, *FLAGS, f"--user-data-dir={home}", "about:blank"]
            pipe = subprocess.PIPE
            self._process = subprocess.Popen(
                words, bufsize=0, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, start_new_session=True
            )
            ending.callback(self._kill)
            target = self._ask("Target.createTarget", url="about:blank")["targetId"]
            session = self._ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            self._where = {"sessionId": session}
            size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
            self._ask("Emulation.setDeviceMetricsOverride", **size)  # Chromium 156 refuses a size on creation
            self._ending = ending.pop_all()

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *error: object) -> None:
        self._ending.close()

    def open(self, url: str) -> None:
        """Starts to load a page."""
        self._ask("Page.navigate", url=url)

    def value(self, script: str) -> Any:
        """What a JavaScript expression gives in the page."""
        answer = self._ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        return answer["result"].get("value")

    def wait_for(self, script: str) -> Any:
        """The expression's value as soon as it is true."""
        wait_until(lambda: self.value(script), script)
        return self.value(script)

    def picture(self) -> bytes:
        """The window as PNG."""
        return base64.b64decode(self._ask("Page.captureScreenshot", format="png")["data"])

    def _ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters, **self._where}
        self._process.stdin.write(json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + LIMIT_SECONDS
        while (answer := json.loads(self._receive(deadline))).get("id") != number:
            continue  # events, which nobody asked for
        assert "error" not in answer, answer
        return answer["result"]

    def _receive(self, deadline: float) -> bytes:
        """The next message."""
        while b"\0" not in self._received:
            ready, _, _ = select.select([self._process.stdout], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"no answer of the browser within {LIMIT_SECONDS:g} s"
            part = self._process.stdout.read(1 << 20)
            assert part, "the browser has ended"
            self._received += part
        message, _, self._received = self._received.partition(b"\0")
        return message

    def _kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()


def wait_until(condition: Any, what: str) -> None:
    """Waits until it is true; fails after the limit."""
    deadline = time.monotonic() + LIMIT_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"no {what} within {LIMIT_SECONDS:g} s")
        time.sleep(POLL_SECONDS)
