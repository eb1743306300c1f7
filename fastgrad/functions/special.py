"""Functions of one number beyond arithmetic: exponentials, logarithms, rounding, tests of values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastgrad import dtypes
from fastgrad.functions import elementwise
from fastgrad.functions.arguments import as_flag, as_float, as_index, need_tensor
from fastgrad.functions.plans import planned
from fastgrad.functions.public import public
from fastgrad.native.host.tables import BY_NAME
from fastgrad.ops.call import invoke


def _whole(name: str) -> Callable[[Any], Any]:
    op = BY_NAME[name]

    def function(input: Any) -> Any:
        need_tensor(name, input)
        if input.dtype is dtypes.bool_:
            raise NotImplementedError(
                f"{name}(): not implemented for 'Bool'; convert the mask to a number first"
            )
        if input.dtype.is_complex:
            raise NotImplementedError(f"{name}(): is not supported for complex inputs")
        return invoke(op, (input,)) if input.dtype.is_floating_point else input.clone()

    function.__name__ = function.__qualname__ = name
    return function


floor = public()(_whole("floor"))
ceil = public()(_whole("ceil"))
trunc = fix = public("fix")(_whole("trunc"))
_round = _whole("round")


@public()
@planned
def round(input: Any, *, decimals: int = 0) -> Any:
    """The nearest integer, the even one of two; with `decimals` that many digits behind the point.

    Parameters
    ----------
    input : Tensor
    decimals : int
        May be negative; not for integers then.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.round(fg.tensor([0.5, 1.5, -2.7]))
    tensor([ 0.,  2., -3.])
    """
    need_tensor("round", input)
    digits = as_index("round", "decimals", decimals)
    if digits == 0:
        return _round(input)
    if not input.dtype.is_floating_point:
        raise NotImplementedError(
            f"round(): decimals={digits} is not implemented for '{input.dtype.type_name}'; convert it to a "
            "floating-point dtype first"
        )
    unit = 10.0 ** abs(digits)
    return _round(input * unit) / unit if digits > 0 else _round(input / unit) * unit


@public()
@planned
def isclose(input: Any, other: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Any:
    """Whether ``|input - other| <= atol + rtol |other|``, element by element.

    Parameters
    ----------
    input, other : Tensor
        Of one dtype; shapes broadcast.
    rtol, atol : float
    equal_nan : bool
        Whether NaN is close to NaN.

    Returns
    -------
    Tensor
        Of dtype bool.

    Raises
    ------
    RuntimeError
        If dtypes differ or a tolerance is negative.
    """
    a, b = need_tensor("isclose", input).detach(), need_tensor("isclose", other, "other").detach()
    if a.dtype is not b.dtype:
        raise RuntimeError(f"isclose(): expected tensors of one dtype, but got {a.dtype} and {b.dtype}")
    rtol, atol = as_float("isclose", "rtol", rtol), as_float("isclose", "atol", atol)
    if not (rtol >= 0 and atol >= 0):
        raise RuntimeError(f"isclose(): tolerances must not be negative, but got rtol={rtol} and atol={atol}")
    close = a == b
    inexact = a.dtype.is_floating_point or a.dtype.is_complex
    if inexact or rtol or atol:
        x, y = (t if inexact else t.to(dtypes.float64) for t in (a, b))
        difference = (x - y).abs()
        close = close | (elementwise.isfinite(difference) & (difference <= atol + rtol * y.abs()))
    if as_flag("isclose", "equal_nan", equal_nan) and inexact:
        close = close | ((a != a) & (b != b))
    return close


@public()
def allclose(
    input: Any, other: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> bool:
    """Whether all elements are close; see `isclose`.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.allclose(fg.tensor([1.0]), fg.tensor([1.0 + 1e-7]))
    True
    """
    return bool(isclose(input, other, rtol, atol, equal_nan).all())


@public()
def equal(input: Any, other: Any) -> bool:
    """Whether two tensors have the same sizes and elements; NaN equals nothing.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.equal(fg.tensor([1, 2]), fg.tensor([1, 2]))
    True
    """
    found = _equality(input, other)
    return found is not None and bool(found)


@planned
def _equality(a: Any, b: Any) -> Any:
    """Whether all elements are equal, as a tensor; None for other sizes."""
    need_tensor("equal", a)
    need_tensor("equal", b, "other")
    return invoke(BY_NAME["eq"], (a, b)).all() if a.shape == b.shape else None
