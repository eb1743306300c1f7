"""Which kernels there are: dispatch gets those that are declared, and `warmup` compiles them all."""

from __future__ import annotations

import pytest

import fastgrad as fg
from fastgrad import flags, warm
from fastgrad.kernels.compile import unit_name
from fastgrad.native.build import cache, notices
from fastgrad.native.build.loader import KERNEL_TABLE
from fastgrad.native.contracts.element_types import (
    BFLOAT16,
    BOOL,
    COMPLEX,
    FLOAT32,
    HALVES,
    INEXACT,
    INT64,
    SUPPORTED_DTYPES,
    WIDE,
)
from fastgrad.native.contracts.frames import FLAT, INPLACE, STRIDED
from fastgrad.native.contracts.limits import N_DEVICES, N_DTYPES, N_LAYOUTS
from fastgrad.native.contracts.ops import ELEMENTWISE, IN_FLOAT32
from fastgrad.native.host import devices
from fastgrad.native.host.tables import BY_NAME, OPS
from fastgrad.ops.kernel_table import KERNELS
from tests.runtime.test_cache import seed

ROWS = {kernel.name: kernel for kernel in KERNELS}


@pytest.fixture
def empty(tmp_path, monkeypatch):
    """A cache that holds the runtime alone, here and in processes that start."""
    monkeypatch.setattr(flags, "CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(notices, "_said", set())
    folder = tmp_path / "cache" / cache.environment_key()
    seed(folder)
    monkeypatch.setenv("FASTGRAD_CACHE", flags.CACHE)
    return folder


# --- what is declared ------------------------------------------------------------------------------------------


def test_an_empty_cache_lacks_every_declared_cell(empty):
    declared = {(kernel.id, *cell) for kernel in KERNELS for cell in kernel.cells()}
    assert set(warm.missing()) == {cell for cell in declared if not warm._is_rare(cell)}
    assert set(warm.missing(["*", "*float16*"])) == {cell for cell in declared if cell[1] in HALVES} | set(
        warm.cells()
    )


@pytest.mark.parametrize(
    "in_place", ["mul", "exp", "neg", "relu", "round", "bitwise_not", "assign", "clamp", "pow"]
)
def test_what_works_in_place_is_declared_in_place(in_place):
    kernel = BY_NAME[in_place].kernel
    assert {(dtype, INPLACE) for dtype in kernel.dtypes} <= set(kernel.cells())


def test_cells_of_some_kernels():
    assert ROWS["exp"].cells() == [(dtype, form) for dtype in INEXACT for form in (FLAT, STRIDED, INPLACE)]
    assert ROWS["mul_da"].cells() == [(dtype, form) for dtype in INEXACT for form in (FLAT, STRIDED)]
    assert len(ROWS["assign"].cells()) == 3 * len(SUPPORTED_DTYPES)
    assert (INT64, FLAT) in ROWS["add"].cells()
    assert (BOOL, FLAT) not in ROWS["sub"].cells()
    # A comparison of numbers is a bool, which cannot stand where they do.
    assert [dtype for dtype, form in ROWS["lt"].cells() if form == INPLACE] == [BOOL]
    assert ROWS["zero_fill"].cells() == [(BOOL, FLAT)]
    assert [k.name for k in KERNELS if not k.cells()] == [
        "ctc_second_derivative",
        "fused",
        "fused_rows",
        "grid_third_derivative",
    ]


def test_kernels_of_ops_with_derivatives_take_floats():
    """Or complex numbers, where there is nothing else that they could be of."""
    lacking = [op for op in OPS if op.rules and op.kernel and not set(WIDE) <= set(op.kernel.dtypes)]
    assert all(op.kernel.dtypes == COMPLEX for op in lacking)


def test_ops_whose_kernels_lack_halves_convert_them():
    for op in OPS:
        if op.kernel is not None and op.kind != ELEMENTWISE and set(WIDE) <= set(op.kernel.dtypes):
            assert set(HALVES) <= set(op.kernel.dtypes) or op.facts["flags"] & IN_FLOAT32, op.name


# --- the door --------------------------------------------------------------------------------------------------


def test_dispatch_gets_no_kernel_that_is_not_declared(monkeypatch):
    asked = []
    monkeypatch.setitem(devices._resolvers, 0, lambda *cell: asked.append(cell) or 0)
    with pytest.raises(
        NotImplementedError, match=r"abs\(\): not implemented for 'Bool'; convert the operand"
    ):
        fg.tensor([True]).abs()
    assert not asked


def test_a_missing_form_is_a_fault_of_the_runtime():
    with pytest.raises(RuntimeError, match="kernel 'mul_da' is not declared for layout class 2"):
        ROWS["mul_da"].need(FLOAT32, INPLACE)


def test_the_table_holds_declared_cells_alone():
    """Whatever the tests of this process have run."""
    fg.ones(2).exp_()
    found = set()
    for kernel in KERNELS:
        for rest in range(N_DTYPES * N_LAYOUTS):
            if KERNEL_TABLE[kernel.id * N_DEVICES * N_DTYPES * N_LAYOUTS + rest]:
                found.add((kernel.id, *divmod(rest, N_LAYOUTS)))
    assert (ROWS["exp"].id, FLOAT32, INPLACE) in found
    assert found <= {(kernel.id, *cell) for kernel in KERNELS for cell in kernel.cells()}


@pytest.mark.parametrize(
    ("call", "hint"),
    [
        (lambda: -fg.tensor([True]), "logical_not"),
        (lambda: fg.tensor([True]).abs(), r"\.to\(fastgrad\.int64\) first"),
        (lambda: fg.nn.functional.prelu(fg.tensor([1]), fg.tensor([2])), r"\.to\(fastgrad\.float32\) first"),
        (lambda: fg.tensor([1.0]) & fg.tensor([1.0]), r"not implemented for 'Float', 'Float'$"),
    ],
    ids=["neg", "abs", "prelu", "and"],
)
def test_what_to_do_where_there_is_no_kernel(call, hint):
    with pytest.raises(NotImplementedError, match=hint):
        call()


# --- filling ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("jobs", [1, 2])
def test_warmup_compiles_what_the_cache_lacks(empty, jobs, monkeypatch, capsys):
    cells = [
        (ROWS["exp"].id, FLOAT32, INPLACE), (ROWS["assign"].id, INT64, STRIDED), (ROWS["add"].id, INT64, FLAT),
    ]  # fmt: skip
    only = ["exp-float32-inplace", "assign-int64-strided", "add-int64-flat"]
    seen = []
    assert fg.warmup(lambda *told: seen.append(told), jobs=jobs, only=only) == 3
    assert [done for done, *_ in seen] == [1, 2, 3]
    assert {total for _, total, *_ in seen} == {3}
    assert {name for *_, name, _ in seen} == {"exp", "assign", "add"}
    left = [seconds for *_, seconds in seen]
    assert left[0] > 0 == left[-1]
    assert all(cache.has(unit_name(KERNELS[k], dtype, form)) for k, dtype, form in cells)
    assert sum(not path.name.startswith("runtime") for path in empty.glob("*.o")) == len(cells)
    assert fg.warmup(lambda *told: seen.append(told), jobs=jobs, only=only) == 0
    assert len(seen) == 3
    assert capsys.readouterr().err == ""
    # A damaged file is lacking, too.
    path = empty / f"{unit_name(ROWS['exp'], FLOAT32, INPLACE)}.o"
    path.write_bytes(b"")
    assert fg.warmup(jobs=jobs, only=only) == 1
    assert path.stat().st_size


@pytest.mark.parametrize(
    ("only", "kernels"),
    [
        (["exp"], {"exp", "exp_dx"}),  # the op, with its derivative
        (["exp-*"], {"exp"}),
        (["erf", "erf_dx", "mul_d?"], {"erf", "erf_dx", "mul_da", "mul_db"}),
        (["softmax"], {"softmax", "softmax_backward"}),
        (["mm"], {"gemm"}),
        (["binary_cross_entropy_db"], {"binary_cross_entropy_db"}),  # no derivative is declared of it
        ("relu", {"relu", "threshold_backward"}),
    ],
)
def test_patterns_name_kernels_and_ops(only, kernels):
    found = warm.cells(only)
    assert {KERNELS[kernel].name for kernel, _, _ in found} == kernels
    assert set(found) <= set(warm.cells())


def test_patterns_name_cells():
    exp = ROWS["exp"].id
    assert warm.cells(["exp-float32-flat"]) == [(exp, FLOAT32, FLAT)]
    assert warm.cells(["exp-bfloat16-flat"]) == [(exp, BFLOAT16, FLAT)]
    assert not any(warm._is_rare(cell) for cell in warm.cells(["exp", "copy_from_*"]))
    assert warm.cells(["exp-float32-*"]) == [(exp, FLOAT32, form) for form in (FLAT, STRIDED, INPLACE)]


@pytest.mark.parametrize(
    ("pattern", "told"),
    [
        ("softmx", r"is called 'softmx'; is it 'softmax' or"),
        ("exp-int64-flat", r"is called 'exp-int64-flat'$"),
        ("copy_from_2", r"is called 'copy_from_2'; is it 'copy_from_"),  # a row without cells
        ("copy_from_6", r"is called 'copy_from_6'"),  # one of halves, which has to be named by its dtypes
        ("", r"is called ''$"),
    ],
)
def test_a_pattern_that_names_nothing(pattern, told):
    with pytest.raises(ValueError, match=told):
        fg.warmup(only=["exp", pattern])


@pytest.mark.parametrize("jobs", [0, -1])
def test_warmup_needs_a_process(jobs):
    with pytest.raises(ValueError, match=f"expected jobs to be 1 or more, but got {jobs}"):
        fg.warmup(jobs=jobs)


def test_warmup_fails_where_nothing_can_be_kept(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(flags, "CACHE", str(tmp_path / "file"))
    with pytest.raises(OSError, match=r"compiled code cannot be kept.*Not a directory"):
        fg.warmup()


def test_warmup_fails_when_the_disk_is_full(empty, monkeypatch):
    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cache.os, "fsync", full)
    with pytest.raises(OSError, match=r"compiled code cannot be kept.*No space left"):
        fg.warmup(only=["exp-float32-flat"])
    assert not cache.has(unit_name(ROWS["exp"], FLOAT32, FLAT))
