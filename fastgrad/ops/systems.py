"""Factors of matrices, systems of equations, inverses, determinants, exponentials, by LAPACK."""

from __future__ import annotations

import itertools
from typing import Any

from fastgrad.native.contracts.frames import linalg as frames
from fastgrad.native.contracts.ops import HOLOMORPHIC, NOT_DIFFERENTIABLE, ONE_DIFFERENTIABLE
from fastgrad.ops.call import invoke, is_traced
from fastgrad.ops.complex_numbers import conj_physical, imag_part
from fastgrad.ops.matrices import (
    MatrixOp,
    adjoint,
    as_matrices,
    lapack_kernel,
    part,
    placed,
    times,
    turned,
)
from fastgrad.ops.reduce import sum_
from fastgrad.ops.shape import cat, tril, triu, zeros_of

HOLOMORPHIC_FIRST = HOLOMORPHIC | ONE_DIFFERENTIABLE
"""Of several outputs the first one has a gradient, and is a holomorphic function."""

# --- triangular systems ------------------------------------------------------------------------------------------

_TRIANGULAR = lapack_kernel("triangular", "systems:triangular", frames.TRIANGULAR)


class Triangular(MatrixOp):
    """The solution of ``a x = b`` by one triangle of a.

    Parameters
    ----------
    upper : bool
        By the upper one.
    unit : bool
        With ones on the diagonal.
    transposed : bool
        Of a transposed.
    """

    def __init__(self, upper: bool, unit: bool, transposed: bool) -> None:
        suffix = ".upper" * upper + ".unit" * unit + ".transposed" * transposed
        self.which = int(upper), int(unit), int(transposed)
        super().__init__(
            f"linalg_solve_triangular{suffix}", ("a", "b"), _TRIANGULAR, HOLOMORPHIC, called="solve_triangular",
            saved_as="self B",
            node="LinalgSolveTriangularBackward0",
        )  # fmt: skip

    def solved(self, a: Any, b: Any, batch: Any, n: Any, k: Any) -> Any:
        """The solution."""
        return self.first_of((a, b), batch, n, k, *self.which)


TRIANGULAR = {which: Triangular(*which) for which in itertools.product((False, True), repeat=3)}
"""The ops by `upper`, `unit` and `transposed`."""


def _derive(upper: bool, unit: bool, transposed: bool) -> None:
    op, other = TRIANGULAR[upper, unit, transposed], TRIANGULAR[upper, unit, not transposed]
    mask, offset = triu if upper else tril, (1 if upper else -1) * unit

    @op.vjp("b")
    def _(g, a, batch, n, k):
        return other.solved(a, g, batch, n, k)

    @op.vjp("a")
    def _(g, a, y, batch, n, k):
        of_b = other.solved(a, g, batch, n, k)
        return -invoke(mask, (times(y, turned(of_b)) if transposed else times(of_b, turned(y)),), offset)


for _which in TRIANGULAR:
    _derive(*_which)


def _lower(a, b, batch, n, k, unit=False, transposed=False):
    return TRIANGULAR[False, unit, transposed].solved(a, b, batch, n, k)


def _upper(a, b, batch, n, k, unit=False, transposed=False):
    return TRIANGULAR[True, unit, transposed].solved(a, b, batch, n, k)


# --- interchanges of rows ----------------------------------------------------------------------------------------

# Those that pivots say turn a matrix into L U; undone, they turn L U into the matrix.
_INTERCHANGE = lapack_kernel("interchange", "systems:interchange", frames.INTERCHANGE)
INTERCHANGE = {
    backwards: MatrixOp(
        f"interchange{'_back' * backwards}", ("x", "pivots"), _INTERCHANGE, HOLOMORPHIC, edges=1
    )
    for backwards in (False, True)
}


def interchanged(x: Any, pivots: Any, batch: Any, n: Any, k: Any, p: Any, backwards: bool = False) -> Any:
    """Matrices of n rows and k columns with rows interchanged, or put back."""
    return INTERCHANGE[backwards].first_of((x, pivots), batch, n, k, p, int(backwards))


