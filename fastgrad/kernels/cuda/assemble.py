"""Compiling kernels for CUDA: the only module that uses numba-cuda's compiler, and the toolkit's linker."""

from __future__ import annotations

import contextlib
import functools
import importlib
import re
from collections.abc import Iterator
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
from numba import cuda
from numba.cuda import compiler, dispatcher, types
from numba.cuda.core import untyped_passes
from numba.cuda.core.compiler_machinery import register_pass

from fastgrad.kernels.cuda import hardware
from fastgrad.kernels.cuda.builder import Launch
from fastgrad.kernels.cuda.compile import body_of
from fastgrad.kernels.cuda.cores import FIRST
from fastgrad.kernels.cuda.frames import view
from fastgrad.native.base.pipeline import IDLE, Remembering
from fastgrad.native.base.single_assignment import quick
from fastgrad.native.build.collector import collector_off
from fastgrad.native.build.interrupts import Uninterrupted
from fastgrad.native.contracts.cuda import MANY, MANY_PARAMETERS

_SPILLED = re.compile(r"(\d+) bytes spill stores")
_FAMILIES = ("sm_80", "sm_100")
_ENTRY = re.compile(r"\.visible \.entry (\w+)\(")
_UNUSED = re.compile(r"^\.common .*NumbaEnv.*\n", re.M)
"""Memory that numba-cuda declares for each function, for code that raises; each time in another order."""


# What numba-cuda otherwise loads when it compiles for the first time. Its version 0.30 asks NumPy for a name that is
# gone in NumPy 2.5.
with (
    contextlib.nullcontext()
    if hasattr(np, "row_stack")
    else mock.patch.object(np, "row_stack", np.vstack, create=True)
):
    importlib.import_module("numba.cuda.np.arrayobj")


class Assembled(NamedTuple):
    """A compiled kernel: its cubin and what that is called in there; how it is launched; its PTX, and what the
    assembler says of registers and of what did not fit into them.
    """

    code: bytes
    entry: str
    launch: Launch
    ptx: str
    report: str


@Uninterrupted()
@collector_off()
def assembled(kernel: Any, dtype: int, layout_class: int, architecture: str) -> Assembled:
    """Compile a kernel for an architecture such as ``sm_90``."""
    knows = _capability(architecture) >= FIRST
    function, launch, resident = _function(kernel, dtype, layout_class, knows)
    entry = "fastgrad_" + re.sub(r"\W", "_", kernel.name)
    blocks, spilled = max(1, resident // launch.threads), True
    while spilled:  # an assembler may need more registers than another: there is room for fewer blocks then
        ptx = _ptx(function, launch, blocks, _family(architecture))
        ptx = ptx.replace(_ENTRY.findall(ptx)[0], entry)
        if launch.kind == MANY:
            ptx = _with_table(ptx, entry, launch)
        code, report = _cubin(ptx, architecture)
        spilled = blocks > 1 and any(map(int, _SPILLED.findall(report)))
        blocks -= 1
    return Assembled(code, entry, launch, ptx, report)


@functools.lru_cache(maxsize=1)
def _function(kernel: Any, dtype: int, layout_class: int, knows_bfloat16: bool) -> tuple[Any, Launch, int]:
    """The function of a kernel with a parameter for each word of its frame that it takes, its launch, and how many
    threads there has to be room for.

    It is kept for the next architecture.
    """
    target = hardware.target(knows_bfloat16)
    body = body_of(kernel, dtype, layout_class, target)
    frame = view(kernel.frame(layout_class), body.kind, body.repeats)
    launch = body.launch(frame.n_words)
    words = re.sub(r"w\[(\d+)\]", r"w\1", frame.expression)
    parameters = ", ".join(f"w{k}" for k in range(launch.parameters))
    scope = {**frame.scope, "run": target.made(body.run)}
    exec(f"def kernel({parameters}):\n    run({words})\n", scope)
    return scope["kernel"], launch, body.resident


@functools.lru_cache(maxsize=2)
def _ptx(function: Any, launch: Launch, blocks: int, architecture: str) -> str:
    """The PTX of a kernel of which a multiprocessor has room for so many blocks; kept for the next architecture."""
    signature, bounds = types.void(*[types.int64] * launch.parameters), (launch.threads, blocks)
    with _without_device(), mock.patch.object(compiler, "CUDACompiler", _Compiler):
        ptx, _ = cuda.compile(
            function, signature, device=False, abi="numba", cc=_capability(architecture), launch_bounds=bounds
        )
    return _UNUSED.sub("", str(ptx).replace("\0", ""))


def _with_table(ptx: str, entry: str, launch: Launch) -> str:
    """The last parameter of a kernel over many frames becomes a table, of which any word can be asked for."""
    name = f"{entry}_param_{launch.parameters - 1}"
    nbytes = 8 * (MANY_PARAMETERS - launch.parameters + 1)
    ptx, found = re.subn(rf"\.param \.[bu]64 {name}\b", f".param .align 8 .b8 {name}[{nbytes}]", ptx)
    if found != 1:
        raise SystemError(f"kernel {entry}: there are {found} parameters {name}")
    return ptx.replace(hardware.TABLE, name)


_IDLE = frozenset(step.__name__ for step in IDLE)  # numba-cuda has passes of its own by these names
_QUICK = {untyped_passes.ReconstructSSA: quick(untyped_passes.ReconstructSSA, register_pass)}
_resolved: dict[Any, Any] = {}


class _Compiler(compiler.CUDACompiler):  # type: ignore[misc]
    """numba-cuda's pipeline without what does nothing here, with quick passes, which remembers what it resolved: see
    the CPU's.
    """

    def define_pipelines(self) -> list[Any]:
        self.state.typingctx = Remembering(self.state.typingctx, _resolved)
        [manager] = super().define_pipelines()
        manager.passes = [
            (_QUICK.get(step, step), about) for step, about in manager.passes if step.__name__ not in _IDLE
        ]
        return [manager]


class _Absent:
    compute_capability = (9, 0)


@contextlib.contextmanager
def _without_device() -> Iterator[None]:
    """Functions that kernels call are compiled for the device that there is; here is none, and none is asked for."""
    before = dispatcher.get_current_device
    dispatcher.get_current_device = lambda: _Absent
    try:
        yield
    finally:
        dispatcher.get_current_device = before


def _capability(architecture: str) -> tuple[int, int]:
    """The numbers of an architecture: (9, 0) of ``sm_90``."""
    number = int(architecture.removeprefix("sm_"))
    return number // 10, number % 10


def _family(architecture: str) -> str:
    """The first architecture of those for which the compiler makes the same PTX; the assembler tells them apart."""
    before = [first for first in _FAMILIES if _capability(first) <= _capability(architecture)]
    return before[-1] if before else architecture


def _cubin(ptx: str, architecture: str) -> tuple[bytes, str]:
    """What the assembler makes of PTX, and what it says."""
    from cuda.core import Linker, LinkerOptions, ObjectCode

    options = LinkerOptions(arch=architecture, ptxas_options=["-v"])
    linker = Linker(ObjectCode.from_ptx(ptx.encode()), options=options)
    code = linker.link("cubin").code
    return bytes(code), str(linker.get_info_log())
