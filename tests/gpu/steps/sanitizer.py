"""NVIDIA's memory and race checkers over small reductions and the like, where the toolkit has them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

from tests.gpu.steps.machine import PYTHON, Machine, Row, holds, output_of

PROGRAM = """
import fastgrad as fg, fastgrad.nn.functional as F
x = fg.randn(37, 129, device="cuda", requires_grad=True)
w = fg.randn(129, 65, device="cuda", requires_grad=True)
y = F.layer_norm(F.softmax(x, -1) @ w, (65,)).sum(0).cumsum(0).sort().values
(y.mean() + F.cross_entropy(x, fg.arange(37, device="cuda"))).backward()
fg.cuda.synchronize()
"""


def run(machine: Machine) -> Iterator[Row]:
    found = shutil.which("compute-sanitizer")
    if found is None:
        yield Row("compute-sanitizer", "not installed")
        return
    for tool in ("memcheck", "racecheck"):
        code, text = output_of([found, "--tool", tool, "--error-exitcode", "9", PYTHON, "-c", PROGRAM], 120)
        summary = [line for line in text.splitlines() if "SUMMARY" in line]
        yield holds(tool, (summary or [text[-80:]])[-1], code == 0)