@INTERCHANGE[False].vjp("x")
def _(g, pivots, batch, n, k, p):
    return interchanged(g, pivots, batch, n, k, p, True)


@INTERCHANGE[True].vjp("x")
def _(g, pivots, batch, n, k, p):
    return interchanged(g, pivots, batch, n, k, p)


# --- general matrices --------------------------------------------------------------------------------------------

inverse = MatrixOp(
    "linalg_inv_ex", ("a",), lapack_kernel("inverse", "systems:inverse", frames.INVERSE), HOLOMORPHIC_FIRST,
    called="inv", saved_as="A -> inverse info pivots",
)  # fmt: skip
solve = MatrixOp(
    "linalg_solve_ex", ("a", "b"), lapack_kernel("solve", "systems:solve", frames.SOLVE), HOLOMORPHIC_FIRST,
    called="solve", saved_as="A B -> result LU pivots info",
)  # fmt: skip


@inverse.vjp("a")
def _(g, y):
    transposed = turned(y)
    return -times(transposed, g, transposed)


def _solved_back(g, a, factors, pivots, batch, n, k):
    """The solution for the transposed matrix: with the factors, but where it is recorded anew."""
    if not is_traced(g):
        return solve.first_of((turned(a), g), batch, n, k)
    # The transposed matrix is P L U, of which the factors hold U and L transposed.
    x = interchanged(g, pivots, batch, n, k, n)
    return _lower(factors, _upper(factors, x, batch, n, k, True, True), batch, n, k, False, True)


@solve.vjp("b")
def _(g, a, y1, y2, batch, n, k):
    return _solved_back(g, a, y1, y2, batch, n, k)


@solve.vjp("a")
def _(g, a, y, y1, y2, batch, n, k):
    return -times(_solved_back(g, a, y1, y2, batch, n, k), turned(y))


def _lu(shape: str) -> MatrixOp:
    """L and U in one matrix that is as wide as high ("square"), wider or taller, with the derivative for it.

    With P A = L U, all of them square, ``P dA = dL U + L dU``, so that the gradient is P' L'^-1 (tril(L' gL, -1) +
    triu(gU U')) U'^-1. What is left of a matrix that is not square depends on its square part linearly.
    """
    op = MatrixOp(
        "linalg_lu_factor_ex" + {"square": "", "wide": ".wide", "tall": ".tall"}[shape], ("a",), _LU,
        HOLOMORPHIC_FIRST,
        node="LinalgLuFactorExBackward0", called="lu_factor", saved_as="A -> LU pivots info",
    )  # fmt: skip

    @op.vjp("a")
    def _(g, y, y1, batch, m, n, k, rest, sizes):
        dim = {"square": 0, "wide": -1, "tall": -2}[shape]
        lu, of_lu = (part(x, dim, 0, k) if dim else x for x in (y, g))
        lower, of_lower = invoke(tril, (lu,), -1), invoke(tril, (of_lu,), -1)
        upper, of_upper = invoke(triu, (lu,), 0), invoke(triu, (of_lu,), 0)
        below, above = times(turned(lower), of_lower) + of_lower, times(of_upper, turned(upper))
        if dim:
            other, of_other = part(y, dim, k, rest), part(g, dim, k, rest)
        if shape == "wide":
            below = below - times(of_other, turned(other))
        if shape == "tall":
            above = above - times(turned(other), of_other)
        core = invoke(tril, (below,), -1) + invoke(triu, (above,), 0)
        out = turned(_upper(lu, turned(_lower(lu, core, batch, k, k, True, True)), batch, k, k))
        if shape == "wide":
            rest_out = _lower(lu, of_other, batch, k, rest, True, True)
        if shape == "tall":
            rest_out = turned(_upper(lu, turned(of_other), batch, k, rest))
        if dim:
            out = placed(out, dim, 0, k, sizes) + placed(rest_out, dim, k, rest, sizes)
        return interchanged(out, y1, batch, m, n, k, True)

    return op


