"""What goes wrong says so, and the process goes on where it can."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import fastgrad as fg
import fastgrad.nn.functional as F
from tests.gpu.steps.machine import PYTHON, Machine, Row, holds, output_of

STRAY = """
import fastgrad as fg
from fastgrad.native.build.loader import rt
from fastgrad.native.contracts.element_types import FLOAT32
from fastgrad.native.contracts.limits import FIRST_GPU
fg.cuda.init()
x = rt.foreign(FLOAT32, FIRST_GPU, (1000,), (1,), 0x1000, 4000, object())
try:
    (x + 1).sum().item()
except RuntimeError as error:
    print("said:", error)
"""


def said(call: Callable[[], Any]) -> str:
    try:
        call()
        fg.cuda.synchronize()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def run(machine: Machine) -> Iterator[Row]:
    table, x = fg.ones(4, 3, device="cuda"), fg.ones(2, 3, device="cuda")
    outside = fg.tensor([1, 9], device="cuda")
    bad = {
        "embedding": lambda: F.embedding(outside, table),
        "gather": lambda: x.gather(1, fg.tensor([[0], [7]], device="cuda")),
        "nll_loss": lambda: F.nll_loss(x, outside),
        "index": lambda: table[outside],
    }
    for name, call in bad.items():
        text = said(call)
        yield holds(f"an index outside, {name}", text[:70], "Error" in text and name in text)
        yield holds(f"after it, {name}", "", (x + 1).sum().item() == 12)
    for name, call in {
        "a device that is not there": lambda: fg.ones(1, device="cuda:99"),
        "two devices": lambda: x + fg.ones(2, 3),
    }.items():
        yield holds(name, said(call)[:70], said(call).startswith("RuntimeError"))
    if not machine.stand_in:
        _, text = output_of([PYTHON, "-c", STRAY], 60)
        yield holds("an address that is none", text.strip()[-90:], "must be started again" in text)
