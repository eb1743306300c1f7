"""The product of matrices at the sizes at which it is computed in another way, and the memory that it may touch."""

from __future__ import annotations

import ctypes
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fastgrad as fg
from fastgrad.kernels.compile import compile_kernel
from fastgrad.kernels.cpu.gemm import MIN_TRANSPOSED
from fastgrad.kernels.cpu.micro import PANEL
from fastgrad.native.contracts.element_types import FLOAT32, FLOAT64
from fastgrad.native.contracts.frames import FLAT
from fastgrad.native.contracts.frames.matrices import LARGE_PRODUCT, PANEL_COLUMNS, STRIP_ROWS
from fastgrad.native.shapes.matrices import STRETCH
from fastgrad.ops.linalg import GEMM, in_panels

DTYPES = {"float32": FLOAT32, "float64": FLOAT64}
# Rows, columns, inner size: tails of strips, of vectors and of panels; no inner size; vectors; beyond the tiles.
SIZES = (
    (1, 1, 0), (9, 5, 0), (1, 1, 1), (1, 600, 40), (600, 1, 40), (7, 15, 160), (8, 16, 128), (15, 17, 64),
    (16, 33, 31), (13, 47, PANEL - 1), (5, 31, PANEL), (6, 49, PANEL + 1), (11, 10, 2 * PANEL + 13), (16, 512, 128),
    (512, 128, 16), (64, 64, MIN_TRANSPOSED // 64 // 64 - 1), (64, 64, MIN_TRANSPOSED // 64 // 64),
    (1 << 8, 1 << 9, (LARGE_PRODUCT >> 17) + 1),
)  # fmt: skip


def framed(rng, rows, columns, dtype, by_columns):
    """Random elements in a matrix amidst NaN, stored by rows or by columns, and how far apart these lie."""
    shape = (columns, rows) if by_columns else (rows, columns)
    whole = np.full((shape[0] + 2, shape[1] + 5), np.nan, dtype)
    inner = whole[1:-1, 2:-3]
    inner[...] = rng.standard_normal(shape)
    return (inner.T if by_columns else inner), whole.shape[1]


def run(kernel, dtype, **values):
    """Run a kernel on a frame with these values."""
    declared = kernel.frame()
    frame = np.zeros(declared.words, np.int64)
    for name, value in values.items():
        frame[declared.place(name)] = value
    address = compile_kernel(kernel, DTYPES[dtype.name], FLAT)
    ctypes.CFUNCTYPE(None, ctypes.c_int64)(address)(frame.ctypes.data)


def run_kernel(out, a, lda, a_by_columns, b, ldb, b_by_columns, by_panels=False, laid_out=False, row=None):
    m, k = a.shape
    n = b.shape[1]
    if by_panels:
        count = -(-n // PANEL_COLUMNS)
        memory = np.full(count * k * PANEL_COLUMNS + 64, 5.0, out.dtype)
        run(
            in_panels.kernel, out.dtype, out=memory[32:].ctypes.data, x=b.ctypes.data, batch=1, panels=count, n=n, k=k,
            row=ldb, by_columns=b_by_columns,
        )  # fmt: skip
        assert (memory[:32] == 5).all()
        assert (memory[-32:] == 5).all()
        b, b_by_columns = memory[32:], False
    run(
        GEMM, out.dtype, out=out.ctypes.data, a=a.ctypes.data, b=b.ctypes.data, m=m, n=n, k=k, batch=1, row_out=n,
        row_a=lda, a_by_columns=a_by_columns, row_b=ldb, b_by_columns=b_by_columns, b_in_panels=by_panels,
        laid_out=laid_out, added=0 if row is None else row.ctypes.data,
    )  # fmt: skip


def check(m, n, k, dtype, a_by_columns, b_by_columns, **layout):
    rng = np.random.default_rng(m * 10007 + n * 101 + k)
    a, lda = framed(rng, m, k, dtype, a_by_columns)
    b, ldb = framed(rng, k, n, dtype, b_by_columns)
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    for row in (None, rng.standard_normal(n).astype(dtype)):
        memory = np.full(m * n + 64, 7.0, dtype)
        run_kernel(memory[32:], a, lda, a_by_columns, b, ldb, b_by_columns, row=row, **layout)
        added = np.zeros(n) if row is None else row.astype(np.float64)
        bound = 16 * np.finfo(dtype).eps * (np.abs(wide_a) @ np.abs(wide_b) + np.abs(added))
        assert (np.abs(memory[32 : 32 + m * n].reshape(m, n) - (wide_a @ wide_b + added)) <= bound).all()
        assert (memory[:32] == 7).all()
        assert (memory[32 + m * n :] == 7).all()


@pytest.mark.parametrize("size", SIZES, ids=lambda size: "x".join(map(str, size)))
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("b_by_columns", [False, True])
@pytest.mark.parametrize("a_by_columns", [False, True])
def test_where_paths_change(size, dtype, a_by_columns, b_by_columns):
    check(*size, dtype, a_by_columns, b_by_columns)


@pytest.mark.parametrize("layout", ["by_panels", "laid_out"])
@pytest.mark.parametrize(
    "size",
    [
        (1, 1, 1), (STRIP_ROWS - 1, 31, 33), (STRIP_ROWS + 9, 65, PANEL + 3), (3 * STRIP_ROWS, 96, 2 * PANEL),
        (130, 47, 700),
    ],
    ids=lambda size: "x".join(map(str, size)),
)  # fmt: skip
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("b_by_columns", [False, True])
@pytest.mark.parametrize("a_by_columns", [False, True])
def test_laid_out(size, dtype, a_by_columns, b_by_columns, layout):
    check(*size, dtype, a_by_columns, b_by_columns, **{layout: True})


@settings(max_examples=150, deadline=None)
@given(
    st.integers(1, 70), st.integers(1, 70), st.integers(0, 70), st.sampled_from(sorted(DTYPES)),
    st.booleans(), st.booleans(),
)  # fmt: skip
def test_small_sizes(m, n, k, dtype, a_by_columns, b_by_columns):
    check(m, n, k, dtype, a_by_columns, b_by_columns)


@pytest.mark.parametrize("size", [(7, 15, 160), (6, 49, PANEL + 1), (16, 96, 40), (33, 1, 20)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_linear_and_its_gradients(size, dtype):
    m, n, k = size
    rng = np.random.default_rng(5)
    x, w, bias, g = (rng.standard_normal(s).astype(dtype) for s in ((m, k), (n, k), (n,), (m, n)))
    tensors = [fg.tensor(v, requires_grad=True) for v in (x, w, bias)]
    out = fg.nn.functional.linear(*tensors)
    out.backward(fg.tensor(g))
    wide = [v.astype(np.float64) for v in (x, w, bias, g)]
    expected = (wide[3] @ wide[1], wide[3].T @ wide[0], wide[3].sum(0))
    tolerance = 200 * np.finfo(dtype).eps
    np.testing.assert_allclose(out.detach().numpy(), wide[0] @ wide[1].T + wide[2], tolerance, 10 * tolerance)
    for tensor, grad in zip(tensors, expected, strict=True):
        np.testing.assert_allclose(tensor.grad.numpy(), grad, tolerance, 10 * tolerance)


ADDED = {
    "row": lambda n: fg.arange(float(n)),
    "expanded": lambda n: fg.ones(1).expand(n),
    "one row": lambda n: fg.arange(float(n)).reshape(1, n),
    "every other": lambda n: fg.arange(2.0 * n)[::2],
    "column": lambda n: fg.arange(600.0).reshape(600, 1),
    "number": lambda n: fg.tensor(3.0),
    "one": lambda n: fg.tensor([3.0]),
    "matrix": lambda n: fg.arange(600.0 * n).reshape(600, n),
    "view": lambda n: fg.arange(n + 5.0)[5:],
    "nan": lambda n: fg.full((n,), float("nan")),
}


@pytest.mark.parametrize("name", ADDED)
@pytest.mark.parametrize(("k", "n"), [(5, 3), (300, 200), (300, 1), (0, 4)])
def test_what_is_added_to_a_product(name, k, n):
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-3, 4, s).astype(np.float32) for s in ((600, k), (k, n)))
    c = ADDED[name](n)
    got = fg.addmm(c, fg.tensor(a), fg.tensor(b))
    np.testing.assert_array_equal(got.numpy(), a @ b + c.numpy())
    before, threads = c.clone(), fg.get_num_threads()
    fg.set_num_threads(4)
    try:
        again = fg.addmm(c, fg.tensor(a), fg.tensor(b))
    finally:
        fg.set_num_threads(threads)
    np.testing.assert_array_equal(again.numpy(), got.numpy())
    np.testing.assert_array_equal(c.numpy(), before.numpy())


@pytest.mark.parametrize("place", [(3, 4), (0, 0), (7, 159)])
def test_infinities_stay_in_their_rows(place):
    x, w = np.ones((8, 160), np.float32), np.ones((17, 160), np.float32)
    x[place] = np.inf
    out = (fg.tensor(x) @ fg.tensor(w).T).numpy()
    expected = np.full((8, 17), 160.0, np.float32)
    expected[place[0]] = np.inf
    assert (out == expected).all()


@pytest.mark.parametrize("by_columns", [False, True])
def test_gradient_of_addmm_lies_as_its_operand(by_columns):
    base = fg.randn(*((5, 4) if by_columns else (4, 5)), requires_grad=True)
    b = base.t() if by_columns else base * 1
    a, x = fg.randn(3, 4), fg.randn(3, 5)
    out = fg.addmm(x, a, b)
    assert out.grad_fn.name() == "AddmmBackward0"
    (grad,) = fg.autograd.grad(out, b, fg.ones(3, 5))
    assert grad.stride() == b.stride()
    np.testing.assert_allclose(grad.numpy(), a.numpy().T @ np.ones((3, 5), np.float32), 1e-6)


@pytest.mark.parametrize("by_columns", [(False, False), (False, True), (True, False), (True, True)])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [(301, 401, 290), (40, 2003, 450), (2, 330, 301, 350)], ids=str)
def test_large_products_are_the_same_on_any_number_of_threads(size, dtype, by_columns):
    *batch, m, n, k = size
    rng = np.random.default_rng(7)
    shapes = ((m, k), (k, n))
    wide = [
        rng.standard_normal((*batch, *(s[::-1] if t else s))) for s, t in zip(shapes, by_columns, strict=True)
    ]
    a, b = (
        fg.tensor(x.astype(dtype)).transpose(-1, -2) if t else fg.tensor(x.astype(dtype))
        for x, t in zip(wide, by_columns, strict=True)
    )
    assert m * n * k > LARGE_PRODUCT
    before, results = fg.get_num_threads(), []
    for threads in (1, 2, 5):
        fg.set_num_threads(threads)
        results.append((a @ b).numpy())
    fg.set_num_threads(before)
    x, y = a.numpy().astype(np.float64), b.numpy().astype(np.float64)
    assert (np.abs(results[0] - x @ y) <= 16 * np.finfo(dtype).eps * (np.abs(x) @ np.abs(y))).all()
    assert (results[0] == results[1]).all()
    assert (results[0] == results[2]).all()


# --- with a vector -----------------------------------------------------------------------------------------------

LENGTHS = (0, 1, 7, 33, PANEL + 9, STRETCH - 1, STRETCH + 1, 2 * STRETCH + 70)


def of_a_layout(x, layout):
    """The same elements as a tensor without gaps, stored by columns, or with gaps."""
    if layout == "columns":
        return fg.tensor(np.ascontiguousarray(x.T)).t()
    if layout == "gaps":
        wide = np.full([2 * n + 1 for n in x.shape], np.nan if x.dtype.kind == "f" else 99, x.dtype)
        wide[tuple(slice(1, None, 2) for _ in x.shape)] = x
        return fg.tensor(wide)[tuple(slice(1, None, 2) for _ in x.shape)]
    return fg.tensor(x)


@pytest.mark.parametrize("layout", ["rows", "columns", "gaps"])
@pytest.mark.parametrize("of_vector", ["rows", "gaps"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_products_with_a_vector(dtype, layout, of_vector):
    rng = np.random.default_rng(3)
    for m, k in itertools.product(LENGTHS, (0, 1, 8, 13, 2 * PANEL + 11)):
        a, x = rng.standard_normal((m, k)) * 8, rng.standard_normal(k) * 8
        a, x = a.astype(dtype), x.astype(dtype)
        expected = a.astype(np.float64) @ x.astype(np.float64)
        eps = np.finfo(dtype).eps if dtype.startswith("float") else 0
        bound = 16 * eps * (np.abs(a).astype(np.float64) @ np.abs(x).astype(np.float64))
        matrix, vector = of_a_layout(a, layout), of_a_layout(x, of_vector)
        for y in (
            matrix @ vector, vector @ matrix.t(), (matrix @ vector.unsqueeze(1)).squeeze(1),
            (vector.unsqueeze(0) @ matrix.t()).squeeze(0),
            (matrix.unsqueeze(0) @ vector.reshape(1, k, 1)).reshape(m),
        ):  # fmt: skip
            assert (np.abs(y.numpy() - expected) <= bound).all()


@pytest.mark.parametrize("by_columns", [False, True])
def test_products_with_a_vector_are_the_same_on_any_number_of_threads(by_columns):
    matrix, vector = fg.randn(1500, 1400), fg.randn(1400)
    matrix = matrix.t().contiguous().t() if by_columns else matrix
    before, results = fg.get_num_threads(), []
    for n in (1, 2, 5):
        fg.set_num_threads(n)
        results.append((matrix @ vector).numpy())
    fg.set_num_threads(before)
    assert (results[0] == results[1]).all()
    assert (results[0] == results[2]).all()


def test_nan_and_infinities_in_products_with_a_vector():
    matrix = np.ones((40, 20), np.float32)
    matrix[3, 4], matrix[5, 6], matrix[7, 8] = np.nan, np.inf, -np.inf
    for x in (np.ones(20, np.float32), np.zeros(20, np.float32)):
        with np.errstate(invalid="ignore"):
            expected = matrix @ x
        for a in (fg.tensor(matrix), of_a_layout(matrix, "columns")):
            np.testing.assert_array_equal((a @ fg.tensor(x)).numpy(), expected)
