"""Kernels that read and write memory: shares of what copying reaches, and PyTorch's time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import fastgrad as fg
from tests.gpu.steps.machine import Machine, Row, share


def numbers(lib: Any, *sizes: int, dtype: str = "float32", grad: bool = False) -> Any:
    x = lib.tensor(np.random.default_rng(0).standard_normal(sizes).astype(np.float32)).to("cuda")
    return x.to(getattr(lib, dtype)).requires_grad_(grad)


def streaming(n: int) -> Iterator[tuple[str, str, int, Callable[[], Any]]]:
    """Names, dtypes, bytes that are moved, calls."""
    for dtype, size in (("float32", 4), ("bfloat16", 2)):
        x, y = (fg.empty(n, dtype=getattr(fg, dtype), device="cuda").fill_(v) for v in (0.5, 0.25))
        z = fg.empty_like(x)
        yield "copy", dtype, 2 * size * n, lambda z=z, x=x: z.copy_(x)
        yield "add", dtype, 3 * size * n, lambda x=x, y=y: x + y
        yield "exp", dtype, 2 * size * n, lambda x=x: x.exp()
        yield "sum", dtype, size * n, lambda x=x: x.sum()
    rows = fg.empty(max(n // 4096, 2), 4096 if n > 4096 else 8, device="cuda").fill_(1)
    bias = fg.ones(rows.shape[1], device="cuda")
    yield "bias add", "float32", 8 * rows.numel(), lambda: rows + bias
    yield "transposed copy", "float32", 8 * rows.numel(), lambda: rows.t().contiguous()


def layers(m: Machine) -> Iterator[tuple[str, Callable[[Any], Callable[[], Any]], float]]:
    """Names, calls for either library, how they should compare."""
    rows, columns = m.size(8192, 4), m.size(4096, 8)

    def both(call: Callable[[Any, Any], Any], dtype: str) -> Callable[[Any], Callable[[], Any]]:
        def make(lib: Any) -> Callable[[], Any]:
            x, g = (numbers(lib, rows, columns, dtype=dtype, grad=grad) for grad in (True, False))
            return lambda: lib.autograd.grad(call(lib, x), x, g)

        return make

    for dtype in ("float32", "bfloat16"):
        yield f"softmax {dtype}", both(lambda lib, x: lib.nn.functional.softmax(x, -1), dtype), 1.0
        yield (
            f"layer norm {dtype}",
            both(lambda lib, x: lib.nn.functional.layer_norm(x, (columns,)), dtype),
            1.0,
        )
        yield f"gelu {dtype}", both(lambda lib, x: lib.nn.functional.gelu(x), dtype), 1.0

    def cross_entropy(lib: Any) -> Callable[[], Any]:
        x = numbers(lib, rows, columns, grad=True)
        classes = lib.tensor(np.random.default_rng(1).integers(0, columns, rows)).to("cuda")
        return lambda: lib.autograd.grad(lib.nn.functional.cross_entropy(x, classes), x)

    def adam(lib: Any) -> Callable[[], Any]:
        parameters = [lib.nn.Parameter(numbers(lib, m.size(1_000_000, 10))) for _ in range(10)]
        for p in parameters:
            p.grad = numbers(lib, *p.shape)
        return lib.optim.Adam(parameters, lr=1e-3, **({} if lib is fg else {"fused": True})).step

    def attention(lib: Any) -> Callable[[], Any]:
        sizes = (m.size(8, 1), m.size(16, 2), m.size(1024, 8), m.size(64, 8))
        q, k, v = (numbers(lib, *sizes, dtype="bfloat16", grad=True) for _ in range(3))
        g = numbers(lib, *sizes, dtype="bfloat16")
        call = lib.nn.functional.scaled_dot_product_attention
        return lambda: lib.autograd.grad(call(q, k, v, is_causal=True), (q, k, v), g)

    def sort(lib: Any) -> Callable[[], Any]:
        x = numbers(lib, m.size(1 << 22, 64))
        return lambda: x.sort()

    def convolution(lib: Any) -> Callable[[], Any]:
        x, w = (
            numbers(lib, m.size(64, 1), 64, m.size(56, 4), m.size(56, 4), grad=True),
            numbers(lib, 64, 64, 3, 3),
        )
        w = w.requires_grad_()
        g = numbers(lib, *x.shape)
        return lambda: lib.autograd.grad(lib.nn.functional.conv2d(x, w, padding=1), (x, w), g)

    yield "cross entropy", cross_entropy, 1.0
    yield "Adam, 10 million elements", adam, 1.0
    yield "attention bfloat16", attention, 0.7
    yield "sort", sort, 0.5
    yield "convolution 3x3", convolution, 0.5


def run(machine: Machine) -> Iterator[Row]:
    best = 0.0
    for name, dtype, nbytes, call in streaming(machine.size(1 << 28, 1 << 10)):
        pace = nbytes / machine.seconds(call)
        best = max(best, pace) if name == "copy" else best
        yield Row(f"{name} {dtype}", round(pace / 1e9, 1), "GB/s")
        yield share(f"{name} {dtype}", pace / best, 0.85)
    for what, make, target in layers(machine):
        yield from machine.compared(what, make, target)
