"""Systems of linear equations and inverses by Cholesky factors."""

from __future__ import annotations

from typing import Any

from fastgrad import dtypes
from fastgrad.functions.arguments import as_flag, need_tensor
from fastgrad.functions.complex_numbers import conj
from fastgrad.functions.index import where
from fastgrad.functions.matrices import adjoint, eyes, need_square, raise_for
from fastgrad.functions.outs import taking_out
from fastgrad.functions.public import public
from fastgrad.functions.systems import triangular
from fastgrad.native.contracts.element_types import COMPLEX, WIDE


def _need_factor(name: str, factor: Any, position: int) -> Any:
    """The factor, if it is of a dtype that there are factors of."""
    if need_tensor(name, factor, "L", position).dtype.code not in (*WIDE, *COMPLEX):
        raise NotImplementedError(
            f"{name}(): not implemented for '{factor.dtype.type_name}', only for float32, float64 and complex numbers"
        )
    return factor


@public()
@taking_out
def cholesky_solve(input: Any, L: Any, upper: bool = False) -> Any:  # noqa: N803 - PyTorch's name
    """The solution X of ``L L' X = input``, or with `upper` of ``U' U X = input``.

    Parameters
    ----------
    input : Tensor
        Of shape (..., n, k).
    L : Tensor
        Of shape (..., n, n): a Cholesky factor.
    upper : bool

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.cholesky_solve(fg.tensor([[4.0], [8.0]]), fg.tensor([[2.0, 0.0], [0.0, 2.0]]))
    tensor([[1.],
            [2.]])
    """
    name = "cholesky_solve"
    which = bool(as_flag(name, "upper", upper))
    need_tensor(name, input)
    need_square(name, _need_factor(name, L, 2), "L", 2)
    first, second = (_by_adjoint, triangular) if which else (triangular, _by_adjoint)
    return second(name, L, first(name, L, input, which, False), which, False)


def _by_adjoint(name: str, factor: Any, b: Any, upper: bool, unit: bool) -> Any:
    """The solution of ``factor' X = b`` by a triangle of the factor."""
    return conj(triangular(name, factor, conj(b), upper, unit, True))


@public()
@taking_out
def cholesky_inverse(L: Any, upper: bool = False) -> Any:  # noqa: N803 - PyTorch's name
    """The inverse of ``L L'``, or with `upper` of ``U' U``, by Cholesky factors.

    Raises
    ------
    LinAlgError
        If an element of the diagonal is zero.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.cholesky_inverse(fg.tensor([[2.0, 0.0], [0.0, 4.0]]))
    tensor([[0.2500, 0.0000],
            [0.0000, 0.0625]])
    """
    name = "cholesky_inverse"
    n = need_square(name, _need_factor(name, L, 1), "L").shape[-1]
    which = bool(as_flag(name, "upper", upper))
    if n:
        zero = L.detach().diagonal(dim1=-2, dim2=-1) == 0
        first = where(zero.any(-1), zero.to(dtypes.int32).argmax(-1) + 1, 0)
        raise_for(
            name, first, lambda k: f"The diagonal element {k} is zero, the inversion could not be completed."
        )
    half = (_by_adjoint if which else triangular)(name, L, eyes(L, n, n), which, False)
    return adjoint(half) @ half
