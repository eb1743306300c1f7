"""QR decompositions, and orthogonal matrices as products of reflectors, by LAPACK."""

from __future__ import annotations

import itertools

from fastgrad.native.contracts.frames import linalg as frames
from fastgrad.native.contracts.ops import NOT_DIFFERENTIABLE
from fastgrad.ops.call import invoke
from fastgrad.ops.matrices import MatrixOp, adjoint, lapack_kernel, part, placed, times, turned
from fastgrad.ops.shape import triu
from fastgrad.ops.systems import TRIANGULAR

_QR = lapack_kernel("qr", "reflectors:qr", frames.QR)
_SAVED_AS = "A -> Q R factors tau"


def _mirrored(x):
    """An upper triangle, and below its diagonal what stands above."""
    return invoke(triu, (x,), 0) + turned(invoke(triu, (x,), 1))


def _mirrored_complex(x):
    """An upper triangle with real numbers on its diagonal, and below it the conjugates of what stands above."""
    above = invoke(triu, (x,), 1)
    diagonal = invoke(triu, (x,), 0) - above
    return above + adjoint(above) + (diagonal + adjoint(diagonal)) * 0.5


def _qr(wide: bool, of_pairs: bool) -> MatrixOp:
    """The decomposition of matrices of full rank that are as high as wide, or higher; or `wide`.

    Of the former, ``dQ = (dA - Q dR) R^-1`` and ``Q' dQ`` is antisymmetric. Of a wide matrix the first columns are QR
    with the first ones of R, and the others Q R2 (S. Walter and L. Lehmann, Algorithmic differentiation of linear
    algebra functions with application in optimum experimental design, 2010). Of complex matrices, whose R has real
    numbers on its diagonal, adjoint matrices stand in place of transposed ones.
    """
    op = MatrixOp(
        "linalg_qr" + ".wide" * wide + ".complex" * of_pairs, ("a",), _QR, node="LinalgQrBackward0", called="qr",
        saved_as=_SAVED_AS,
    )  # fmt: skip
    turn, mirrored = (adjoint, _mirrored_complex) if of_pairs else (turned, _mirrored)

    def divided(x, r, batch, k, rows):
        """The product of x with the inverse of R transposed."""
        return turn(TRIANGULAR[True, False, False].solved(r, turn(x), batch, k, rows))

    def of_q(g, y, y1, batch, m, k, rest, sizes):
        r = part(y1, -1, 0, k) if wide else y1
        out = divided(g - times(y, mirrored(times(turn(y), g))), r, batch, k, m)
        return placed(out, -1, 0, k, sizes) if wide else out

    def of_r(g, y, y1, batch, m, k, rest, sizes):
        if not wide:
            return divided(times(y, mirrored(times(g, turn(y1)))), y1, batch, k, m)
        r, of_first, of_rest = part(y1, -1, 0, k), part(g, -1, 0, k), part(g, -1, k, rest)
        coupling = times(part(y1, -1, k, rest), turn(of_rest))
        core = coupling + mirrored(times(of_first, turn(r)) - coupling)
        out = divided(times(y, core), r, batch, k, m)
        return placed(out, -1, 0, k, sizes) + placed(times(y, of_rest), -1, k, rest, sizes)

    op.vjp_sum("a", of_q, of_r, None, None)
    return op


QR = {(wide, of_pairs): _qr(wide, of_pairs) for wide, of_pairs in itertools.product((False, True), repeat=2)}
"""The ops for matrices that are wide or not, and complex or not."""
qr_partial = MatrixOp(
    "linalg_qr.partial", ("a",), _QR, node="LinalgQrBackward0", called="qr", saved_as=_SAVED_AS
)
"""Without Q, or with more columns of it than there are in the matrix: no derivative is known."""
geqrf = MatrixOp(
    "geqrf", ("a",), lapack_kernel("reflectors", "reflectors:factor", frames.REFLECTORS),
    saved_as="self -> a tau",
)  # fmt: skip
householder = MatrixOp(
    "householder", ("a", "tau"), lapack_kernel("householder", "reflectors:householder", frames.HOUSEHOLDER),
    NOT_DIFFERENTIABLE, called="householder_product",
)  # fmt: skip
reflected = MatrixOp(
    "reflected", ("a", "tau", "c"), lapack_kernel("reflected", "reflectors:reflected", frames.REFLECTED),
    NOT_DIFFERENTIABLE, called="ormqr",
)  # fmt: skip
