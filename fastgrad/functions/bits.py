"""Floating-point numbers as they are stored: neighbours, significand and exponent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from fastgrad import dtypes
from fastgrad.functions import elementwise
from fastgrad.functions.arguments import need_tensor
from fastgrad.functions.arrangement import broadcast_tensors
from fastgrad.functions.index import where
from fastgrad.functions.pointwise import ldexp
from fastgrad.functions.public import public
from fastgrad.native.contracts.element_types import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, FLOATS, HALVES
from fastgrad.ops.call import is_recorded

if TYPE_CHECKING:
    from fastgrad.tensor import Tensor

_INTEGERS = {FLOAT16: dtypes.int16, BFLOAT16: dtypes.int16, FLOAT32: dtypes.int32, FLOAT64: dtypes.int64}
_SIGNIFICAND = {FLOAT32: 23, FLOAT64: 52}  # bits behind the point
_BIAS = {FLOAT32: 126, FLOAT64: 1022}  # of the exponent of numbers from 0.5 on below 1


@public()
def nextafter(input: Any, other: Any) -> Any:
    """The next number that the dtype has, from one towards another; as steep as `input` where it moves.

    Parameters
    ----------
    input, other : Tensor
        Floating point; sizes are broadcast and dtypes promoted.

    Raises
    ------
    NotImplementedError
        If they are not floating point.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.nextafter(fg.tensor([1.0, 0.0]), fg.tensor([2.0, 1.0])) > fg.tensor([1.0, 0.0])
    tensor([True, True])
    """
    x = need_tensor("nextafter", input)
    to = need_tensor("nextafter", other, "other", 2)
    dtype = dtypes.promote_types(x.dtype, to.dtype)
    if dtype.code not in FLOATS:
        raise NotImplementedError(f"nextafter(): not implemented for '{dtype.type_name}'")
    x, to = broadcast_tensors(x.detach().to(dtype), to.detach().to(dtype))
    whole = _INTEGERS[dtype.code]
    bits = x.contiguous().view(whole)
    moved = where((to > x) == (x > 0), bits + 1, bits - 1).view(dtype)
    least = elementwise.copysign((x == 0).to(whole).view(dtype), to)  # from zero: the number whose bits are 1
    found = where(x == to, to, where(x == 0, least, moved))
    found = where(x.isnan() | to.isnan(), x + to, found)
    if not is_recorded(input, other):
        return found
    along, towards = (t.to(dtype).expand(found.shape) for t in (input, other))
    apart = (x != to) & x.isfinite() & (found != 0)
    return where(
        apart, along + (found - x), where(apart & ~apart, towards, found)
    )  # it never is `other` itself


class Frexp(NamedTuple):
    """What `frexp` returns."""

    mantissa: Tensor
    exponent: Tensor


@public()
def frexp(input: Any) -> Frexp:
    """Significands from 0.5 on below 1, and exponents of 2: ``input = mantissa * 2 ** exponent``.

    Parameters
    ----------
    input : Tensor
        Floating point.

    Returns
    -------
    (mantissa, exponent)
        The exponent is int32; that of zero, of infinities and of nan is 0, and the mantissa is the number itself.

    Raises
    ------
    RuntimeError
        If `input` is not floating point.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.frexp(fg.tensor([6.0, -0.5])).mantissa
    tensor([ 0.7500, -0.5000])
    """
    x = need_tensor("frexp", input)
    if x.dtype.code not in FLOATS:
        raise RuntimeError(
            f"frexp(): only supports floating-point dtypes, but got {x.dtype.name}; convert it with "
            ".to(fastgrad.float32)"
        )
    wide = x.detach().to(dtypes.float32) if x.dtype.code in HALVES else x.detach()
    code = wide.dtype.code
    shift = _SIGNIFICAND[code] + 2
    small = wide.abs() < dtypes.finfo(wide.dtype).tiny  # what has less digits is made larger first
    bits = where(small, wide * float(1 << shift), wide).contiguous().view(_INTEGERS[code])
    found = ((bits >> _SIGNIFICAND[code]) & (2 * _BIAS[code] + 3)) - _BIAS[code]
    found = where(small, found - shift, found)
    exponent = where((wide == 0) | ~wide.isfinite(), 0, found).to(dtypes.int32)
    half = exponent // 2  # in two steps, as 2 ** -exponent may be too large
    first, second = (-half).to(wide.dtype), (half - exponent).to(wide.dtype)
    return Frexp(ldexp(ldexp(x, first), second).to(x.dtype), exponent)
