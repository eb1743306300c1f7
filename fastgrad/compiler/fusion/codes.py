"""The codes of fused launches: compiled once in a process for each program, and known to the runtime by numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastgrad.kernels.compile import compile_fused
from fastgrad.kernels.programs import Program
from fastgrad.native.build import cache
from fastgrad.native.build.loader import runtime_set
from fastgrad.native.contracts.limits import N_CODES

_numbers: dict[Program, int] = {}


def code_of(program: Program, kernels: Mapping[str, Any]) -> int:
    """The number of the code of a program, compiled if need be; 0 if a process cannot have so many."""
    with cache.COMPILING:  # held by whoever compiles, and while a process forks
        number = _numbers.get(program, 0)
        if number or len(_numbers) >= N_CODES - 1:
            return number
        address = compile_fused(program, kernels)
        number = len(_numbers) + 1
        runtime_set("codes", address, number)
        _numbers[program] = number
        return number
