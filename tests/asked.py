"""Which compiled code a program asks for, and whether the cache had it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

_SPY = """
import atexit, json, sys
from fastgrad.native.build import cache  # the runtime is loaded with it
asked, get = {{}}, cache.get
def spy(name, *rest):
    unit = get(name, *rest)
    asked[name] = unit.compiled
    return unit
cache.get = spy
atexit.register(lambda: open({out!r}, "w").write(json.dumps(asked)))
{program}
"""

EXAMPLE = """
import runpy
sys.argv = {argv!r}
sys.path.insert(0, {folder!r})
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def asked(program: str, folder: Path, **environment: str) -> dict[str, bool]:
    """The units of code that a program asks for, and of each whether it was compiled then.

    It runs in a process of its own, which leaves its answer in `folder`.
    """
    out = folder / "asked.json"
    done = subprocess.run(
        [sys.executable, "-q", "-c", _SPY.format(out=str(out), program=program)],
        env={**os.environ, "NO_COLOR": "1", "TERM": "dumb", **environment},
        capture_output=True, text=True, timeout=540,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(out.read_text())  # type: ignore[no-any-return]
