"""Functions of one number beyond arithmetic: exponentials, logarithms, rounding, tests of values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastgrad import dtypes
from fastgrad.functions import elementwise
from fastgrad.functions.arguments import as_flag, as_float, as_index, need_tensor
from fastgrad.functions.plans import planned
from fastgrad.functions.public import public
from fastgrad.native.contracts.element_types import DISCRETE
from fastgrad.native.host.tables import BY_NAME
from fastgrad.ops.call import invoke
from fastgrad.ops.registry import Op


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
    return planned(function)


def _whole_inplace(name: str, op: Op) -> Callable[[Any], Any]:
    def method(self: Any) -> Any:
        if need_tensor(f"{name}_", self).dtype.code in DISCRETE and self.dtype is not dtypes.bool_:
            return self
        return elementwise.inplace(op, self)

    method.__name__, method.__qualname__ = f"{name}_", f"Tensor.{name}_"
    method.__doc__ = f"In-place form of `{name}`."
    return method


floor = public()(_whole("floor"))
ceil = public()(_whole("ceil"))
trunc = fix = public("fix")(_whole("trunc"))
_round = _whole("round")
for _name, _op in (("floor", "floor"), ("ceil", "ceil"), ("trunc", "trunc"), ("fix", "trunc")):
    public(package=False)(_whole_inplace(_name, BY_NAME[_op]))
_round_inplace = _whole_inplace("round", BY_NAME["round"])


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


@public(package=False)
def round_(self: Any, *, decimals: int = 0) -> Any:
    """In-place form of `round`."""
    need_tensor("round_", self)
    return self.copy_(round(self, decimals=decimals)) if decimals else _round_inplace(self)


@public()
@planned
def sign(input: Any) -> Any:
    """-1, 0 or 1, as a number is negative, zero or positive; of a mask the mask.

    Element by element.

    Parameters
    ----------
    input : Tensor

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.sign(fg.tensor([-3.0, 0.0, 2.0]))
    tensor([-1.,  0.,  1.])
    """
    if need_tensor("sign", input).dtype is dtypes.bool_:
        return input.clone()
    return invoke(BY_NAME["sign"], (input,))


@public(package=False)
def sign_(self: Any) -> Any:
    """In-place form of `sign`."""
    if need_tensor("sign_", self).dtype is dtypes.bool_:
        return self
    return elementwise.inplace(BY_NAME["sign"], self)


@public()
@planned
def square(input: Any) -> Any:
    """The square, ``input ** 2``; of a mask one of int64, as that power is.

    Element by element.

    Parameters
    ----------
    input : Tensor

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.square(fg.tensor([-3.0, 2.0]))
    tensor([9., 4.])
    """
    if need_tensor("square", input).dtype is dtypes.bool_:
        input = input.to(dtypes.int64)
    return invoke(BY_NAME["square"], (input,))


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
