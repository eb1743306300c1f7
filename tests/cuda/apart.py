"""Programs in a process of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

BEGIN = f"""
import gc, sys, threading
sys.path.insert(0, {str(ROOT)!r})
import fastgrad as fg
from fastgrad.cuda import gpus
from tests.cuda.fake_driver import FakeDriver, attached
"""

STREAMS = """
driver = FakeDriver()
gpus.attach(driver, driver.compiler)
s, e = fg.cuda.Stream(), fg.cuda.Event(enable_timing=True)
fg.cuda.set_stream(s)
x = fg.ones(3, device="cuda")
e.record()
x.record_stream(fg.cuda.default_stream())
p = fg.ones(3).pin_memory()
y = p.to("cuda", non_blocking=True)
"""
"""What uses a stream, an event, locked memory and a copy that nobody waits for."""


def ends(program: str) -> tuple[int, str, str]:
    """How a program ends that begins with `BEGIN`: its code, and what it wrote."""
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + program], capture_output=True, text=True, timeout=120, cwd=ROOT
    )
    return done.returncode, done.stdout, done.stderr
