"""What a launch costs: a compiled loop of `cuLaunchKernel`, launches of the sweep, chains of small ops, small steps."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numba import njit

import fastgrad as fg
from fastgrad.cuda import gpus
from fastgrad.native.base.c_calls import function_at
from fastgrad.native.contracts.cuda import CUDA_KERNEL
from fastgrad.native.contracts.element_types import FLOAT32
from fastgrad.native.contracts.frames.elementwise import FLAT
from fastgrad.ops.kernel_table import KERNELS
from tests.gpu.steps.machine import Machine, Row, at_most

ELEMENTS = 64
launch_kernel = function_at("qiiiiiiiqqq")


@njit(nogil=True)
def many(count, address, function, threads, stream, extra):
    """What a loop in C does."""
    failures = 0
    for _ in range(count):
        failures += launch_kernel(address, function, 1, 1, 1, threads, 1, 1, 0, stream, 0, extra) != 0
    return failures


def bare_launches(count: int) -> Callable[[], Any]:
    """So many launches of an addition over a few elements, by the driver's function alone."""
    gpu = gpus.gpus()[0]
    add = next(k for k in KERNELS if k.name == "add")
    record = (ctypes.c_int64 * CUDA_KERNEL.words).from_address(gpu.resolve(add, FLOAT32, FLAT))
    values = {name: record[CUDA_KERNEL.fields[name][0]] for name in ("function", "threads")}
    tensors = [fg.ones(ELEMENTS, device="cuda") for _ in range(3)]
    words = (ctypes.c_int64 * 4)(ELEMENTS, *(t.data_ptr() for t in tensors))
    size = ctypes.c_size_t(ctypes.sizeof(words))
    extra = (ctypes.c_void_p * 5)(1, ctypes.addressof(words), 2, ctypes.addressof(size), 0)
    arguments = (
        gpu.driver.address("cuLaunchKernel"), values["function"], values["threads"],
        fg.cuda.current_stream().cuda_stream, ctypes.addressof(extra),
    )  # fmt: skip
    gpu.make_current()

    kept = (tensors, words, size, extra)  # the driver reads them at each launch

    def run() -> None:
        assert not many(count, *arguments), kept

    return run


def chain(lib: Any, length: int = 50, backward: bool = True) -> Callable[[], Any]:
    """Small ops one behind the other."""
    x = lib.ones(ELEMENTS, device="cuda", requires_grad=backward)

    def run() -> None:
        y = x
        for _ in range(length // 2):
            y = (y * x).tanh()
        if backward:
            lib.autograd.grad(y.sum(), x)

    return run


def passes(length: int) -> Callable[[], Any]:
    """Passes over one graph of multiplications, which launch one kernel for each node."""
    x, w = fg.ones(ELEMENTS, device="cuda", requires_grad=True), fg.ones(ELEMENTS, device="cuda")
    y = x
    for _ in range(length):
        y = y * w
    seed = fg.ones(ELEMENTS, device="cuda")
    return lambda: fg.autograd.grad(y, x, seed, retain_graph=True)


def mlp(lib: Any, sizes: tuple[int, ...] = (64, 128, 128, 10), batch: int = 64) -> Callable[[], Any]:
    """A step of training."""
    nn, rng = lib.nn, np.random.default_rng(0)
    layers = [nn.Linear(a, b) for a, b in itertools.pairwise(sizes)]
    parts = [part for layer in layers[:-1] for part in (layer, nn.ReLU())]
    model = nn.Sequential(*parts, layers[-1]).to("cuda")
    x = lib.tensor(rng.standard_normal((batch, sizes[0])).astype(np.float32)).to("cuda")
    y = lib.tensor(rng.integers(0, sizes[-1], batch)).to("cuda")
    optimizer = lib.optim.SGD(model.parameters(), lr=0.01)

    def step() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()

    return step


def run(machine: Machine) -> Iterator[Row]:
    count = machine.size(500, 5)  # a queue holds about 1024
    bare = machine.seconds(bare_launches(count)) / count
    yield Row("a loop of cuLaunchKernel", round(bare * 1e6, 3), "us a launch")
    swept = machine.seconds(passes(count)) / count
    yield Row("nodes of a pass", round(swept * 1e6, 3), "us a node")
    yield at_most("nodes of a pass over the loop", swept / bare, "x", 1.1)
    yield from machine.compared("chain of 50 ops, forward", lambda lib: chain(lib, backward=False), 3.0)
    yield from machine.compared("chain of 50 ops, forward and backward", chain, 3.0)
    yield from machine.compared("step of an MLP", mlp, 3.0)
    wide = (784, 1024, 1024, 10)
    yield from machine.compared("step of a large MLP", lambda lib: mlp(lib, wide, machine.size(256, 4)), 1.0)
