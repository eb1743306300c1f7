"""How wide the vectors of compiled loops are, read from the assembly of processors by name. Nothing of it is run."""

from __future__ import annotations

import functools
import platform
import re
from collections.abc import Callable, Iterator
from typing import Any

import llvmlite.binding as llvm
import pytest
from numba import njit

from fastgrad.kernels import halves
from fastgrad.kernels.compile import _function
from fastgrad.kernels.cpu import micro
from fastgrad.kernels.dtypes import ELEMENTS, KERNEL, LOOP
from fastgrad.native.base.intrinsics import words
from fastgrad.native.build import cache, processors
from fastgrad.native.build.compiler import compile_unit, optimised
from fastgrad.native.build.machine_code import target_machine
from fastgrad.native.build.processors import FULL_WIDTH, Processor, named
from fastgrad.native.contracts.element_types import BFLOAT16, DTYPES, FLOAT16, FLOAT32, FLOAT64
from fastgrad.native.contracts.entries import Export
from fastgrad.native.contracts.frames import FLAT
from fastgrad.ops.kernel_table import KERNELS

pytestmark = [
    pytest.mark.static,
    pytest.mark.skipif(
        platform.machine().lower() not in ("x86_64", "amd64"),
        reason="the processors are those of one architecture",
    ),
]

AVX2 = "+64bit,+avx,+avx2,+fma"
AVX512 = f"{AVX2},+avx512f,+avx512bw,+avx512dq,+avx512vl"
# The registers of loops that LLVM makes, and of tiles.
PROCESSORS = {
    "haswell": (AVX2, "ymm", "ymm"), "znver3": (AVX2, "ymm", "ymm"),
    "skylake-avx512": (AVX512, "ymm", "zmm"), "cascadelake": (AVX512, "ymm", "zmm"),
    "icelake-server": (AVX512, "zmm", "zmm"), "sapphirerapids": (AVX512, "zmm", "zmm"),
    "emeraldrapids": (AVX512, "zmm", "zmm"), "znver4": (AVX512, "zmm", "zmm"), "znver5": (AVX512, "zmm", "zmm"),
}  # fmt: skip
EVERY_PROCESSOR = pytest.mark.parametrize("name", PROCESSORS)
FLOATS = pytest.mark.parametrize("dtype", [FLOAT32, FLOAT64], ids=DTYPES.__getitem__)
ROWS = {kernel.name: kernel for kernel in KERNELS}


def assembly(exports: list[Export], processor: Processor, **more: Any) -> str:
    machine = target_machine(*processor)
    return machine.emit_assembly(optimised("probe", exports, processor, **more))


def assembly_of(kernel: str, dtype: int, processor: Processor) -> str:
    exports, more = unit(kernel, dtype)
    return assembly(exports, processor, **more)


@functools.cache
def unit(kernel: str, dtype: int) -> tuple[list[Export], dict[str, Any]]:
    """What a row of the kernel table compiles, which Numba lowers once for all processors, and with what else."""
    function, options, *more = _function(ROWS[kernel].builder)(ROWS[kernel], dtype, FLAT)
    dispatcher = function if hasattr(function, "py_func") else njit(**options)(function)
    return [Export("probe", dispatcher)], dict(*more)


def jumps_back(lines: list[str], jump: str = r"j\w+") -> list[tuple[int, int]]:
    """The lines of the labels, and of the jumps to them, of which the labels come first."""
    labels, found = {}, []
    for end, line in enumerate(lines):
        if label := re.match(r"(\.?L\w+):", line):
            labels[label[1]] = end
        elif (to := re.match(rf"\s+{jump}\s+(\.?L\w+)", line)) and to[1] in labels:
            found.append((labels[to[1]], end))
    return found


def innermost_loops(text: str) -> Iterator[list[str]]:
    """What lies between a label and a jump back to it, with no such loop inside."""
    lines = text.splitlines()
    loops = jumps_back(lines)
    for start, end in loops:
        if not any(start <= s and e <= end and (s, e) != (start, end) for s, e in loops):
            yield lines[start : end + 1]


def arithmetic(loop: list[str]) -> list[str]:
    """The registers that each addition and multiplication of vectors writes to."""
    found = (
        re.match(r"\s+v(?:add|sub|mul|fn?m(?:add|sub)\d+)p[sd]\s.*%([xyz]mm)\d+(?:\s|$)", x) for x in loop
    )
    return [x[1] for x in found if x]


