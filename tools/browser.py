"""A browser without a window: Chromium or Chrome, as it is installed, told what to do through its pipe.

Nothing but the browser is needed: messages of the DevTools protocol go through two pipes that it inherits.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome-headless-shell")
LIMIT = 60  # seconds for one answer


def find() -> str | None:
    """The browser that is installed, if there is one; the environment variable BROWSER_BINARY names another one."""
    named = os.environ.get("BROWSER_BINARY")
    return next(filter(None, map(shutil.which, (named,) if named else NAMES)), None)


class Browser:
    """A browser that runs until the context is left.

    Parameters
    ----------
    binary : str
        As `find` gives it.
    """

    def __init__(self, binary: str) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="browser-", ignore_cleanup_errors=True)
        heard, self._out = os.pipe()
        self._in, said = os.pipe()
        options = (
            "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--force-color-profile=srgb",
            "--no-first-run", "--remote-debugging-pipe", f"--user-data-dir={self._folder.name}", "about:blank",
        )  # fmt: skip
        # The browser reads file 3 and writes file 4; not every sh knows numbers of two digits.
        self._process = subprocess.Popen(
            ["bash", "-c", f'exec "$0" "$@" 3<&{heard} 4>&{said}', binary, *options],
            pass_fds=(heard, said),
            stderr=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        os.close(heard)
        os.close(said)
        self._number, self._left = 0, b""
        self.events: list[dict[str, Any]] = []

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._process.terminate()
        self._process.wait(LIMIT)
        os.close(self._in)
        os.close(self._out)
        self._folder.cleanup()

    def call(self, method: str, session: str | None = None, **given: Any) -> dict[str, Any]:
        """Call a method of the protocol; events that come before its answer are kept."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": given}
        if session is not None:
            message["sessionId"] = session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._out, data) :]
        while True:
            answer = self._next(time.monotonic() + LIMIT, method)
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                result: dict[str, Any] = answer["result"]
                return result
            self.events.append(answer)

    def wait(self, event: str, session: str) -> None:
        """Wait for an event of a page, unless it has come."""
        until = time.monotonic() + LIMIT
        while not any(e.get("method") == event and e.get("sessionId") == session for e in self.events):
            self.events.append(self._next(until, event))

    def _next(self, until: float, what: str) -> dict[str, Any]:
        while b"\0" not in self._left:
            if not select.select([self._in], [], [], max(0, until - time.monotonic()))[0]:
                raise TimeoutError(f"the browser did not answer in time: {what}")
            more = os.read(self._in, 1 << 20)
            if not more:
                raise RuntimeError(f"the browser ended before {what}")
            self._left += more
        line, _, self._left = self._left.partition(b"\0")
        found: dict[str, Any] = json.loads(line)
        return found


class Page:
    """A page in a window of its own, loaded.

    Parameters
    ----------
    browser : Browser
    url : str
    width, height : int
        Of the window; one narrower than 600 is a phone's.
    scheme : str
        ``"light"`` or ``"dark"``, which the page may ask for.
    """

    def __init__(self, browser: Browser, url: str, width: int, height: int, scheme: str) -> None:
        self._browser = browser
        self._target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = browser.call("Target.attachToTarget", targetId=self._target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        self.resize(width, height)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", features=features)
        if why := self.call("Page.navigate", url=url).get("errorText"):
            raise RuntimeError(f"{url}: {why}")
        browser.wait("Page.loadEventFired", self._session)

    def call(self, method: str, **given: Any) -> dict[str, Any]:
        """Call a method of the protocol for this page."""
        return self._browser.call(method, self._session, **given)

    def resize(self, width: int, height: int) -> None:
        """Make the window another size."""
        phone = width < 600
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=phone,
        )

    def evaluate(self, script: str) -> Any:
        """What an expression gives, once it is there if it is a promise."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(str(answer["exceptionDetails"]))
        return answer["result"].get("value")

    def picture(self) -> bytes:
        """What the window shows, as PNG."""
        return base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])

    def complaints(self) -> list[str]:
        """Errors and warnings of the console, and exceptions of scripts."""
        own = [e for e in self._browser.events if e.get("sessionId") == self._session]
        return [text for e in own if (text := _complaint(e["method"], e["params"]))]

    def close(self) -> None:
        """Close the window."""
        self._browser.call("Target.closeTarget", targetId=self._target)
        self._browser.events = [e for e in self._browser.events if e.get("sessionId") != self._session]


def _complaint(method: str, given: dict[str, Any]) -> str | None:
    if method == "Runtime.exceptionThrown":
        details = given["exceptionDetails"]
        return str(details.get("exception", {}).get("description", details["text"]))
    if method == "Runtime.consoleAPICalled" and given["type"] in ("error", "warning", "assert"):
        parts: Sequence[dict[str, Any]] = given["args"]
        return " ".join(str(p.get("value", p.get("description"))) for p in parts)
    if method == "Log.entryAdded" and given["entry"]["level"] in ("error", "warning"):
        return f"{given['entry']['text']} ({given['entry'].get('url', '')})"
    return None
