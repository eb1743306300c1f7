"""Eigenvectors and singular vectors of complex matrices, which are determined up to factors of absolute value 1.

A loss that depends on these factors has no derivative. Whether it does shows in backward alone, in gradients of all
results together, so the decompositions are custom functions, where those of real matrices are ops with rules.
"""

from __future__ import annotations

import math
from typing import Any

from fastgrad.autograd.function import Function
from fastgrad.functions.matrices import adjoint, not_converged, raise_for, shape_of, sizes_of
from fastgrad.ops import spectra

_LARGEST_TURN = 1e-2
"""By how much a loss may depend on the phases of vectors, relative to its gradient: as much as in PyTorch."""


EIGENVECTORS = (
    "The eigenvectors in the complex case are specified up to multiplication by e^{i phi}. The specified loss function "
    "depends on this quantity, so it is ill-defined."
)
_SINGULAR_VECTORS = (
    "The singular vectors in the complex case are specified up to multiplication by e^{i phi}. The specified loss "
    "function depends on this phase term, making it ill-defined."
)


def need_no_phase(name: str, lengths: Any, what: str = EIGENVECTORS) -> None:
    """Refuse a loss that depends on how vectors are turned in the complex plane, by their products with gradients."""
    turns = lengths.detach().imag.abs()
    if bool((turns > _LARGEST_TURN * (1 + lengths.detach().abs())).any()):
        raise RuntimeError(f"{name}_backward: {what}")


def _without_zeros(x: Any) -> Any:
    return x.masked_fill(x == 0, math.inf)


def _diagonal(x: Any) -> Any:
    return x.diagonal(dim1=-2, dim2=-1)


class LinalgEigh(Function):
    """Eigenvalues and eigenvectors of Hermitian matrices."""

    @staticmethod
    def forward(ctx: Any, a: Any, lower: int, name: str) -> Any:  # noqa: D102
        batch, n, _ = sizes_of(a)
        values, vectors, info = spectra.eigh.all_of((a,), batch, n, lower)
        raise_for(name, info, not_converged)
        ctx.save_for_backward(values, vectors)
        ctx.set_materialize_grads(False)
        return values, vectors

    @staticmethod
    def backward(ctx: Any, g_values: Any, g_vectors: Any) -> Any:  # noqa: D102
        if g_values is None and g_vectors is None:
            return None, None, None
        values, vectors = ctx.saved_tensors
        back = adjoint(vectors)
        out = 0 if g_values is None else (vectors * g_values.unsqueeze(-2)) @ back
        if g_vectors is not None:
            slopes = back @ g_vectors
            need_no_phase("linalg_eigh", _diagonal(slopes))
            apart = _without_zeros(values.unsqueeze(-2) - values.unsqueeze(-1))
            out = out + vectors @ ((slopes - adjoint(slopes)) * 0.5 / apart) @ back
        return out, None, None

    @staticmethod
    def vmap(info: Any, in_dims: Any, a: Any, lower: int, name: str) -> Any:  # noqa: D102
        return LinalgEigh.apply(a.movedim(in_dims[0], 0), lower, name), (0, 0)


class LinalgSvd(Function):
    """Singular values and vectors; of the latter the derivative knows those of a singular value.

    J. Townsend, Differentiating the singular value decomposition, 2016. Where matrices are complex, vectors of a value
    may be turned by the same phase. A change of a matrix that turns one against the other counts for half of both.
    """

    @staticmethod
    def forward(ctx: Any, a: Any, full: bool, name: str) -> Any:  # noqa: D102
        batch, m, n = sizes_of(a)
        k = min(m, n)
        columns, rows = (m, n) if full else (k, k)
        u, s, vh, info = spectra.SVD[shape_of(m, n), False].all_of((a,), batch, m, n, k, columns, rows)
        raise_for(name, info, not_converged)
        ctx.save_for_backward(u, s, vh)
        ctx.set_materialize_grads(False)
        return u, s, vh

    @staticmethod
    def backward(ctx: Any, g_u: Any, g_s: Any, g_vh: Any) -> Any:  # noqa: D102
        if g_u is None and g_s is None and g_vh is None:
            return None, None, None
        u, s, vh = ctx.saved_tensors
        k = s.shape[-1]
        return _of_singular_vectors(
            u[..., :k], s, vh[..., :k, :], None if g_u is None else g_u[..., :k], g_s,
            None if g_vh is None else g_vh[..., :k, :],
        ), None, None  # fmt: skip

    @staticmethod
    def vmap(info: Any, in_dims: Any, a: Any, full: bool, name: str) -> Any:  # noqa: D102
        return LinalgSvd.apply(a.movedim(in_dims[0], 0), full, name), (0, 0, 0)


def _of_singular_vectors(u: Any, s: Any, vh: Any, g_u: Any, g_s: Any, g_vh: Any) -> Any:
    """The gradient of a matrix by those of its singular values, and of the vectors that belong to them."""
    row, column, back = s.unsqueeze(-2), s.unsqueeze(-1), adjoint(u)
    squares = _without_zeros((row - column) * (row + column))
    inner = 0 if g_s is None else g_s.to(u.dtype).diag_embed()
    lengths, turned, outside = 0, 0, 0
    if g_u is not None:
        left = back @ g_u
        inner = inner + (left - adjoint(left)) / squares * row
        lengths, turned = _diagonal(left), _diagonal(left).imag
        if u.shape[-2] > u.shape[-1]:
            outside = ((g_u - u @ left) / row) @ vh
    if g_vh is not None:
        right = vh @ adjoint(g_vh)
        inner = inner + column * ((right - adjoint(right)) / squares)
        lengths, turned = lengths + _diagonal(right), turned - _diagonal(right).imag
        if vh.shape[-1] > vh.shape[-2]:
            outside = u @ ((g_vh - adjoint(right) @ vh) / column) + outside
    if g_u is not None or g_vh is not None:
        need_no_phase("svd", lengths, _SINGULAR_VECTORS)
        inner = inner + (turned * 0.5 / s * 1j).diag_embed()
    return u @ inner @ vh + outside