def stores(loop: list[str]) -> bool:
    return any(re.match(r"\s+v?mov\w+\s+%[xyz]mm\d+, .*\(", line) for line in loop)


def bits(registers: list[str]) -> int:
    return sum({"x": 128, "y": 256, "z": 512}[register[0]] for register in registers)


def hot(loops: Iterator[list[str]]) -> list[str]:
    """The loop that does most with one turn."""
    return max(loops, key=lambda loop: bits(arithmetic(loop)))


@EVERY_PROCESSOR
@pytest.mark.parametrize(
    ("kernel", "dtype"), [("tanh", FLOAT32), ("tanh", FLOAT64), ("gelu", FLOAT32), ("exp", FLOAT64)]
)
def test_elementwise_loops(kernel: str, dtype: int, name: str):
    features, register, _ = PROCESSORS[name]
    text = assembly_of(kernel, dtype, named(name, features))
    found = arithmetic(hot(innermost_loops(text)))
    assert len(found) > 5
    assert set(found) == {register}


@EVERY_PROCESSOR
@pytest.mark.parametrize("dtype", [FLOAT16, BFLOAT16], ids=DTYPES.__getitem__)
def test_loops_over_halves(dtype: int, name: str):
    features, _, _ = PROCESSORS[name]
    text = assembly_of("tanh", dtype, named(name, f"{features},+f16c"))
    found = arithmetic(hot(innermost_loops(text)))
    assert len(found) > 5
    assert set(found) <= {"ymm", "zmm"}
    assert ("vcvtph2ps" in text) is (dtype == FLOAT16 and halves._converts_float16())


def test_float16_needs_no_library(monkeypatch: pytest.MonkeyPatch):
    """Where the processor does not convert float16, LLVM would call functions that may be missing."""
    pointer = halves.pointer_to_halves(FLOAT16)

    @njit(**LOOP)
    def double(out, x, n):
        for i in range(n):
            out[i] = 2 * x[i]

    def kernel(frame):
        f = words(frame)
        double(pointer(f[0]), pointer(f[1]), f[2])

    monkeypatch.setattr(halves, "_converts_float16", lambda: False)
    text = assembly([Export("probe", njit(**KERNEL)(kernel))], Processor("x86-64-v2", ""))
    assert "hf" not in re.sub("pshuf|shuf", "", text)
    assert re.search(r"mulps\s|addps\s", text)


@EVERY_PROCESSOR
@FLOATS
def test_sums(dtype: int, name: str):
    features, register, _ = PROCESSORS[name]
    text = assembly_of("sum", dtype, named(name, features))
    found = arithmetic(hot(loop for loop in innermost_loops(text) if not stores(loop)))
    assert found == [register] * 4  # sums side by side, or one addition would wait for the other


@EVERY_PROCESSOR
@FLOATS
def test_rare_calls_lie_beside_loops(dtype: int, name: str):
    features, register, _ = PROCESSORS[name]
    lines = assembly_of("sin", dtype, named(name, features)).splitlines()
    turn = usual_turn(lines)
    assert set(arithmetic(turn)) == {register}
    assert any("inlined_late_vecmath_rare_sin" in line for line in lines)
    assert not any("call" in line for line in turn)


def usual_turn(lines: list[str]) -> list[str]:
    """The hot loop, without what lies behind its jump back: that one depends on something."""
    return hot(lines[start:end] for start, end in jumps_back(lines, r"j(?!mp)\w+"))


def product_tile(dtype: int) -> tuple[int, int, int]:
    return micro.product_rows(), 2, micro.lanes(dtype)


@EVERY_PROCESSOR
@FLOATS
@pytest.mark.parametrize("shape", [micro.tile_shape, product_tile])
def test_tiles_lie_in_whole_registers(shape, dtype: int, name: str, monkeypatch: pytest.MonkeyPatch):
    features, _, register = PROCESSORS[name]
    processor = named(name, features)
    monkeypatch.setattr(processors, "host", lambda: processor)
    rows, vectors, width = shape(dtype)
    assert width * int(DTYPES[dtype][-2:]) == bits([register])
    tile, pointer = micro.tile(rows, vectors, width, dtype), ELEMENTS[dtype].pointer

    def product(frame):
        f = words(frame)
        tile(pointer(f[0]), f[1], f[2], pointer(f[3]), f[4], pointer(f[5]), f[6], f[7])

    loop = hot(innermost_loops(assembly([Export("probe", njit(**KERNEL)(product))], processor)))
    found = arithmetic(loop)
    assert len(found) % (rows * vectors) == 0
    assert set(found) == {register}
    assert not stores(loop)