_LU = lapack_kernel("lu", "systems:lu", frames.LU)
LU = {shape: _lu(shape) for shape in ("square", "wide", "tall")}

# --- determinants ------------------------------------------------------------------------------------------------

det = MatrixOp(
    "linalg_det", ("a",), lapack_kernel("determinant", "determinants:determinant", frames.DETERMINANT),
    HOLOMORPHIC_FIRST, called="det", saved_as="A",
)  # fmt: skip
_LOG_DETERMINANT = lapack_kernel("log_determinant", "determinants:log_determinant", frames.LOG_DETERMINANT)
slogdet, slogdet_complex = (
    MatrixOp(
        name, ("a",), _LOG_DETERMINANT, called="slogdet", saved_as="A -> sign logabsdet LU",
        node="LinalgSlogdetBackward0",
    )
    for name in ("linalg_slogdet", "linalg_slogdet.complex")
)  # fmt: skip
cofactors = MatrixOp(
    "cofactors",
    ("a",),
    lapack_kernel("cofactors", "determinants:cofactors", frames.COFACTORS),
    HOLOMORPHIC_FIRST,
    node="LinalgDetBackward0",
)
cofactors_derivative = MatrixOp(
    "cofactors_derivative", ("a", "v"),
    lapack_kernel("cofactors_derivative", "determinants:cofactors_derivative", frames.DERIVATIVE),
    HOLOMORPHIC_FIRST, node="LinalgDetBackwardBackward0",
)  # fmt: skip


@det.vjp("a")
def _(g, a, batch, n, room):
    return as_matrices(g) * cofactors.first_of((a,), batch, n, room)


@cofactors.vjp("a")
def _(g, a, batch, n, room):
    return cofactors_derivative.first_of((a, g), batch, n, room)


@cofactors_derivative.vjp("v")
def _(g, a, batch, n, room):  # second derivatives of a determinant do not depend on their order
    return cofactors_derivative.first_of((a, g), batch, n, room)


def _whole(x):
    return invoke(sum_, (x,), 1, -2, -1)


@cofactors_derivative.vjp("a")
def _(g, a, v, batch, n, room):
    """Of d (<v, W> W - W v' W), where d is the determinant and W the inverse transposed; for regular matrices."""
    w = turned(inverse.first_of((a,), batch, n))
    d = as_matrices(det.first_of((a,), batch, n, room))
    of_v, of_g, both = _whole(v * w), _whole(g * w), times(w, turned(v), w)
    of_w = g * of_v + v * of_g - times(g, turned(w), v) - times(v, turned(w), g)
    return d * ((of_v * of_g - _whole(g * both)) * w - times(w, turned(of_w), w))


def _of_logarithm(g, a, batch, n):
    return as_matrices(g) * turned(inverse.first_of((a,), batch, n))


slogdet.vjp_sum("a", None, _of_logarithm, None)


def _of_complex_logarithm(g, a, batch, n):
    return as_matrices(g) * adjoint(inverse.first_of((a,), batch, n))


def _of_direction(g, a, y, batch, n):
    """Of the direction of a determinant, which changes by ``i y`` times the imaginary part of ``tr(a^-1 da)``."""
    turns = invoke(imag_part, (invoke(conj_physical, (g,)) * y,))
    return as_matrices(turns) * adjoint(inverse.first_of((a,), batch, n)) * -1j


slogdet_complex.vjp_sum("a", _of_direction, _of_complex_logarithm, None)

# --- symmetric matrices ------------------------------------------------------------------------------------------

