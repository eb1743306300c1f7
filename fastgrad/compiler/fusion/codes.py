"""The codes of fused launches: compiled once in a process for each program, and known to the runtime by numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastgrad.cuda import gpus
from fastgrad.kernels.compile import compile_fused
from fastgrad.kernels.cuda.compile import FusedRow, can_compile
from fastgrad.kernels.programs import Program
from fastgrad.native.build import cache
from fastgrad.native.build.loader import runtime_set
from fastgrad.native.contracts.element_types import FLOAT32
from fastgrad.native.contracts.frames import FLAT
from fastgrad.native.contracts.limits import FIRST_GPU, N_CODES

__all__ = ["can_compile", "code_of"]

_numbers: dict[tuple[Any, Program], int] = {}  # by the GPU, None for the host, and by the program


def code_of(program: Program, kernels: Mapping[str, Any], device: int = 0) -> int:
    """The number of the code of a program for a device, compiled if need be; 0 if a process cannot have so many."""
    gpu = gpus.attached()[device - FIRST_GPU] if device else None
    with cache.COMPILING:  # held by whoever compiles, and while a process forks
        number = _numbers.get((gpu, program), 0)
        if number or len(_numbers) >= N_CODES - 1:
            return number
        address = _compiled_on(gpu, program, kernels) if gpu else compile_fused(program, kernels)
        number = len(_numbers) + 1
        runtime_set("codes", address, number)
        runtime_set("code_devices", device, number)
        _numbers[gpu, program] = number
        return number


def _compiled_on(gpu: gpus.Gpu, program: Program, kernels: Mapping[str, Any]) -> int:
    """The address of the record by which a fused kernel of a GPU is launched."""
    return gpu.resolve(FusedRow(program, kernels), FLOAT32, FLAT)
