"""Eigenvalues of symmetric matrices, singular values, and what is made of them, by LAPACK.

Eigenvectors and singular vectors are determined up to signs, and those of values that occur several times up to a
rotation; derivatives are those of functions that do not depend on the choice. Where two values are the same, the
quotient by their difference is left out: it would multiply zero.
"""

from __future__ import annotations

import math

from fastgrad.native.contracts.frames import linalg as frames
from fastgrad.native.contracts.ops import NOT_DIFFERENTIABLE, ONE_DIFFERENTIABLE
from fastgrad.ops.matrices import MatrixOp, adjoint, as_columns, as_rows, lapack_kernel, part, times, turned
from fastgrad.ops.vocabulary import m

# --- symmetric matrices ------------------------------------------------------------------------------------------

eigh = MatrixOp(
    "linalg_eigh", ("a",), lapack_kernel("eigh", "spectra:eigh", frames.EIGH), called="eigh",
    saved_as="A -> eigenvalues eigenvectors info",
)  # fmt: skip
eigvalsh = MatrixOp(
    "linalg_eigvalsh", ("a",), lapack_kernel("eigvalsh", "spectra:eigvalsh", frames.EIGVALSH), NOT_DIFFERENTIABLE,
    called="eigvalsh",
)  # fmt: skip


def _without_zeros(x):
    """What stands below a line, where zeros leave nothing of what stands above."""
    return m.masked_fill(x, math.inf, m.eq(x, 0.0))


def _antisymmetric(x):
    return x - turned(x)


def _of_eigenvalues(g, y1):
    return times(y1 * as_rows(g), turned(y1))


def _of_eigenvectors(g, y, y1):
    """Of the product, what is antisymmetric: the gradient is symmetric then, as in PyTorch."""
    turns = _antisymmetric(times(turned(y1), g)) * 0.5
    return times(y1, turns / _without_zeros(as_rows(y) - as_columns(y)), turned(y1))


eigh.vjp_sum("a", _of_eigenvalues, _of_eigenvectors, None)

# --- singular values ---------------------------------------------------------------------------------------------

_SVD = lapack_kernel("svd", "spectra:svd", frames.SVD)
svdvals = MatrixOp(
    "linalg_svdvals", ("a",), lapack_kernel("svdvals", "spectra:svdvals", frames.SVDVALS), NOT_DIFFERENTIABLE,
    called="svdvals",
)  # fmt: skip


def _squares(s):
    """Differences of the squares of singular values."""
    row, column = as_rows(s), as_columns(s)
    return _without_zeros((row - column) * (row + column))


def _svd(shape: str, full: bool) -> MatrixOp:
    """The singular value decomposition of matrices that are "square", "tall" or "wide"; with all singular vectors, of
    which the derivative knows those of a singular value.

    J. Townsend, Differentiating the singular value decomposition, 2016.
    """
    op = MatrixOp(
        f"linalg_svd{'' if shape == 'square' else '.' + shape}{'.full' * full}", ("a",), _SVD,
        node="LinalgSvdBackward0", called="svd", saved_as="A -> U S Vh info",
    )  # fmt: skip

    def some(u, k):
        return part(u, -1, 0, k) if full else u

    def some_rows(vh, k):
        return part(vh, -2, 0, k) if full else vh

    def of_u(g, y, y1, y2, k):
        g, u, vh = some(g, k), some(y, k), some_rows(y2, k)
        inner = times(turned(u), g)
        out = times(u, _antisymmetric(inner) / _squares(y1) * as_rows(y1))
        if shape == "tall":
            out = out + (g - times(u, inner)) / as_rows(y1)
        return times(out, vh)

    def of_values(g, y, y2, k):
        return times(some(y, k) * as_rows(g), some_rows(y2, k))

    def of_vh(g, y, y1, y2, k):
        g, u, vh = some_rows(g, k), some(y, k), some_rows(y2, k)
        inner = times(g, turned(vh))
        out = times(as_columns(y1) * (_antisymmetric(turned(inner)) / _squares(y1)), vh)
        if shape == "wide":
            out = out + (g - times(inner, vh)) / as_columns(y1)
        return times(u, out)

    op.vjp_sum("a", of_u, of_values, of_vh, None)
    return op


SVD = {(shape, False): _svd(shape, False) for shape in ("square", "tall", "wide")}
SVD |= {(shape, True): _svd(shape, True) for shape in ("tall", "wide")}
"""The decompositions by the shape of the matrices, and whether they have all singular vectors."""

# --- pseudo-inverses ---------------------------------------------------------------------------------------------

_PINV = lapack_kernel("pinv", "spectra:pinv", frames.PINV)
_LEAST_SQUARES = lapack_kernel("least_squares", "spectra:least_squares", frames.LEAST_SQUARES)


def _least_squares(of_pairs: bool) -> tuple[MatrixOp, MatrixOp]:
    """Pseudo-inverses and least squares, for real matrices or for complex ones."""
    suffix, turn = (".complex", adjoint) if of_pairs else ("", turned)
    pinv = MatrixOp(
        f"linalg_pinv{suffix}", ("a", "atol?", "rtol?"), _PINV, ONE_DIFFERENTIABLE, edges=1, called="pinv",
        saved_as="self atol rtol -> result info work", node="LinalgPinvBackward0", statistics=("atol", "rtol"),
    )  # fmt: skip
    lstsq = MatrixOp(
        f"linalg_lstsq{suffix}", ("a", "b"), _LEAST_SQUARES, ONE_DIFFERENTIABLE, called="lstsq",
        saved_as="self b -> solution rank singular_values info work", node="LinalgLstsqBackward0",
    )  # fmt: skip

    def pinv_of(a, batch, rows, columns, room):
        return pinv.first_of((a, None, None), batch, rows, columns, 0, room)

    # The matrices are m by n; `m` here is the number of rows.
    def of_matrix(g, y, a, b, batch, m, n, room):
        """As `_of_pinv` of the gradient times b, where each product has a factor with few columns."""
        p = pinv_of(a, batch, m, n, room)
        v = times(turn(p), g)
        tall = times(b - times(a, y), turn(times(p, v)))
        wide = times(turn(p), y, turn(g - times(turn(a), v)))
        return tall + wide - times(v, turn(y))

    def of_right_side(g, a, batch, m, n, room):
        return times(turn(pinv_of(a, batch, m, n, room)), g)

    pinv.vjp("a")(lambda g, y, a: _of_pinv(g, y, a, turn))
    lstsq.vjp("a")(of_matrix)
    lstsq.vjp("b")(of_right_side)
    return pinv, lstsq


def _of_pinv(g, p, a, turn):
    """Golub and Pereyra, The differentiation of pseudo-inverses, SIAM J. Numer. Anal. 10, 1973; of constant rank."""
    transposed, of_p = turn(p), turn(g)
    left, right = times(transposed, p, of_p), times(of_p, p, transposed)
    return right - times(a, p, right) + left - times(left, p, a) - times(transposed, g, transposed)


pinv, lstsq = _least_squares(False)
pinv_complex, lstsq_complex = _least_squares(True)
