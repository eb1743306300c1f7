"""What compiling kernels of the CUDA device gives, kernel by kernel."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import pytest

from fastgrad.kernels.cuda import compile as compilation
from fastgrad.ops.kernel_table import KERNELS

ROWS = {kernel.name: kernel for kernel in KERNELS}
LACKING = "numba-cuda is not installed, which compiles kernels for CUDA"


def needs_compiler(test: Any) -> Any:
    """A test that compiles kernels for GPUs."""
    return pytest.mark.assembler(pytest.mark.skipif(not compilation.toolchain(), reason=LACKING)(test))


class Facts(NamedTuple):
    """What the assembler and the PTX say."""

    registers: int
    stack: int
    spilled: int
    doubles: bool
    divisions: int
    threads: int
    external: int


def assembled(name: str, dtype: int, form: int, architecture: str) -> Any:
    """A kernel of the table, compiled; one after the other for several architectures, it is typed once."""
    from fastgrad.kernels.cuda import assemble

    return assemble.assembled(ROWS[name], dtype, form, architecture)


def facts(made: Any) -> Facts:
    """Facts of a compiled kernel."""
    [registers] = re.findall(r"Used (\d+) registers", made.report)
    of_functions = re.findall(
        r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", made.report
    )
    stack, stores, loads = (sum(map(int, column)) for column in zip(*of_functions, strict=True))
    divisions = len(re.findall(r"\b(?:div|rem)\.[su]64", made.ptx))
    doubles, external = ".f64" in made.ptx, made.ptx.count(".extern .func")
    return Facts(int(registers), stack, stores + loads, doubles, divisions, made.launch.threads, external)
