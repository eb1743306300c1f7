"""Numbers as they are stored: neighbours, significand and exponent of floating-point ones; hashes of bits."""

from __future__ import annotations

import math
from typing import Any

from fastgrad import dtypes, return_types
from fastgrad.functions import elementwise
from fastgrad.functions.arguments import as_dims, as_flag, as_index, need_tensor
from fastgrad.functions.arrangement import broadcast_tensors
from fastgrad.functions.index import where
from fastgrad.functions.pointwise import ldexp
from fastgrad.functions.public import public
from fastgrad.functions.shape import cat, wrapped_dims
from fastgrad.native.contracts.element_types import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, FLOATS, HALVES
from fastgrad.ops.call import is_recorded

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


@public(package=False)
def nextafter_(input: Any, other: Any) -> Any:
    """`nextafter` in place."""
    return need_tensor("nextafter_", input).copy_(nextafter(input, other))


@public()
def frexp(input: Any) -> return_types.frexp:
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
    return return_types.frexp._make((ldexp(ldexp(x, first), second).to(x.dtype), exponent))


@public()
def hash_tensor(input: Any, dim: Any = None, *, keepdim: bool = False, mode: int = 0) -> Any:
    """A number that tells tensors apart: the exclusive or of the bits of elements, over all or some dimensions.

    Parameters
    ----------
    input : Tensor
        Its elements are taken as float64, int64 or uint64; not complex.
    dim : int or tuple of int, optional
        The dimensions to reduce; by default all.
    keepdim : bool
        Whether they stay, with size 1.
    mode : int
        0, the exclusive or.

    Returns
    -------
    Tensor
        Of dtype uint64.

    Raises
    ------
    RuntimeError
        If `mode` is another one, or all dimensions of a tensor without elements are reduced.
    IndexError
        If a dimension of size 0 is reduced.
    NotImplementedError
        If `input` is complex.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.hash_tensor(fg.tensor([[1, 2], [4, 8]]), 1)
    tensor([ 3, 12], dtype=fastgrad.uint64)
    """
    name = "hash_tensor"
    x = need_tensor(name, input).detach()
    if as_index(name, "mode", mode) != 0:
        raise RuntimeError(f"{name}(): mode must be 0, the exclusive or, but got {mode}")
    if x.dtype.is_complex:
        raise NotImplementedError(
            f"{name}(): not implemented for '{x.dtype.type_name}'; take the hash of view_as_real(input)"
        )
    wide = x.double() if x.dtype.is_floating_point else x if x.dtype is dtypes.uint64 else x.long()
    bits = wide.contiguous().view(dtypes.int64)
    given = wrapped_dims(name, as_dims(name, dim), x.dim())
    dims = set(given if given and x.dim() else range(x.dim()))
    if x.numel() == 0 and not given:
        raise RuntimeError(
            f"{name}(): expected the reduction dim to be specified for a tensor without elements"
        )
    for d in sorted(dims) if x.dim() else ():
        if x.shape[d] == 0:
            raise IndexError(f"{name}(): expected reduction dim {d} to have non-zero size")
    kept = [d for d in range(x.dim()) if d not in dims]
    n, count = math.prod(x.shape[d] for d in kept), math.prod(x.shape[d] for d in dims)
    rows = (bits.permute([*kept, *sorted(dims)]) if x.dim() else bits).reshape(n, count)
    while count > 1:  # the halves over each other, with what is left in the middle
        half = count // 2
        folded = elementwise.bitwise_xor(rows[:, :half], rows[:, count - half :])
        rows, count = cat([folded, rows[:, half : count - half]], 1), count - half
    if as_flag(name, "keepdim", keepdim):
        sizes = [1 if d in dims else x.shape[d] for d in range(x.dim())]
    else:
        sizes = [x.shape[d] for d in kept]
    return rows.reshape(sizes).view(dtypes.uint64)
