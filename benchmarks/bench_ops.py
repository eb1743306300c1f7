"""Every op of the op table, on the small samples that its tests use: what a call costs besides its work.

The rows are those of ``tests/op_cases``: an op gets its benchmarks with its tests. One timing makes every call of
an op's rows, in one dtype.
"""

from __future__ import annotations

import sys
import zlib
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import fastgrad as fg

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

from op_cases import OP_CASES, OpCase, Sample

ROWS: dict[str, list[OpCase]] = defaultdict(list)
for _case in OP_CASES:
    ROWS[_case.name.partition(".")[0]].append(_case)
DIFFERENTIABLE = [name for name, rows in ROWS.items() if any(case.differentiable for case in rows)]


def as_tensor(value: Any) -> Any:
    return fg.tensor(value) if isinstance(value, np.ndarray) else value


class Call:
    """A call with its arguments at hand, and the gradients of what it returns."""

    def __init__(self, case: OpCase, sample: Sample) -> None:
        self.call = case.call
        self.args = [as_tensor(value) for value in sample.args]
        self.kwargs = {name: as_tensor(value) for name, value in sample.kwargs.items()}
        self.inputs = [self.args[i].requires_grad_() for i in case.grad_positions(sample.args)]
        self.weights = [fg.ones_like(t).requires_grad_() for t in self.outputs()] if self.inputs else []

    def run(self) -> Any:
        return self.call(fg, *self.args, **self.kwargs)

    def outputs(self) -> list[fg.Tensor]:
        out = self.run()
        return [t for t in (out if isinstance(out, (tuple, list)) else [out]) if t.requires_grad]

    def gradients(self, create_graph: bool = False) -> Sequence[fg.Tensor | None]:
        return fg.autograd.grad(
            self.outputs(), self.inputs, self.weights, create_graph=create_graph, allow_unused=True
        )

    def second_order(self) -> None:
        """The derivative of the gradients, by the inputs and by the weights."""
        first = [g for g in self.gradients(create_graph=True) if g is not None and g.requires_grad]
        if first:
            ones = [fg.ones_like(g) for g in first]
            fg.autograd.grad(first, self.inputs + self.weights, ones, allow_unused=True)


def calls(name: str, differentiable: bool) -> list[Call]:
    """All samples of an op's rows, in float32 where there is a choice."""
    result = []
    for case in ROWS[name]:
        if case.differentiable or not differentiable:
            dtype = "float32" if "float32" in case.dtypes else case.dtypes[0]
            rng = np.random.default_rng(zlib.crc32(case.name.encode()))
            result += [Call(case, sample) for sample in case.samples(rng, dtype)]
    return [call for call in result if call.weights or not differentiable]


class Forward:
    """Calls that nobody records."""

    params = list(ROWS)
    param_names = ["op"]

    def setup(self, name: str) -> None:
        with fg.no_grad():
            self.calls = calls(name, differentiable=False)
        self.time_op(name)

    def time_op(self, name: str) -> None:
        with fg.no_grad():
            for call in self.calls:
                call.run()


class Gradients:
    """Calls with their gradients, and with the gradients of these."""

    params = DIFFERENTIABLE
    param_names = ["op"]

    def setup(self, name: str) -> None:
        self.calls = calls(name, differentiable=True)
        self.time_second_order(name)
        self.time_first_order(name)

    def time_first_order(self, name: str) -> None:
        for call in self.calls:
            call.gradients()

    def time_second_order(self, name: str) -> None:
        for call in self.calls:
            call.second_order()
