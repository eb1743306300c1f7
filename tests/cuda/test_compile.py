"""Kernels of the CUDA device compile, without a GPU, to code that is as lean as it was meant to be."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cuda_compiling import ROWS, Facts, assembled, facts, needs_compiler

import fastgrad
from fastgrad import flags
from fastgrad.kernels.cuda import compile as compilation
from fastgrad.kernels.cuda.builder import Launch
from fastgrad.native.build import cache
from fastgrad.native.contracts.cuda import DIVIDED, DOWNLOAD, PLAIN, UPLOAD, ZEROED
from fastgrad.native.contracts.element_types import (
    BFLOAT16,
    BOOL,
    COMPLEX,
    COMPLEX64,
    COMPLEX128,
    DTYPES,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    HALVES,
    INEXACT,
    INT32,
    SUPPORTED_DTYPES,
    UINT8,
)
from fastgrad.native.contracts.frames.elementwise import FLAT, INPLACE, STRIDED
from fastgrad.native.contracts.limits import FIRST_GPU
from fastgrad.ops.kernel_table import KERNELS

ARCHITECTURES = ("sm_80", "sm_90", "sm_100", "sm_120")
FORMS = {FLAT: "flat", STRIDED: "strided", INPLACE: "inplace"}
Cell = tuple[str, int, int, tuple[str, ...]]
"""A kernel, a dtype, a form, and the architectures for which it is compiled."""

IMPORT = re.compile(r"^\s*(import|from) numba(\.cuda| import cuda)", re.M)

TRANSFORMS = ("fft:whole", "fft:of_reals", "fft:to_half", "fft:from_half")  # whose scale is a float64
# Of large arguments the toolkit finds the rest by pi/2 in float64, in memory of the thread's own.
REDUCES_IN_DOUBLES = (
    "sin", "sin_dx", "cos", "cos_dx", "tan", "sinc", "sinc_dx", "lgamma", "digamma", "polygamma", "igamma", "igammac",
    "_standard_gamma_grad", "_dirichlet_grad",
    "special_bessel_j0", "special_bessel_j1", "special_bessel_y0", "special_bessel_y1", "special_spherical_bessel_j0",
    "special_airy_ai",
)  # fmt: skip
# So do these over complex numbers, whose parts are turned by an angle.
TURNS_IN_DOUBLES = (
    "exp", "exp2", "expm1", "sin", "sin_dx", "cos", "cos_dx", "tan", "sinh", "cosh", "tanh", "sinc", "sinc_dx",
    "sigmoid", "pow", "pow_da", "rpow", "polar",
)  # fmt: skip
# Their numbers are float64, as their frames or their results are; what is done for each element is not.
OF_DOUBLES = (
    "attention:build", "memory:constant", "random:sequence", "random:uniform", "random:normal", "dropout:forward",
    "dropout:again", "pool:pad", "normalization:rows", "normalization:channels", "normalization:fixed",
    "normalization:fixed_backward", "norm_gradients:rows_gradients",
    "sampling:standard_gamma", "sampling:poisson", "sampling:binomial", "spectra:least_squares",
    "distances:build", "distances:backward", *TRANSFORMS,
)  # fmt: skip
COUNTING = ("optim:step", "fft:whole", "fft:of_reals")  # how far a thread goes on they find out once


def mine():
    """The kernels that are compiled for CUDA."""
    return [k for k in KERNELS if k.builder in compilation.BUILDERS and k.cells(FIRST_GPU)]


# Formulas, which differ from each other in arithmetic alone, for all architectures; the others for one.
FORMULAS = (
    "add",
    "where",
    "exp",
    "pow",
    "sin",
    "erf",
    "gelu_dx_dx",
    "floor_divide",
    "lstm_state",
    "bitwise_not",
)
OF_HALVES = ("exp", "copy_from_9")
OF_BYTES = ("floor_divide", "remainder")  # sixteen in a thread
OF_COMPLEX = (
    "mul", "div", "div_db", "pow", "log", "sqrt", "sin", "tanh", "asin", "acosh", "atanh", "where", "abs.complex",
    "conj_physical", "sum", "mean", "any", "prod", "cumsum", "carried_on", "index_put", "scatter_add", "nonzero",
    "constant", "copy_from_8",
)  # fmt: skip
LARGEST, QUICK = ("attention:build", "conv:build"), ("elementwise:build", "copies:build")  # builders
STRIDES = ("assign", "exp", "add", "where", "clamp", "clamp_dx", "copy_from_8", "copy_from_0", "lstm_state")


def representatives() -> list[Cell]:
    """Each kernel for one dtype; of formulas, which differ in nothing else, few in other layouts.

    The largest kernels come first, so that nobody waits for them at the end; others that have code in common are
    neighbours.
    """
    found = []
    for kernel in mine():
        dtype = next(d for d in (FLOAT32, INT32, *kernel.dtypes) if d in kernel.dtypes)
        everywhere = kernel.builder != "elementwise:build" or kernel.name in FORMULAS
        found.append((kernel.name, dtype, FLAT, ARCHITECTURES if everywhere else ("sm_90",)))
    found += [(name, FLOAT32, STRIDED, ARCHITECTURES) for name in STRIDES]
    of_halves = [k for k in mine() if k.takes(BFLOAT16, FIRST_GPU) and k.builder != "elementwise:build"]
    # Attention's registers are used up, and by another code where there are tensor cores.
    found += [
        (k.name, BFLOAT16, FLAT, ARCHITECTURES if "attention" in k.name else ("sm_90",)) for k in of_halves
    ]
    found += [(name, dtype, FLAT, ARCHITECTURES) for name in OF_HALVES for dtype in HALVES]
    found += [("where", dtype, STRIDED, ("sm_90",)) for dtype in HALVES]
    found += [(name, dtype, INPLACE, ("sm_90",)) for name in ("add", "where") for dtype in (BOOL, FLOAT32)]
    found += [(name, dtype, FLAT, ("sm_80", "sm_120")) for name in OF_COMPLEX for dtype in COMPLEX]
    found += [(name, dtype, STRIDED, ("sm_90",)) for name in ("add", "copy_from_10") for dtype in COMPLEX]
    found += [(name, COMPLEX128, FLAT, ("sm_90",)) for name in ("fft", "ifft", "irfft")]
    found += [(name, UINT8, form, ARCHITECTURES) for name in OF_BYTES for form in (FLAT, STRIDED)]
    return sorted({*found}, key=_order)


def _order(cell: Cell) -> Any:
    name, *rest = cell
    builder = ROWS[name].builder
    return builder not in LARGEST, builder in QUICK, builder, name, *rest


def everything(dtype: int) -> list[Cell]:
    return [(k.name, d, form, ("sm_90",)) for k in mine() for d, form in k.cells(FIRST_GPU) if d == dtype]


def may_have_doubles(kernel) -> bool:
    """Whether float64 stands in a kernel for float32."""
    builder = kernel.builder
    return kernel.name in REDUCES_IN_DOUBLES or builder in OF_DOUBLES or builder.startswith("optim:")


def wrong(cell: Cell, found: list[Facts]) -> list[str]:
    """What is not as it should be about a kernel."""
    name, dtype, form, _ = cell
    what = f"{name} {DTYPES[dtype]} {FORMS[form]}"
    kernel = ROWS[name]
    codes = {kernel.frame(form).element(n, dtype) for n in kernel.frame(form).addresses.values()} | {dtype}
    wide, problems = {FLOAT64, COMPLEX128}, []
    turns = name in REDUCES_IN_DOUBLES or (name in TURNS_IN_DOUBLES and codes & set(COMPLEX))
    for one in found:
        if one.spilled or (one.stack and not turns):
            problems.append(f"{what}: {one.stack} bytes of stack, {one.spilled} spilled")
        single = dtype in (FLOAT32, COMPLEX64) and not codes & wide
        if one.doubles and single and not (turns or may_have_doubles(kernel)):
            problems.append(f"{what}: computes in float64")
        if one.divisions and dtype in INEXACT and kernel.builder not in COUNTING:
            problems.append(f"{what}: {one.divisions} divisions of 64 bits")
        if one.external:
            problems.append(f"{what}: calls functions that are not its own")
        if one.registers * one.threads > 1 << 16:
            problems.append(f"{what}: {one.registers} registers of {one.threads} threads")
    return problems


def check(cell: Cell) -> None:
    """Compile a kernel, which fails if something is not as it should be for one of the architectures."""
    name, dtype, form, architectures = cell
    problems = wrong(cell, [facts(assembled(name, dtype, form, one)) for one in architectures])
    assert not problems, "\n".join(problems)


# What takes longest comes first, so that nobody waits for it at the end.
@needs_compiler
@pytest.mark.parametrize(("computes", "dtype"), [("v", FLOAT16), ("x", BFLOAT16), ("w", FLOAT32)])
def test_convolutions_are_multiplied_by_tensor_cores(computes, dtype):
    made = assembled(f"convolution_{computes}", dtype, FLAT, "sm_80")
    kind = {FLOAT16: "m16n8k16.row.col.f32.f16", BFLOAT16: "m16n8k16.row.col.f32.bf16"}
    products = made.ptx.count(f"mma.sync.aligned.{kind.get(dtype, 'm16n8k8.row.col.f32.tf32')}")
    assert products == made.ptx.count("mma.sync") == 8 * (2 + 1)  # words 16 deep for many rows, 8 for few
    assert made.ptx.count("ldmatrix") == 4 * (2 + 1)
    tile = re.findall(r"\bfma\.rn\.f32\b", made.ptx)
    assert (len(tile) < 64) == (dtype != FLOAT32), "halves are multiplied so in groups of few channels alone"
    assert facts(made).registers <= 128


@needs_compiler
@pytest.mark.parametrize("name", ["attention", "attention_backward"])
def test_halves_are_multiplied_by_tensor_cores(name):
    made = assembled(name, FLOAT16, FLAT, "sm_80")
    for word in ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", "ldmatrix.sync", "cp.async.cg"):
        assert word in made.ptx
    assert made.launch.threads == 128


@needs_compiler
@pytest.mark.parametrize("name", ["attention", "attention_backward"])
def test_without_tensor_cores_halves_are_multiplied_as_others(name):
    assert "mma.sync" not in assembled(name, FLOAT16, FLAT, "sm_75").ptx


@needs_compiler
@pytest.mark.parametrize(
    "cell", representatives(), ids=lambda c: f"{c[0]}-{DTYPES[c[1]]}-{FORMS[c[2]]}-{'+'.join(c[3])}"
)
def test_a_kernel_compiles(cell):
    check(cell)


def conversions(name: str, dtype: int, architecture: str) -> tuple[str, set[str]]:
    """The PTX of a kernel, and what it converts to and from halves with."""
    ptx = assembled(name, dtype, FLAT, architecture).ptx
    return ptx, {word for word in re.findall(r"\bcvt\.\S+", ptx) if "f16" in word}


@needs_compiler
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_halves_are_converted_by_single_instructions(architecture):
    for name, whole in (("exp", True), ("tanh", True), ("copy_from_8", False)):
        ptx, found = conversions(name, FLOAT16, architecture)
        assert found == {"cvt.rn.f16.f32"} | ({"cvt.f32.f16"} if whole else set())
        other, found = conversions(name, BFLOAT16, architecture)
        assert found == {"cvt.rn.bf16.f32"}
        for text in (ptx, other):
            assert not re.search(r"\.extern \.func|\.local|\bcall", text)
            if whole:  # eight of them at a time
                assert re.search(r"\bld\.global\.v4\.[ubf]32", text)
                assert re.search(r"\bst\.global\.v4\.[ubf]32", text)


@needs_compiler
def test_without_an_instruction_bfloat16_is_rounded_by_integers():
    ptx, found = conversions("exp", BFLOAT16, "sm_75")
    assert not found
    assert not re.search(r"\.extern \.func|\.local|\bcall", ptx)


@needs_compiler
@pytest.mark.parametrize("name", OF_BYTES)
def test_bytes_are_divided_by_a_reciprocal(name):
    ptx = assembled(name, UINT8, FLAT, "sm_90").ptx
    assert "rcp.approx.ftz.f32" in ptx
    assert not re.search(r"\b(div|rem)\.", ptx)


@needs_compiler
@pytest.mark.parametrize("dtype", [FLOAT32, BFLOAT16], ids=DTYPES.__getitem__)
@pytest.mark.parametrize("name", ["softmax_backward", "norm_rows", "sum"])
def test_rows_are_read_by_sixteen_bytes(name, dtype):
    ptx = assembled(name, dtype, FLAT, "sm_90").ptx
    pieces = (
        4 if dtype == FLOAT32 or name == "sum" else 2
    )  # of a share, which are asked for before one is needed
    loads = r"ld\.global\.v4\.[bfu]32[^;]*;(?:(?!\b(?:bra|bar|shfl|st)\b)[\s\S])*?"
    assert re.search(rf"(?:{loads}){{{pieces}}}", ptx)
    if name != "sum":
        assert len(re.findall(r"\bst\.global\.v4\.[bfu]32", ptx)) > pieces


@needs_compiler
@pytest.mark.parametrize(("dtype", "kind"), [(FLOAT32, "f32"), (FLOAT64, "f64")])
def test_coordinates_of_grids_are_rounded_before_something_is_taken_from_them(dtype, kind):
    ptx = assembled("grid_sample", dtype, FLAT, "sm_90").ptx
    products = re.findall(rf"begin inline asm\s*mul\.rn\.{kind} (\S+),", ptx)
    assert len(products) >= 3  # across, down and deep
    for (
        product
    ) in products:  # of no other product they are a factor, which a sum could be made one operation with
        assert not re.search(rf"\b(mul|fma)\.\S+ \S+ [^;]*{re.escape(product)}\b", ptx)


@pytest.mark.parametrize("off", [-2, -1, 0, 1, 2])
def test_a_reciprocal_that_is_a_little_wrong_divides_bytes_exactly(off):
    a, b = np.arange(256)[:, None], np.arange(1, 256)[None]
    reciprocal = np.float32(1) / b.astype(np.float32)
    reciprocal += off * np.spacing(reciprocal)
    whole = np.trunc((a.astype(np.float32) + np.float32(0.5)) * reciprocal)
    np.testing.assert_array_equal(whole, a // b)


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("dtype", SUPPORTED_DTYPES, ids=DTYPES.__getitem__)
def test_all_cells_compile(dtype):
    problems = []
    for cell in everything(dtype):
        try:
            check(cell)
        except Exception as error:
            problems.append(f"{cell}: {type(error).__name__}: {error}")
    assert not problems, "\n".join(problems)


# --- what the runtime gets -------------------------------------------------------------------------------------


@pytest.fixture
def empty(tmp_path, monkeypatch):
    """An empty cache."""
    monkeypatch.setattr(flags, "CACHE", str(tmp_path))
    return tmp_path


@needs_compiler
def test_a_cubin_and_its_launch_are_kept(empty, monkeypatch):
    kernel = ROWS["add"]
    first = compilation.built(kernel, FLOAT32, FLAT, "sm_90")
    assert first.code[:4] == b"\x7fELF"
    assert first.entry.encode() in first.code
    assert first.launch == Launch(PLAIN, 4, ("n",), 2048, 256)
    monkeypatch.setattr(compilation, "need_compiler", lambda: pytest.fail("it is compiled again"))
    assert compilation.built(kernel, FLOAT32, FLAT, "sm_90") == first
    assert compilation.unit_name(kernel, FLOAT32, FLAT, "sm_80") != compilation.unit_name(
        kernel, FLOAT32, FLAT, "sm_90"
    )
    assert cache.has(compilation.unit_name(kernel, FLOAT32, FLAT, "sm_90"))


@needs_compiler
def test_a_divided_launch_has_its_divisors_behind_what_it_takes_of_the_frame(empty):
    made = compilation.built(ROWS["exp"], FLOAT32, STRIDED, "sm_90")
    assert made.launch == Launch(DIVIDED, 2 + 8 + 2 * 9, (), 1024, 256)


def test_calls_of_the_driver_have_no_code():
    for name, kind in {"zero_fill": ZEROED, "upload": UPLOAD, "download": DOWNLOAD}.items():
        made = compilation.built(ROWS[name], BOOL, FLAT, "sm_90")
        assert made == compilation.Cubin(b"", "", Launch(kind, ROWS[name].frame().words))


def test_what_there_is_no_kernel_of_is_said():
    for name in compilation.lacking(KERNELS):
        dtype = next(iter(ROWS[name].dtypes))
        with pytest.raises(
            NotImplementedError, match=f"no CUDA kernel for {name} .*move the operands to the CPU"
        ):
            compilation.built(ROWS[name], dtype, FLAT, "sm_90")


def test_without_a_compiler_it_says_what_to_install(empty, monkeypatch):
    monkeypatch.setattr(compilation, "find_spec", lambda name: None)
    compilation.toolchain.cache_clear()
    try:
        with pytest.raises(ImportError, match=r'pip install "fastgrad\[cuda13\]"'):
            compilation.built(ROWS["add"], FLOAT32, FLAT, "sm_90")
    finally:
        compilation.toolchain.cache_clear()


def test_only_the_compiler_knows_numba_cuda():
    package = Path(fastgrad.__file__).parent
    knowing = {path.name for path in package.rglob("*.py") if IMPORT.search(path.read_text("utf-8"))}
    assert knowing <= {
        "assemble.py",
        "hardware.py",
        "hardware_bits.py",
        "hardware_complex.py",
        "hardware_cores.py",
    }


def test_a_dtype_that_the_kernel_does_not_take_is_refused():
    with pytest.raises(NotImplementedError, match="convert"):
        compilation.built(ROWS["exp"], INT32, FLAT, "sm_90")
