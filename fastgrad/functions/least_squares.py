"""Pseudo-inverses and least squares."""

from __future__ import annotations

from typing import Any

from fastgrad import return_types
from fastgrad.functions.arguments import as_flag, as_float, is_tensor, need_tensor, need_type
from fastgrad.functions.complex_numbers import is_complex_tensor, real, real_dtype
from fastgrad.functions.creation import empty
from fastgrad.functions.matrices import (
    broadcast,
    broadcast_sizes,
    need_alike,
    need_matrices,
    need_square,
    not_converged,
    raise_for,
    room_on,
    sizes_of,
)
from fastgrad.functions.outs import taking_out
from fastgrad.functions.public import public
from fastgrad.native.contracts.frames.linalg import (
    GELS,
    GELSD,
    GELSS,
    GELSY,
    room_of_least_squares,
    room_of_singular_vectors,
)
from fastgrad.ops import spectra
from fastgrad.ops.call import float_bits


def tolerances(name: str, A: Any, atol: Any, rtol: Any) -> tuple[Any, Any]:  # noqa: N803 - PyTorch's name
    """Absolute and relative tolerances of each matrix; without either the relative one is that of rounding."""
    if rtol is None:
        rounding = max(A.shape[-2:]) * _epsilon(A)
        if is_tensor(atol):
            rtol = _full(A, atol.shape, rounding).masked_fill(atol > 0, 0.0)
        else:
            rtol = 0.0 if atol is not None and as_float(name, "atol", atol) > 0 else rounding
    return _each(name, A, "atol", 0.0 if atol is None else atol), _each(name, A, "rtol", rtol)


def _full(like: Any, sizes: Any, value: float) -> Any:
    """Numbers of the dtype of the parts of a tensor."""
    return like.new_full(sizes, value, dtype=real_dtype(like))


def _each(name: str, A: Any, argument: str, value: Any) -> Any:  # noqa: N803 - PyTorch's name
    """A tolerance as a tensor with a number for each matrix."""
    tensor = value if is_tensor(value) else _full(A, (), as_float(name, argument, value))
    sizes = tuple(A.shape[:-2])
    if broadcast_sizes(name, tuple(tensor.shape), sizes) != sizes:
        raise RuntimeError(
            f"{name}(): expected {argument} to broadcast to the batch sizes {list(sizes)}, but got {list(tensor.shape)}"
        )
    if is_complex_tensor(tensor):
        raise RuntimeError(f"{name}(): {argument} tensor of complex type is not supported.")
    return tensor.detach().to(real_dtype(A)).expand(sizes)


def _epsilon(x: Any) -> float:
    return 2.0**-23 if real_dtype(x).itemsize == 4 else 2.0**-52


@taking_out
def pinv(
    A: Any,  # noqa: N803 - PyTorch's name
    rcond: Any = None,
    hermitian: bool = False,
    *,
    atol: Any = None,
    rtol: Any = None,
) -> Any:
    """The pseudo-inverse of matrices.

    Parameters
    ----------
    A : Tensor
        Of shape (..., m, n), of float32, float64 or complex numbers.
    rcond : number or Tensor, optional
        The same as `rtol`.
    hermitian : bool
        The matrices are symmetric, or Hermitian: their lower triangle is read.
    atol, rtol : number or Tensor, optional
        Singular values up to the larger one of `atol` and `rtol` times the largest count as zero. `rtol` is
        ``max(m, n) * eps`` if not given, and 0 if `atol` is positive.

    Returns
    -------
    Tensor
        Of shape (..., n, m). Its derivative is that for matrices of the same rank.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.linalg.pinv(fg.tensor([[2.0, 0.0], [0.0, 0.0]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.0000]])
    """
    name = "linalg.pinv"
    if rcond is not None and rtol is not None:
        raise TypeError(f"{name}(): rcond and rtol are the same; give one of them")
    symmetric = as_flag(name, "hermitian", hermitian)
    (need_square if symmetric else need_matrices)(name, A)
    batch, m, n = sizes_of(A)
    absolute, relative = tolerances(name, A, atol, rcond if rtol is None else rtol)
    op = spectra.pinv_complex if is_complex_tensor(A) else spectra.pinv
    out, info, _ = op.all_of(
        (A, absolute, relative), batch, m, n, symmetric, room_on(A, room_of_singular_vectors(m, n))
    )
    raise_for(name, info, not_converged)
    return out