def test_the_table_is_needed_and_known():
    for name in FULL_WIDTH:
        plain, tuned = Processor(name, AVX512), named(name, AVX512)
        widest = [
            set(arithmetic(hot(innermost_loops(assembly_of("square", FLOAT32, p))))) for p in (plain, tuned)
        ]
        assert widest == [{"ymm"}, {"zmm"}], name


def test_units_are_compiled_for_the_host(monkeypatch: pytest.MonkeyPatch):
    (exports, more), codes = unit("square", FLOAT32), {}
    for name in ("cascadelake", "icelake-server"):
        processor = named(name, AVX512)
        monkeypatch.setattr(processors, "host", lambda processor=processor: processor)
        codes[name] = compile_unit("probe", exports, **more)
        machine = target_machine(*processor)
        assert codes[name] == machine.emit_object(optimised("probe", exports, processor, **more))
    assert codes["cascadelake"] != codes["icelake-server"]


def test_the_host_is_tuned_and_the_cache_knows_it(monkeypatch: pytest.MonkeyPatch):
    name = processors.host().name
    features = processors.host().features.removesuffix(",-prefer-256-bit")
    keys = set()
    for table in (frozenset(), frozenset({name})):
        monkeypatch.setattr(processors, "FULL_WIDTH", table)
        host = processors.host.__wrapped__()
        assert host == (name, features + (",-prefer-256-bit" if table else ""))
        monkeypatch.setattr(processors, "host", lambda host=host: host)
        keys.add(cache.environment_key.__wrapped__())
        monkeypatch.undo()
    assert len(keys) == 2


@pytest.fixture
def asked_for(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Processor]:
    """The processor that code is made for on one of another kind, for what the environment asks."""
    here = llvm.FeatureMap({"avx": True, "avx2": True, "avx512f": False, "sse4a": False})
    monkeypatch.setattr(llvm, "get_host_cpu_features", lambda: here)
    monkeypatch.setattr(llvm, "get_host_cpu_name", lambda: "skylake")

    def ask(**given: str) -> Processor:
        for name in ("NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES"):
            monkeypatch.delenv(name, raising=False)
        for name, value in given.items():
            monkeypatch.setenv(f"NUMBA_CPU_{name}", value)
        return processors.host.__wrapped__()

    return ask


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, ("skylake", "+avx,+avx2,-avx512f,-sse4a")),
        ({"NAME": "generic"}, ("generic", "")),
        ({"NAME": "haswell"}, ("haswell", "+avx,+avx2,-avx512f,-sse4a")),
        ({"FEATURES": ""}, ("skylake", "")),
        ({"FEATURES": "+avx,,+64bit"}, ("skylake", "+avx,+64bit")),
        # A name stands for features, which code must not use where they are not.
        ({"NAME": "znver4", "FEATURES": "+avx,-sse4a"}, ("znver4", "+avx,-sse4a,-avx512f")),
    ],
)
def test_another_processor_is_named(given, expected, asked_for):
    assert asked_for(**given) == expected


@pytest.mark.parametrize("given", [{}, {"NAME": "znver4"}])
@pytest.mark.parametrize(
    ("features", "message"),
    [
        ("+avx,+sse4a", r"asks for '\+sse4a', which this processor \(skylake\) lacks"),
        ("avx2", "got 'avx2'; write each with its sign"),
        ("+avx, ", "got ' '"),
        ("+", r"got '\+'"),
    ],
)
def test_what_the_processor_lacks_is_refused(features, message, given, asked_for):
    with pytest.raises(RuntimeError, match=message):
        asked_for(FEATURES=features, **given)


def test_features():
    processor = named("znver4", "+avx2,-avx512f,+avx512vl")
    assert [x for x in ("avx", "avx2", "avx512f", "avx512vl", "fma") if processor.has(x)] == [
        "avx2",
        "avx512vl",
    ]
