"""What compiling kernels of the CUDA device gives, kernel by kernel, in several processes."""

from __future__ import annotations

import functools
import gc
import multiprocessing
import os
import re
from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple


class Facts(NamedTuple):
    """What the assembler and the PTX say."""

    registers: int
    stack: int
    spilled: int
    doubles: bool
    divisions: int
    nbytes: int
    threads: int
    external: int


@functools.cache
def _rows():
    import fastgrad  # noqa: F401 - fills the table
    from fastgrad.ops.kernel_table import KERNELS

    return {kernel.name: kernel for kernel in KERNELS}


def facts(cell: tuple[str, int, int, tuple[str, ...]]) -> list[Facts] | str:
    """Facts of a kernel, one for each architecture; or what went wrong."""
    from fastgrad.kernels.cuda.assemble import assembled

    name, dtype, form, architectures = cell
    found = []
    try:
        for architecture in architectures:
            made = assembled(_rows()[name], dtype, form, architecture)
            [registers] = re.findall(r"Used (\d+) registers", made.report)
            of_functions = re.findall(
                r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", made.report
            )
            stack, stores, loads = (sum(map(int, column)) for column in zip(*of_functions, strict=True))
            spilled, doubles = stores + loads, ".f64" in made.ptx
            divisions = len(re.findall(r"\b(?:div|rem)\.[su]64", made.ptx))
            of_code = (len(made.code), made.launch.threads, made.ptx.count(".extern .func"))
            found.append(Facts(int(registers), stack, spilled, doubles, divisions, *of_code))
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return found


def _begin() -> None:
    """Load what compiles; no collection looks at it again."""
    import fastgrad.kernels.cuda.assemble  # noqa: F401

    _rows()
    gc.collect()
    gc.freeze()


def compiled(
    cells: list[tuple[str, int, int, tuple[str, ...]]],
) -> dict[tuple[str, int, int], list[Facts] | str]:
    """Facts of many kernels."""
    workers = min(os.cpu_count() or 1, 8)
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), _begin) as pool:
        results = pool.map(facts, cells, chunksize=max(1, min(8, len(cells) // workers)))
        return {cell[:3]: result for cell, result in zip(cells, results, strict=True)}
