"""Matrix products: values against float64 on the host, times against PyTorch's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import fastgrad as fg
from tests.gpu.steps.bandwidth import numbers
from tests.gpu.steps.machine import Machine, Row, holds

TOLERANCE = {"float32": 2e-5, "tf32": 3e-3, "bfloat16": 2e-2, "float16": 3e-3, "float64": 1e-12}


def allow_tf32(lib: Any, allow: bool) -> None:
    lib.backends.cuda.matmul.allow_tf32 = allow


def wrong(kind: str, n: int) -> float:
    """The largest error of a product, over the largest of its elements."""
    dtype = "float32" if kind == "tf32" else kind
    allow_tf32(fg, kind == "tf32")
    a, b = (numbers(fg, n, n + 3, dtype=dtype), numbers(fg, n + 3, n - 1, dtype=dtype))
    found = (a @ b).to(fg.float64).cpu().numpy()
    allow_tf32(fg, False)
    exact = a.to(fg.float64).cpu().numpy() @ b.to(fg.float64).cpu().numpy()
    return float(np.abs(found - exact).max() / np.abs(exact).max())


def run(machine: Machine) -> Iterator[Row]:
    kinds = ("float32",) if machine.stand_in else tuple(TOLERANCE)
    for kind in kinds:
        error = wrong(kind, machine.size(257, 5))
        yield holds(f"error {kind}", f"{error:.1e}", error <= TOLERANCE[kind])
    sizes = (64, 256, 1024, 4096, 8192) if not machine.stand_in else (4,)
    for kind in kinds[:4]:
        dtype = "float32" if kind == "tf32" else kind
        for lib in filter(None, (fg, machine.torch)):
            allow_tf32(lib, kind == "tf32")
        for n in sizes:

            def square(lib: Any, n: int = n, dtype: str = dtype) -> Callable[[], Any]:
                a, b = (numbers(lib, n, n, dtype=dtype) for _ in range(2))
                return lambda: a @ b

            yield from machine.compared(f"{kind} {n}", square, 0.97)

        def batched(lib: Any, dtype: str = dtype) -> Callable[[], Any]:
            n = machine.size(512, 4)
            a, b = (numbers(lib, machine.size(32, 2), n, n, dtype=dtype) for _ in range(2))
            return lambda: a @ b

        yield from machine.compared(f"{kind} batched", batched, 0.97)
    for lib in filter(None, (fg, machine.torch)):
        allow_tf32(lib, False)