_CHOLESKY = lapack_kernel("cholesky", "systems:cholesky", frames.CHOLESKY)
cholesky, cholesky_complex, cholesky_turned = (
    MatrixOp(
        name, ("a",), _CHOLESKY, ONE_DIFFERENTIABLE, called="cholesky", saved_as="self -> L info",
        node="LinalgCholeskyExBackward0",
    )
    for name in ("linalg_cholesky_ex", "linalg_cholesky_ex.complex", "linalg_cholesky_ex.turned")
)  # fmt: skip
ldl = MatrixOp(
    "linalg_ldl_factor_ex", ("a",), lapack_kernel("ldl", "systems:ldl", frames.LDL), ONE_DIFFERENTIABLE,
    called="ldl_factor", saved_as="self -> LD pivots info",
)  # fmt: skip
_LDL_SOLVE = lapack_kernel("ldl_solve", "systems:ldl_solve", frames.LDL_SOLVE)
ldl_solve = MatrixOp(
    "linalg_ldl_solve", ("a", "pivots", "b"), _LDL_SOLVE, HOLOMORPHIC, called="ldl_solve", saved_as="LD pivots B",
)  # fmt: skip
ldl_solve_hermitian = MatrixOp(
    "linalg_ldl_solve.hermitian", ("a", "pivots", "b"), _LDL_SOLVE, called="ldl_solve", saved_as="LD pivots B",
    node=ldl_solve.node,
)  # fmt: skip


@cholesky.vjp("a")
def _(g, y, batch, n):
    core = invoke(tril, (times(turned(y), g),), 0)
    core = (core + turned(invoke(tril, (core,), -1))) * 0.5
    return turned(_lower(y, turned(_lower(y, core, batch, n, n, False, True)), batch, n, n, False, True))


@cholesky_complex.vjp("a")
def _of_complex_triangle(g, y, batch, n):
    core = invoke(tril, (times(adjoint(y), g),), 0)
    core = (core + adjoint(invoke(tril, (core,), -1))) * 0.5
    left = invoke(conj_physical, (_lower(y, invoke(conj_physical, (core,)), batch, n, n, False, True),))
    return turned(_lower(y, turned(left), batch, n, n, False, True))


@cholesky_turned.vjp("a")
def _(g, y, batch, n):
    # That of an upper triangle, which is this one turned. What a gradient says off the Hermitian matrices is a
    # convention: by PyTorch's it is the adjoint here.
    return adjoint(_of_complex_triangle(g, y, batch, n))


@ldl_solve.vjp("b")
def _(g, a, pivots, batch, n, k, hermitian):
    return ldl_solve.first_of((a, pivots, g), batch, n, k, hermitian)


@ldl_solve_hermitian.vjp("b")
def _(g, a, pivots, batch, n, k, hermitian):
    return ldl_solve_hermitian.first_of((a, pivots, g), batch, n, k, hermitian)


# --- exponentials ------------------------------------------------------------------------------------------------

exponential = MatrixOp(
    "linalg_matrix_exp", ("a",), lapack_kernel("exponential", "exponentials:exponential", frames.EXPONENTIAL),
    HOLOMORPHIC_FIRST, called="matrix_exp", saved_as="self",
)  # fmt: skip
exponential_derivative = MatrixOp(
    "matrix_exp_derivative", ("a", "v"),
    lapack_kernel("exponential_derivative", "exponentials:exponential_derivative", frames.DERIVATIVE),
    NOT_DIFFERENTIABLE,
)  # fmt: skip


@exponential.vjp("a")
def _(g, a, batch, n, more, sizes):
    """The derivative at the transposed matrix: a block of an exponential (Al-Mohy and Higham, 2009)."""
    a = turned(a)
    if is_traced(g):
        return exponential_derivative.first_of((a, g), batch, n, more)
    rows, columns = sizes[0] - 2, sizes[0] - 1
    upper = invoke(cat, (a, g), columns, n, n)
    lower = invoke(cat, (invoke(zeros_of, (a,), sizes), a), columns, n, n)
    further = frames.room_of_exponential(4 * n) if more else 0
    both = exponential.first_of((invoke(cat, (upper, lower), rows, n, n),), batch, 2 * n, more, further)
    return part(part(both, -2, 0, n), -1, n, n)
