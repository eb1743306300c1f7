"""Functions of elements that check more than their operands: interpolation, sums of products, special values."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from fastgrad import dtypes
from fastgrad.functions import elementwise
from fastgrad.functions.arguments import as_float, as_index, is_tensor, need_tensor
from fastgrad.functions.autocasting import widest_on_gpus
from fastgrad.functions.complex_numbers import view_as_complex, view_as_real
from fastgrad.functions.creation import arange
from fastgrad.functions.older_forms import numbers_first
from fastgrad.functions.plans import planned
from fastgrad.functions.public import public
from fastgrad.native.host.tables import BY_NAME
from fastgrad.ops.call import invoke, invoke_with
from fastgrad.ops.registry import Op


def _need_dtype(name: str, argument: str, x: Any, other: Any) -> None:
    if x.dtype is not other.dtype:
        raise RuntimeError(
            f"{name}(): expected dtype {x.dtype.name} for `{argument}` but got dtype {other.dtype.name}"
        )


# --- interpolation, products added to something ----------------------------------------------------------------


def _interpolated(name: str, input: Any, end: Any, weight: Any) -> tuple[Op, tuple[Any, ...]]:
    need_tensor(name, input)
    _need_dtype(name, "end", input, need_tensor(name, end, "end", 2))
    if is_tensor(weight):
        if weight.dim() or weight.dtype is input.dtype:
            _need_dtype(name, "weight", input, weight)
        return BY_NAME["lerp"], (end, weight)
    return BY_NAME["lerp.number"], (end, as_float(name, "weight", weight))


@public()
@planned
def lerp(input: Any, end: Any, weight: Any) -> Any:
    """``input + weight * (end - input)``, exact at both ends.

    Parameters
    ----------
    input, end : Tensor
        Of one floating-point dtype; shapes broadcast.
    weight : Tensor or number

    Returns
    -------
    Tensor

    Raises
    ------
    RuntimeError
        If dtypes differ or shapes do not broadcast.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.lerp(fg.tensor([0.0, 10.0]), fg.tensor([4.0, 20.0]), 0.25)
    tensor([ 1.0000, 12.5000])
    """
    op, operands = _interpolated("lerp", input, end, weight)
    return invoke_with(op, input, *operands)


@public(package=False)
@planned
def lerp_(self: Any, end: Any, weight: Any) -> Any:
    """In-place form of `lerp`."""
    op, operands = _interpolated("lerp_", self, end, weight)
    return elementwise.write("lerp_", op, self, *operands)


def _product_operands(name: str, input: Any, tensor1: Any, tensor2: Any, value: Any) -> tuple[Any, ...]:
    need_tensor(name, input)
    need_tensor(name, tensor1, "tensor1", 2)
    need_tensor(name, tensor2, "tensor2", 3)
    floating = any(t.dtype.inexact for t in (input, tensor1, tensor2))
    if name.startswith("addcdiv") and not (tensor1.dtype.inexact or tensor2.dtype.inexact):
        raise RuntimeError(
            f"{name}(): Integer division with addcdiv is no longer supported; convert an operand to a floating-point "
            "dtype first"
        )
    if not floating and isinstance(value, float):
        value = int(value)  # as in PyTorch
    return tensor1, tensor2, value


@public()
@planned
@numbers_first(3, "value")
@widest_on_gpus
def addcmul(input: Any, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Any:
    """``input + value * tensor1 * tensor2``, broadcast and promoted.

    Parameters
    ----------
    input, tensor1, tensor2 : Tensor
    value : number

    Raises
    ------
    RuntimeError
        If shapes do not broadcast.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.addcmul(fg.tensor([1.0]), fg.tensor([2.0]), fg.tensor([3.0]), value=0.5)
    tensor([4.])
    """
    return invoke_with(
        BY_NAME["addcmul"], input, *_product_operands("addcmul", input, tensor1, tensor2, value)
    )


@public(package=False)
@planned
@numbers_first(3, "value")
def addcmul_(self: Any, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Any:
    """In-place form of `addcmul`."""
    operands = _product_operands("addcmul_", self, tensor1, tensor2, value)
    return elementwise.write("addcmul_", BY_NAME["addcmul"], self, *operands)


@public()
@planned
@numbers_first(3, "value")
@widest_on_gpus
def addcdiv(input: Any, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Any:
    """``input + value * tensor1 / tensor2``, broadcast and promoted. See `addcmul`."""
    return invoke_with(
        BY_NAME["addcdiv"], input, *_product_operands("addcdiv", input, tensor1, tensor2, value)
    )


@public(package=False)
@planned
@numbers_first(3, "value")
def addcdiv_(self: Any, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Any:
    """In-place form of `addcdiv`."""
    operands = _product_operands("addcdiv_", self, tensor1, tensor2, value)
    return elementwise.write("addcdiv_", BY_NAME["addcdiv"], self, *operands)


# --- special values --------------------------------------------------------------------------------------------


def _logit_bounds(name: str, eps: Any) -> tuple[float, float]:
    if eps is None:
        return -1.0, 2.0
    eps = as_float(name, "eps", eps)
    return (eps, 1.0 - eps) if eps >= 0 else (-1.0, 2.0)


@public()
@planned
def logit(input: Any, eps: Any = None) -> Any:
    """``log(input / (1 - input))``, the inverse of `sigmoid`.

    Parameters
    ----------
    input : Tensor
    eps : float, optional
        Clamp the input to ``[eps, 1 - eps]`` first; without it, what is not between 0 and 1 gives NaN.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.logit(fg.tensor([0.5, 1.0]), eps=0.25)
    tensor([0.0000, 1.0986])
    """
    return invoke_with(BY_NAME["logit"], need_tensor("logit", input), *_logit_bounds("logit", eps))


@public(package=False)
def logit_(self: Any, eps: Any = None) -> Any:
    """In-place form of `logit`."""
    return elementwise.write("logit_", BY_NAME["logit"], self, *_logit_bounds("logit_", eps))


def _replacements(name: str, input: Any, nan: Any, posinf: Any, neginf: Any) -> tuple[float, float, float]:
    info = dtypes.finfo(input.dtype)
    given = (("nan", nan, 0.0), ("posinf", posinf, info.max), ("neginf", neginf, info.min))
    first, second, third = (float(usual) if v is None else as_float(name, a, v) for a, v, usual in given)
    return first, second, third


@public()
@planned
def nan_to_num(input: Any, nan: Any = None, posinf: Any = None, neginf: Any = None) -> Any:
    """The input with numbers in place of NaN and infinities.

    Parameters
    ----------
    input : Tensor
    nan, posinf, neginf : float, optional
        Zero, the largest and the smallest number of the dtype if not given.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.nan_to_num(fg.tensor([float("nan"), float("inf"), 1.0]), posinf=9.0)
    tensor([0., 9., 1.])
    """
    if need_tensor("nan_to_num", input).dtype.is_complex:  # part by part
        return view_as_complex(nan_to_num(view_as_real(input.resolve_conj()), nan, posinf, neginf))
    if not input.dtype.is_floating_point:
        return input.clone()
    return invoke_with(BY_NAME["nan_to_num"], input, *_replacements("nan_to_num", input, nan, posinf, neginf))


@public(package=False)
def nan_to_num_(self: Any, nan: Any = None, posinf: Any = None, neginf: Any = None) -> Any:
    """In-place form of `nan_to_num`."""
    if need_tensor("nan_to_num_", self).dtype.is_complex:
        return self.copy_(nan_to_num(self, nan, posinf, neginf))
    if not self.dtype.is_floating_point:
        return self
    return elementwise.write(
        "nan_to_num_", BY_NAME["nan_to_num"], self, *_replacements("nan_to_num_", self, nan, posinf, neginf)
    )


def _steps(name: str, input: Any, values: Any) -> tuple[Any, ...]:
    need_tensor(name, input)
    if need_tensor(name, values, "values", 2).dtype is not input.dtype:
        raise RuntimeError(
            f"{name}(): not implemented for tensors with different dtypes: {input.dtype} and {values.dtype}"
        )
    return (values,)


@public()
@planned
def heaviside(input: Any, values: Any) -> Any:
    """0 where the input is negative, 1 where it is positive, and `values` where it is zero.

    Raises
    ------
    RuntimeError
        If dtypes differ.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.heaviside(fg.tensor([-1.0, 0.0, 2.0]), fg.tensor([0.5]))
    tensor([0.0000, 0.5000, 1.0000])
    """
    return invoke_with(BY_NAME["heaviside"], input, *_steps("heaviside", input, values))


@public(package=False)
def heaviside_(self: Any, values: Any) -> Any:
    """In-place form of `heaviside`."""
    return elementwise.write("heaviside_", BY_NAME["heaviside"], self, *_steps("heaviside_", self, values))


def _predicate(name: str, of_integers: Callable[[Any], Any], doc: str) -> Callable[[Any], Any]:
    def function(input: Any) -> Any:
        if need_tensor(name, input).is_complex():
            raise NotImplementedError(f"{name}(): is not supported for complex inputs")
        floating = input.dtype.is_floating_point
        return invoke(BY_NAME[name], (input,)) if floating else of_integers(input)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


signbit = public()(
    _predicate(
        "signbit",
        lambda x: x != x if x.dtype is dtypes.bool_ else x < 0,
        "Whether the sign is negative, that of a zero as well.",
    )
)
isposinf = public()(_predicate("isposinf", lambda x: x != x, "Whether an element is infinity."))
isneginf = public()(_predicate("isneginf", lambda x: x != x, "Whether an element is minus infinity."))


@public()
def positive(input: Any) -> Any:
    """The input itself.

    Raises
    ------
    RuntimeError
        If it is a mask.
    """
    if need_tensor("positive", input).dtype is dtypes.bool_:
        raise RuntimeError("positive(): The `+` operator, on a bool tensor is not supported.")
    return input


# --- powers ----------------------------------------------------------------------------------------------------


def _widest(*values: Any) -> Any:
    """The dtype that `float_power` computes in."""
    among = any(x.is_complex() if is_tensor(x) else isinstance(x, complex) for x in values)
    return dtypes.complex128 if among else dtypes.float64


@public()
@planned
def float_power(input: Any, exponent: Any) -> Any:
    """``input ** exponent`` in float64, or in complex128 if one of them is complex.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.float_power(fg.tensor([2, 3]), -1)
    tensor([0.5000, 0.3333], dtype=fastgrad.float64)
    """
    if not is_tensor(input) and not is_tensor(exponent):
        need_tensor("float_power", input)
    wide = [x.to(_widest(x)) if is_tensor(x) else x for x in (input, exponent)]
    return elementwise.pow(*(float(x) if isinstance(x, int) else x for x in wide))


@public(package=False)
def float_power_(self: Any, exponent: Any) -> Any:
    """In-place form of `float_power`.

    Raises
    ------
    RuntimeError
        If the tensor is not of float64, or of complex128 where one of both is complex.
    """
    wide = _widest(need_tensor("float_power_", self), exponent)
    if self.dtype is not wide:
        raise RuntimeError(
            f"float_power_(): the base has dtype {self.dtype.type_name} but the result of the operation requires "
            f"dtype {wide.type_name}"
        )
    return self.pow_(exponent.to(_widest(exponent)) if is_tensor(exponent) else exponent)


def _scale(other: Any) -> Any:
    return elementwise.pow(2.0, other) if is_tensor(other) else 2.0**other


@public()
@planned
def ldexp(input: Any, other: Any) -> Any:
    """``input * 2 ** other``.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.ldexp(fg.tensor([1.0, 3.0]), fg.tensor([4, -1]))
    tensor([16.0000,  1.5000])
    """
    need_tensor("ldexp", input)
    return elementwise.mul(input, _scale(need_tensor("ldexp", other, "other", 2)))


@public(package=False)
def ldexp_(self: Any, other: Any) -> Any:
    """In-place form of `ldexp`."""
    return elementwise.write("ldexp_", BY_NAME["mul"], self, _scale(need_tensor("ldexp_", other, "other", 2)))


# --- gamma functions -------------------------------------------------------------------------------------------


def _order(name: str, n: Any) -> int:
    n = as_index(name, "n", n)
    if n < 0:
        raise RuntimeError(f"{name}(): polygamma(n, x) does not support negative n.")
    return n


@public(method=False)
@planned
def polygamma(n: int, input: Any) -> Any:
    """The `n`-th derivative of `digamma`.

    Parameters
    ----------
    n : int
        Not negative.
    input : Tensor

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.polygamma(1, fg.tensor([1.0]))
    tensor([1.6449])
    """
    need_tensor("polygamma", input, "input", 2)
    n = _order("polygamma", n)
    return invoke_with(BY_NAME["polygamma"], input, float(n)) if n else invoke(BY_NAME["digamma"], (input,))


def _polygamma_method(self: Any, n: int) -> Any:
    return polygamma(n, self)


_polygamma_method.__name__ = "polygamma"
_polygamma_method.__doc__ = "See `fastgrad.polygamma`."
public(package=False)(_polygamma_method)


@public(package=False)
def polygamma_(self: Any, n: int) -> Any:
    """In-place form of `polygamma`."""
    n = _order("polygamma_", n)
    return elementwise.write("polygamma_", BY_NAME["polygamma"], self, float(n)) if n else self.digamma_()


@public()
@planned
def mvlgamma(input: Any, p: int) -> Any:
    """The logarithm of the gamma function of `p` dimensions.

    Parameters
    ----------
    input : Tensor
        Its elements are larger than ``(p - 1) / 2``.
    p : int

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.mvlgamma(fg.tensor([2.0]), 2)
    tensor([0.4516])
    """
    need_tensor("mvlgamma", input)
    p = as_index("mvlgamma", "p", p)
    if p < 1:
        raise RuntimeError("mvlgamma(): p has to be greater than or equal to 1")
    if input.dtype is dtypes.bool_:
        raise RuntimeError("mvlgamma(): The input tensor may not be a boolean tensor.")
    if not input.dtype.is_floating_point:
        input = input.to(dtypes.get_default_dtype())
    offsets = arange(-p * 0.5 + 0.5, 0.5, 0.5, dtype=input.dtype, device=input.device)
    return elementwise.lgamma(input.unsqueeze(-1) + offsets).sum(-1) + p * (p - 1) * math.log(math.pi) / 4


@public(package=False)
def mvlgamma_(self: Any, p: int) -> Any:
    """In-place form of `mvlgamma`."""
    return need_tensor("mvlgamma_", self).copy_(mvlgamma(self, p))


# --- bounds, remainders ----------------------------------------------------------------------------------------


@public()
@planned
def clamp_min(input: Any, min: Any) -> Any:
    """The larger of element and bound. See `clamp`."""
    return elementwise.clamp(input, min)


@public()
@planned
def clamp_max(input: Any, max: Any) -> Any:
    """The smaller of element and bound. See `clamp`."""
    return elementwise.clamp(input, None, max)


@public(package=False)
def clamp_min_(self: Any, min: Any) -> Any:
    """In-place form of `clamp_min`."""
    return need_tensor("clamp_min_", self).clamp_(min)


@public(package=False)
def clamp_max_(self: Any, max: Any) -> Any:
    """In-place form of `clamp_max`."""
    return need_tensor("clamp_max_", self).clamp_(None, max)


@public(package=False)
def fmod_(self: Any, other: Any) -> Any:
    """In-place form of `fmod`."""
    elementwise.need_divisor("fmod_", self, other)
    return elementwise.write("fmod_", BY_NAME["fmod" if is_tensor(other) else "fmod.number"], self, other)