@public()
def pinverse(input: Any, rcond: float = 1e-15) -> Any:
    """The pseudo-inverse of matrices. See `linalg.pinv`."""
    return pinv(input, rcond)


_METHODS = {"gels": GELS, "gelsy": GELSY, "gelsd": GELSD, "gelss": GELSS}


def lstsq(A: Any, B: Any, rcond: Any = None, *, driver: str | None = None) -> return_types.linalg_lstsq:  # noqa: N803
    """The X for which ``A X - B`` has the least norm, of several the one of least norm.

    Parameters
    ----------
    A : Tensor
        Of shape (..., m, n), of float32, float64 or complex numbers.
    B : Tensor
        Of shape (..., m, k), or (..., m) for vectors.
    rcond : number, optional
        Singular values up to it times the largest count as zero; ``max(m, n) * eps`` if not given.
    driver : str, optional
        LAPACK's method: "gelsy" (the default), "gels" for matrices of full rank, "gelsd", "gelss".

    Returns
    -------
    (solution, residuals, rank, singular_values)
        Residuals, for each column of B, if m > n and all matrices have full rank, but not of "gelsy"; rank not of
        "gels"; singular values of "gelsd" and "gelss". What there is none of is empty.

    Raises
    ------
    LinAlgError
        If the method does not converge.

    Examples
    --------
    >>> import fastgrad as fg
    >>> A, B = fg.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]), fg.tensor([[1.0], [2.0], [3.0]])
    >>> fg.linalg.lstsq(A, B, driver="gels").residuals
    tensor([9.])
    """
    name = "linalg.lstsq"
    need_matrices(name, A)
    need_alike(name, A, need_tensor(name, B, "B", 2))
    method = need_type(name, "gelsy" if driver is None else driver, str, "driver")
    if method not in _METHODS:
        raise RuntimeError(
            f"{name}(): parameter `driver` should be one of (gels, gelsy, gelsd, gelss), but got {driver!r}"
        )
    vector = A.dim() - 1 == B.dim() and tuple(A.shape[:-1]) == tuple(B.shape)
    b = need_matrices(name, B.unsqueeze(-1) if vector else B, "B", 2)
    if b.shape[-2] != A.shape[-2]:
        raise RuntimeError(
            f"{name}(): input.size(-2) should match other.size({-1 if vector else -2}), but got {list(A.shape)} and "
            f"{list(B.shape)}"
        )
    a, b = broadcast(name, A, b)
    batch, m, n = sizes_of(a)
    least = min(m, n) if method in ("gelsd", "gelss") else 0
    smallest = max(m, n) * _epsilon(A) if rcond is None else as_float(name, "rcond", rcond)
    op = spectra.lstsq_complex if is_complex_tensor(a) else spectra.lstsq
    x, rank, values, info, _ = op.all_of(
        (a, b),
        batch,
        m,
        n,
        b.shape[-1],
        least,
        _METHODS[method],
        float_bits(smallest),
        room_on(a, room_of_least_squares(m, n, b.shape[-1])),
    )
    raise_for(name, info, _no_solution)
    none = empty(0, dtype=real_dtype(A), device=A.device)
    full = m > n and method != "gelsy" and (method == "gels" or bool((rank == n).all()))
    left = _squares(a @ x - b).sum(-2) if full else real(x.reshape(-1)[:0])
    return return_types.linalg_lstsq(
        x.squeeze(-1) if vector else x, left, empty(0, dtype=rank.dtype) if method == "gels" else rank,
        values if method in ("gelsd", "gelss") else none,
    )  # fmt: skip


def _squares(x: Any) -> Any:
    return x.abs() ** 2 if is_complex_tensor(x) else x**2


def _no_solution(code: int) -> str:
    return f"The least squares solution could not be computed because the method did not converge (error code: {code})."
