"""Compiling every kernel for this GPU, in all processes that there are cores for, and loading it through the driver."""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import os
import time
from collections.abc import Iterator
from typing import Any

import fastgrad as fg
from fastgrad.cuda import gpus
from fastgrad.kernels.cuda import compile as compilation
from fastgrad.native.contracts.element_types import FLOAT32, INT32
from fastgrad.native.contracts.limits import FIRST_GPU
from fastgrad.ops.kernel_table import KERNELS
from tests.gpu.steps.machine import Machine, Row, at_most, holds

RARELY = 16
"""Without a GPU the CPU's kernels are compiled, which other tests do: one in so many is enough to see the step work."""


def cells() -> list[tuple[int, int, int]]:
    """Each kernel that GPUs have in each of its forms, for one dtype."""
    found = []
    for kernel in KERNELS:
        if kernel.builder not in compilation.BUILDERS and kernel.name not in compilation.CALLS:
            continue
        dtype = next((d for d in (FLOAT32, INT32, *kernel.dtypes) if d in kernel.dtypes), None)
        found += [(kernel.id, dtype, form) for d, form in kernel.cells(FIRST_GPU) if d == dtype]
    return found


def built(cell: tuple[int, int, int], architecture: str) -> str:
    """Compile one, or find it in the cache: empty, or what went wrong."""
    number, dtype, form = cell
    try:
        compilation.built(KERNELS[number], dtype, form, architecture)
    except Exception as error:
        return f"{KERNELS[number].name}: {type(error).__name__}: {error}"
    return ""


def run(machine: Machine) -> Iterator[Row]:
    architecture = "sm_{}{}".format(*fg.cuda.get_device_capability(0))
    wanted = cells()[:: RARELY if machine.stand_in else 1]
    yield Row("kernels", len(wanted), f"for {architecture}")
    if not machine.stand_in:
        fresh = multiprocessing.get_context("spawn")  # a GPU cannot be used in a fork
        with concurrent.futures.ProcessPoolExecutor(os.cpu_count(), fresh) as pool:
            for what, limit in (("cold", 60.0), ("again", 5.0)):
                started = time.perf_counter()
                wrong = [p for p in pool.map(built, wanted, [architecture] * len(wanted), chunksize=4) if p]
                yield at_most(f"compiled, {what}", time.perf_counter() - started, "s", limit)
                yield holds(f"not compiled, {what}", "; ".join(wrong[:3]) or 0, not wrong)
    gpu = gpus.gpus()[0]
    failed: list[Any] = []
    started = time.perf_counter()
    for number, dtype, form in wanted:
        try:
            gpu.resolve(KERNELS[number], dtype, form)
        except Exception as error:
            failed.append(f"{KERNELS[number].name}: {error}")
    yield Row("loaded", round(time.perf_counter() - started, 2), "s")
    yield holds("not loaded", "; ".join(failed[:3]) or 0, not failed)
