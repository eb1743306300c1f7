"""A few extreme eigenvalues of large symmetric matrices: `lobpcg`, locally optimal preconditioned conjugate gradients.

Each step finds the best approximations among combinations of those before, their residuals, and the directions of the
step before (Knyazev 2001), in a basis that is made orthonormal first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastgrad import dtypes
from fastgrad.autograd.function import Function
from fastgrad.autograd.modes import no_grad
from fastgrad.functions.arguments import as_flag, as_float, as_index, need_optional, need_tensor, need_type
from fastgrad.functions.creation import eye, randn
from fastgrad.functions.factors import eigh
from fastgrad.functions.index import where
from fastgrad.functions.shape import cat
from fastgrad.functions.systems import solve

_NAME = "lobpcg"
_PATIENCE = 50
"""After how many steps without a smaller residual a search without a limit is over."""


def _times(factor: Any, x: Any) -> Any:
    return x if factor is None else factor @ x


def _orthonormal(x: Any, b: Any, against: Any = None) -> Any:
    """A basis of what columns span, orthonormal with regard to `b`, without directions that depend on others.

    Of what lies in the span of `against`, a basis, nothing is left.
    """
    for _ in range(2):  # once more, against rounding
        if against is not None:
            x = x - against @ (against.mT @ _times(b, x))
        lengths = (x * _times(b, x)).sum(0).clamp(min=0).sqrt()
        x = x[:, lengths > 0] / lengths[lengths > 0]
        if not x.shape[1]:
            return x
        values, vectors = eigh(x.mT @ _times(b, x))
        kept = values > x.shape[1] * dtypes.finfo(x.dtype).eps * values[-1]
        x = x @ (vectors[:, kept] / values[kept].sqrt())
    return x


def _start(x: Any, b: Any) -> Any:
    """A basis with as many columns as there are; random ones take the place of those that depend on others."""
    basis = _orthonormal(x, b)
    while basis.shape[1] < x.shape[1]:
        more = randn(x.shape[0], x.shape[1] - basis.shape[1], dtype=x.dtype, device=x.device)
        basis = cat([basis, _orthonormal(more, b, basis)], 1)
    return basis


def _search(
    a: Any, b: Any, inverse: Any, x: Any, k: int, steps: int, tol: float, largest: bool
) -> tuple[Any, Any]:
    """The eigenvalues of one matrix and their vectors, from the approximations that columns of x are."""
    n = x.shape[1]
    basis, directions, scale, best, waited, step = _start(x, b), None, None, float("inf"), 0, 0
    x = None
    while True:
        values, mixed = eigh(basis.mT @ (a @ basis))
        values, mixed = (values.flip(0)[:n], mixed.flip(1)[:, :n]) if largest else (values[:n], mixed[:, :n])
        before, x = x, basis @ mixed
        images, bx = a @ x, _times(b, x)
        residual = images - bx * values
        if scale is None:  # of the matrices, as far as they are known
            scale = (images.norm() / x.norm(), bx.norm() / x.norm())
        errors = residual.norm(dim=0) / (x.norm(dim=0) * (scale[0] + values.abs() * scale[1]))
        worst = float(errors[:k].max())
        waited = 0 if worst < best else waited + 1
        best = min(best, worst)
        if worst < tol or step == steps or (steps < 0 and waited == _PATIENCE):
            return values[:k], x[:, :k]
        step += 1
        if before is not None:
            directions = _orthonormal(x - before @ (before.mT @ bx), b, x)
        known = x if directions is None else cat([x, directions], 1)
        basis = cat([known, _orthonormal(_times(inverse, residual), b, known)], 1)


class LOBPCG(Function):
    """The search with its derivative, that of eigenvectors of a symmetric matrix."""

    @staticmethod
    def forward(ctx: Any, a: Any, b: Any, find: Callable[[Any], tuple[Any, Any]]) -> Any:  # noqa: D102
        values, vectors = find(a.detach())
        ctx.save_for_backward(a, values, vectors)
        ctx.general = b is not None
        ctx.set_materialize_grads(False)
        return values, vectors

    @staticmethod
    def backward(ctx: Any, g_values: Any, g_vectors: Any) -> Any:  # noqa: D102
        if ctx.general:
            raise ValueError(f"{_NAME}: there is no derivative where B is given")
        a, values, vectors = ctx.saved_tensors
        out = None
        if g_values is not None:
            out = (vectors * g_values.unsqueeze(-2)) @ vectors.mT
        if g_vectors is not None:
            turned = _turned(a, values, vectors, g_vectors)
            out = turned if out is None else out + turned
        return out, None, None


def _turned(a: Any, values: Any, vectors: Any, g: Any) -> Any:
    """The gradient by the matrix of a loss that depends on the vectors: among themselves, and out of their span."""
    slopes = vectors.mT @ g
    apart = values.unsqueeze(-2) - values.unsqueeze(-1)
    inner = where(apart == 0, 0.0, slopes / where(apart == 0, 1.0, apart))
    outside = g - vectors @ slopes
    # Where the vectors are, a matrix minus an eigenvalue is singular: there something is added, which changes nothing
    # in what is orthogonal to them.
    span = vectors @ vectors.mT
    shift = 2 * (values.amax(-1) - values.amin(-1) + values.abs().amax(-1)).unsqueeze(-1).unsqueeze(-1) + 1
    identity = eye(a.shape[-1], dtype=a.dtype, device=a.device)
    systems = values.unsqueeze(-1).unsqueeze(-1) * identity - (a + shift * span).unsqueeze(
        -3
    )  # one for each value
    found = solve(systems, outside.mT.unsqueeze(-1)).squeeze(-1)
    return vectors @ inner @ vectors.mT + found.mT @ vectors.mT


def _need_matrix(a: Any) -> None:
    if a.dim() < 2:
        raise IndexError(f"{_NAME}(): A must be a matrix or a batch of them, but has {a.dim()} dimensions")
    if a.shape[-1] != a.shape[-2]:
        raise AssertionError(f"{_NAME}(): A must be square, got shape {tuple(a.shape)}")
    if a.dtype not in (dtypes.float32, dtypes.float64):
        raise NotImplementedError(f"{_NAME}(): A must be float32 or float64, not {a.dtype}")


def _need_fit(a: Any, value: Any, argument: str, columns: int | None = None) -> Any:
    """A matrix or batch beside A, as a batch of matrices; None where there is none."""
    if value is None:
        return None
    sizes = (*a.shape[:-1], a.shape[-1] if columns is None else columns)
    if value.dtype is not a.dtype or value.device != a.device:
        raise RuntimeError(f"{_NAME}(): {argument} must be {a.dtype} on {a.device}, as A is")
    if value.dim() < 2 or tuple(value.shape[-2:]) != tuple(sizes[-2:]):
        raise RuntimeError(f"{_NAME}(): {argument} must be of shape {sizes}, but got {tuple(value.shape)}")
    return value.detach().expand(sizes).reshape(-1, *sizes[-2:])


def lobpcg(
    A: Any,  # noqa: N803 - PyTorch's names
    k: int | None = None,
    B: Any = None,  # noqa: N803
    X: Any = None,  # noqa: N803
    n: int | None = None,
    iK: Any = None,  # noqa: N803
    niter: int | None = None,
    tol: float | None = None,
    largest: bool | None = None,
    method: str | None = None,
    tracker: Any = None,
    ortho_iparams: dict[str, int] | None = None,
    ortho_fparams: dict[str, float] | None = None,
    ortho_bparams: dict[str, bool] | None = None,
) -> tuple[Any, Any]:
    """The k largest or smallest eigenvalues of symmetric matrices, and their vectors: ``A x = e B x``.

    Parameters
    ----------
    A : Tensor
        Of shape (..., m, m), symmetric, of float32 or float64. Where it requires grad, ``(A + A.mT) / 2`` takes its
        place.
    k : int, optional
        How many; as many as X has columns, or 1.
    B : Tensor, optional
        As large, positive definite; without it the identity. There is no derivative then.
    X : Tensor, optional
        Of shape (..., m, n): where the search begins, otherwise at random.
    n : int, optional
        How many vectors are looked for together, k if nothing is said; no more than a third of m.
    iK : Tensor, optional
        A preconditioner as large as A: an approximation of its inverse.
    niter : int, optional
        The most steps, 1000 if nothing is said. With none or a negative number the search goes on until the residuals
        are below `tol`, or do not become smaller any more.
    tol : float, optional
        The residuals, relative to the matrix, at which the search ends; otherwise the root of the dtype's epsilon.
    largest : bool, optional
        Whether the largest ones are looked for, which is the default, in descending order, or the smallest, ascending.
    method : "ortho" or "basic", optional
        Accepted: there is one method, with an orthonormal basis.
    tracker : None
        Nothing else is possible.
    ortho_iparams, ortho_fparams, ortho_bparams : dict, optional
        Accepted and without effect.

    Returns
    -------
    (Tensor, Tensor)
        Eigenvalues of shape (..., k), and vectors as columns, of shape (..., m, k).

    Raises
    ------
    ValueError
        If m is less than three times n, k or n is not positive, or there is no such method.
    AssertionError
        If A is not square.
    RuntimeError
        If sizes, dtypes or devices do not fit.

    Examples
    --------
    >>> import fastgrad as fg
    >>> values, vectors = fg.lobpcg(fg.arange(1.0, 10.0).diag(), k=2)
    >>> values.round(decimals=2)
    tensor([9., 8.])
    """
    need_tensor(_NAME, A, "A")
    for argument, value, position in (("B", B, 3), ("X", X, 4), ("iK", iK, 6)):
        need_optional(_NAME, value, argument, position)
    _need_matrix(A)
    if tracker is not None:
        raise NotImplementedError(f"{_NAME}(): nobody can watch the steps: tracker must be None")
    if method is not None and need_type(_NAME, method, str, "method", 10) not in ("basic", "ortho"):
        raise ValueError(f"{_NAME}(): method must be 'basic' or 'ortho', but got {method!r}")
    if X is not None:
        n = X.shape[-1] if X.dim() > 1 else 0
    wanted = (1 if n is None or X is None else n) if k is None else as_index(_NAME, "k", k)
    count = wanted if n is None else as_index(_NAME, "n", n)
    m = A.shape[-1]
    if wanted < 1 or count < 1:
        raise ValueError(f"{_NAME}(): k and n must be at least 1, but got {wanted} and {count}")
    if m < 3 * count:
        raise ValueError(
            f"{_NAME}(): not applicable where the number of rows of A (={m}) is smaller than 3 times that of the "
            f"vectors that are looked for (={count})"
        )
    steps = 1000 if niter is None else as_index(_NAME, "niter", niter)
    ends = dtypes.finfo(A.dtype).eps ** 0.5 if tol is None else as_float(_NAME, "tol", tol)
    upper = largest is None or bool(as_flag(_NAME, "largest", largest))
    first = _need_fit(A, X, "X", count)
    others = [_need_fit(A, B, "B"), _need_fit(A, iK, "iK")]

    options = (min(wanted, count), steps if steps > 0 else -1, ends, upper)

    def find(a: Any) -> tuple[Any, Any]:
        with no_grad():
            batch = a.shape[:-2].numel()
            values, vectors = a.new_empty(batch, options[0]), a.new_empty(batch, m, options[0])
            for i, matrix in enumerate(a.reshape(-1, m, m)):
                x = randn(m, count, dtype=a.dtype, device=a.device) if first is None else first[i]
                b, inverse = (None if t is None else t[i] for t in others)
                values[i], vectors[i] = _search(matrix, b, inverse, x, *options)
            return values.reshape(*a.shape[:-2], options[0]), vectors.reshape(*a.shape[:-1], options[0])

    symmetric = (A + A.mT) / 2 if A.requires_grad else A
    values, vectors = LOBPCG.apply(symmetric, B, find)
    return values, vectors
