"""A headless Chromium that opens a page, answers questions about it and takes its picture; for tests that skip without.

It is driven over the DevTools protocol, whose port the browser chooses itself and leaves in a file.
"""

from __future__ import annotations

import base64
import itertools
import json
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
BROWSER = next(filter(None, map(shutil.which, BROWSERS)), None)
LIMIT_SECONDS = 60.0
POLL_SECONDS = 0.1
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-port=0")


class Browser:
    """One page in a browser of its own; leaving it as a context ends the browser."""

    def __init__(self, width: int, height: int) -> None:
        from websockets.sync.client import connect

        self._folder = tempfile.TemporaryDirectory(prefix="ddp_ppo_browser_", ignore_cleanup_errors=True)
        home = Path(self._folder.name)
        words = [BROWSER, *FLAGS, f"--user-data-dir={home}", f"--window-size={width},{height}", "about:blank"]
        quiet = subprocess.DEVNULL
        self._process = subprocess.Popen(words, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True)
        self._numbers = itertools.count(1)
        port_file = home / "DevToolsActivePort"
        wait_until(lambda: port_file.exists() and port_file.read_text().count("\n") == 1, "a browser that answers")
        port, path = port_file.read_text().split("\n")
        self._socket = connect(f"ws://127.0.0.1:{port}{path}", max_size=None, open_timeout=LIMIT_SECONDS)
        self._session: str | None = None
        target = self._ask("Target.createTarget", url="about:blank", width=width, height=height)["targetId"]
        self._session = self._ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *error: object) -> None:
        self._socket.close()
        self._process.kill()
        self._process.wait()
        self._folder.cleanup()

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
        where = {} if self._session is None else {"sessionId": self._session}
        self._socket.send(json.dumps({"id": number, "method": method, "params": parameters, **where}))
        while True:
            answer = json.loads(self._socket.recv(LIMIT_SECONDS))
            if answer.get("id") == number:
                assert "error" not in answer, answer
                return answer["result"]


def wait_until(condition: Any, what: str) -> None:
    """Waits until it is true; fails after the limit."""
    deadline = time.monotonic() + LIMIT_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"no {what} within {LIMIT_SECONDS:g} s")
        time.sleep(POLL_SECONDS)
