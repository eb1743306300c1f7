"""Arithmetic, exponentials, comparisons: functions that work element by element."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from fastgrad import dtypes
from fastgrad.errors import renamed
from fastgrad.functions.arguments import is_number, is_tensor, need_tensor
from fastgrad.functions.creation import number_parts
from fastgrad.functions.older_forms import numbers_first
from fastgrad.functions.outs import into
from fastgrad.functions.plans import planned
from fastgrad.functions.public import public
from fastgrad.native.build.loader import TensorBase, rt
from fastgrad.native.contracts.element_types import BOOL, COMPLEX, FLOAT32, FLOAT64, INT64
from fastgrad.native.contracts.records import TENSOR
from fastgrad.native.host.tables import BY_NAME, NUMBERS, OPS
from fastgrad.ops.call import apply, as_operands, invoke, invoke_with
from fastgrad.ops.registry import Op

_DTYPE = TENSOR.fields["dtype"][0]
_field = rt.field
_ADD, _SUB, _POW = BY_NAME["add"], BY_NAME["sub"], BY_NAME["pow.number"]
_CLAMPS = {
    (side, number): BY_NAME[f"clamp{side}.number" if number else f"clamp{side}"]
    for side in ("", "_min", "_max")
    for number in (False, True)
}
_CLAMP = _CLAMPS["", True].id


def inplace(op: Op, target: Any, *others: Any) -> Any:
    """Run an elementwise op into its first operand; returns that operand."""
    return apply(op.id, 1 + len(others), -1, target, *as_operands(others, target, op))


def write(name: str, op: Op, target: Any, *others: Any) -> Any:
    """Run an op into a tensor, for the method `name`; returns the tensor."""
    try:
        return inplace(op, target, *others)
    except (RuntimeError, TypeError) as error:
        raise renamed(error, name) from error.__cause__


def _need_operand(name: str, input: Any, other: Any) -> None:
    """Refuse a first operand that is neither a tensor nor a number beside a tensor."""
    if not is_number(input) or not is_tensor(other):
        need_tensor(name, input)


@public()
def bitwise_not(input: Any) -> Any:
    """All bits of integers inverted; of a mask, where it does not hold."""
    if need_tensor("bitwise_not", input).dtype.inexact:
        raise TypeError(
            f"bitwise_not() (operator ~) is only implemented on integer and Boolean tensors, not {input.dtype.name}"
        )
    return invoke(BY_NAME["bitwise_not"], (input,))


@public()
@planned
def maximum(input: Any, other: Any) -> Any:
    """The larger of two tensors' elements; NaN if either is."""
    need_tensor("maximum", input)
    return invoke(BY_NAME["maximum"], (input, need_tensor("maximum", other, "other", 2)))


@public()
@planned
def minimum(input: Any, other: Any) -> Any:
    """The smaller of two tensors' elements; NaN if either is."""
    need_tensor("minimum", input)
    return invoke(BY_NAME["minimum"], (input, need_tensor("minimum", other, "other", 2)))


@public()
@planned
def pow(input: Any, exponent: Any) -> Any:
    """``input ** exponent``, broadcast and promoted.

    Raises
    ------
    RuntimeError
        If an integer tensor shall be raised to a negative integer.
    """
    if not isinstance(exponent, TensorBase):
        if not isinstance(input, TensorBase):
            need_tensor("pow", input)
        if type(exponent) is float or (type(exponent) is int and exponent >= 0):
            return apply(_POW.id, 2, 0, input, exponent)
        if not is_number(exponent):
            raise TypeError(
                f"pow(): argument 'exponent' (position 2) must be Tensor or Number, not {type(exponent).__name__}"
            )
        if isinstance(exponent, (int, np.integer)) and exponent < 0 and not input.dtype.inexact:
            raise RuntimeError(
                f"pow(): Integers to negative integer powers are not allowed, but the exponent is {exponent}; "
                "convert the "
                f"{input.dtype.name} tensor to a floating-point dtype first"
            )
        return invoke_with(_POW, input, exponent)
    if not is_tensor(input):
        return invoke(BY_NAME["rpow"], (exponent, input))
    return invoke(BY_NAME["pow"], (input, exponent))


# --- quotients of integers -------------------------------------------------------------------------------------


def need_divisor(name: str, input: Any, other: Any) -> None:
    """Refuse to divide integers by zero; a floating-point quotient is infinite or NaN."""
    for x in (input, other):
        if is_tensor(x):
            if x.dtype.inexact or x.numel() == 0:
                return
        elif isinstance(x, (float, np.floating)):
            return
    if is_tensor(other) and other.device.type == "meta":
        return  # no element can be zero
    if (other == 0)._holds_somewhere() if is_tensor(other) else other == 0:
        raise RuntimeError(
            f"{name}(): ZeroDivisionError: the divisor of an integer division holds a zero; mask the zeros, or "
            "convert an "
            "operand to a floating-point dtype"
        )


def _quotient(name: str) -> Callable[[Any, Any], Any]:
    op = BY_NAME[name]
    numbered = BY_NAME.get(f"{name}.number", op)

    def function(input: Any, other: Any) -> Any:
        if not is_tensor(input) and not is_tensor(other):
            need_tensor(name, input)
        need_divisor(name, input, other)
        return invoke(op if is_tensor(other) else numbered, (input, other))

    function.__name__ = function.__qualname__ = name
    return function


floor_divide = public()(_quotient("floor_divide"))
remainder = public()(_quotient("remainder"))
fmod = public()(_quotient("fmod"))


# --- sums and products -----------------------------------------------------------------------------------------


@public()
@planned
@numbers_first(2, "alpha")
def add(input: Any, other: Any, *, alpha: float = 1) -> Any:
    """``input + alpha * other``, broadcast and promoted.

    Parameters
    ----------
    input, other : Tensor or number
        At least one is a tensor.
    alpha : number
        Factor of `other`.

    Returns
    -------
    Tensor

    Raises
    ------
    RuntimeError
        If the shapes do not broadcast.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.add(fg.tensor([1.0, 2.0]), fg.tensor([10.0, 20.0]), alpha=2)
    tensor([21., 42.])
    """
    if not is_tensor(input):
        _need_operand("add", input, other)
        return invoke(_ADD, (_scaled("add", other, alpha), input))
    if alpha == 1:
        return invoke(_ADD, (input, other))
    return invoke(*scaled("add", input, other, alpha))


@public("subtract")
@planned
@numbers_first(2, "alpha")
def sub(input: Any, other: Any, *, alpha: float = 1) -> Any:
    """``input - alpha * other``, broadcast and promoted. See `add`."""
    _no_bool_sub(input, other)
    if not is_tensor(input):
        _need_operand("sub", input, other)
        return invoke(BY_NAME["rsub"], (_scaled("sub", other, alpha), input))
    if alpha == 1:
        return invoke(_SUB, (input, other))
    return invoke(*scaled("sub", input, other, alpha))


@public(method=False)
def rsub(input: Any, other: Any, *, alpha: float = 1) -> Any:
    """``other - alpha * input``, broadcast and promoted. See `sub`."""
    need_tensor("rsub", input)
    if not is_number(other):
        need_tensor("rsub", other, "other", 2)
    return sub(other, input, alpha=alpha)


def _no_bool_sub(*operands: Any) -> None:
    masks = [t.dtype is dtypes.bool_ if is_tensor(t) else isinstance(t, bool) for t in operands]
    if False not in masks:
        raise RuntimeError(
            "sub(): Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or "
            "`logical_xor()` "
            "operator instead."
        )
    if True in masks:
        raise RuntimeError(
            "sub(): Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to invert a "
            "mask, use the `~` or `logical_not()` operator instead."
        )


def scaled(name: str, input: Any, other: Any, alpha: Any) -> tuple[Op, tuple[Any, ...]]:
    """The op and the operands of an addition or subtraction of ``alpha * other``."""
    if alpha == 1 or not is_tensor(other):
        return BY_NAME[name], (input, _scaled(name, other, alpha, input))
    _need_alpha(name, input, other, alpha)
    return BY_NAME[name + "_scaled"], (input, other, alpha)


def _scaled(name: str, other: Any, alpha: Any, input: Any = None) -> Any:
    if alpha == 1:
        return other
    _need_alpha(name, input, other, alpha)
    return other * alpha


def _need_alpha(name: str, input: Any, other: Any, alpha: Any) -> None:
    if isinstance(alpha, float):
        kinds = [t.dtype for t in (input, other) if is_tensor(t)]
        if kinds and not any(k.inexact for k in kinds):
            raise RuntimeError(
                f"{name}(): For integral input tensors, argument alpha must not be a floating point number."
            )


@public("divide")
@planned
def div(input: Any, other: Any, *, rounding_mode: str | None = None) -> Any:
    """``input / other``; integers give floats unless the quotient is rounded.

    Parameters
    ----------
    input, other : Tensor or number
    rounding_mode : None, "trunc" or "floor"
        How to round the quotient; None divides exactly.

    Raises
    ------
    RuntimeError
        If `rounding_mode` is something else.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.div(fg.tensor([7, -7]), 2, rounding_mode="floor")
    tensor([ 3, -4])
    """
    if rounding_mode is None:
        return true_divide(input, other)
    op = rounded(rounding_mode)
    need_divisor("div", input, other)
    return invoke(op, (input, other))


def rounded(rounding_mode: str) -> Op:
    """The op of a division with a rounding mode; RuntimeError if there is none."""
    if rounding_mode not in ("trunc", "floor"):
        raise RuntimeError(
            f"div(): expected rounding_mode to be one of None, 'trunc', or 'floor' but found '{rounding_mode}'"
        )
    return BY_NAME["div_" + rounding_mode]


@public()
def true_divide(input: Any, other: Any) -> Any:
    """The exact quotient. See `div`."""
    if not is_tensor(input):
        return invoke(BY_NAME["mul"], (invoke(BY_NAME["reciprocal"], (need_tensor("div", other),)), input))
    return invoke(BY_NAME["div"], (input, other))


@public("clip")
@planned
def clamp(input: Any, min: Any = None, max: Any = None) -> Any:
    """``min(max(input, min), max)``, element by element.

    Parameters
    ----------
    input : Tensor
    min, max : number or Tensor, optional
        At least one bound.

    Raises
    ------
    RuntimeError
        If there is no bound.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.clamp(fg.tensor([-1.0, 0.5, 2.0]), 0, 1)
    tensor([0.0000, 0.5000, 1.0000])
    """
    if not isinstance(input, TensorBase):
        need_tensor("clamp", input)
    if type(min) in NUMBERS and type(max) in NUMBERS:
        return apply(_CLAMP, 3, 0, input, min, max)
    op, bounds = bounded("clamp", min, max)
    return invoke_with(op, input, *bounds)


def bounded(name: str, min: Any, max: Any) -> tuple[Op, tuple[Any, ...]]:
    """The op of a clamp, and the bounds that it takes; refuses none, and a tensor beside a number."""
    if max is None:
        if min is None:
            raise RuntimeError(f"{name}(): At least one of 'min' or 'max' must not be None")
        return _CLAMPS["_min", not isinstance(min, TensorBase)], (min,)
    if min is None:
        return _CLAMPS["_max", not isinstance(max, TensorBase)], (max,)
    number = not isinstance(min, TensorBase)
    if isinstance(max, TensorBase) is number:
        kinds = " and ".join(type(x).__name__ for x in (min, max))
        raise TypeError(
            f"{name}(): arguments 'min' and 'max' must be two Tensors or two numbers, not {kinds}"
        )
    return _CLAMPS["", number], (min, max)


@public()
@planned
def masked_fill(input: Any, mask: Any, value: Any) -> Any:
    """A copy of `input` with `value` where the mask holds.

    Parameters
    ----------
    input : Tensor
    mask : Tensor
        Of dtype bool; broadcast to the shape of `input`.
    value : number or 0-dim Tensor
    """
    need_tensor("masked_fill", input)
    op, filling = filled("masked_fill", input, mask, value)
    return apply(op.id, 3, 0, input, filling, mask)


def filled(name: str, input: Any, mask: Any, value: Any) -> tuple[Op, Any]:
    """The op that fills where a mask holds, and the value as a tensor, for `name`; raises if they do not fit."""
    if _field(need_tensor(name, mask, "mask", 2), _DTYPE) != BOOL:
        raise RuntimeError(
            f"{name}(): only supports boolean masks, but got mask with dtype {mask.dtype.name}"
        )
    if not isinstance(value, TensorBase):
        return _FILL_NUMBER, number_for(name, value, input)
    if value.dim() != 0:  # type: ignore[attr-defined]
        raise RuntimeError(
            f"{name}(): only supports a 0-dimensional value tensor, but got tensor with {value.dim()} dimension(s)."
        )
    return _FILL, fill_value(name, value, input)


_FILL, _FILL_NUMBER = BY_NAME["masked_fill.copy"], BY_NAME["masked_fill.copy_number"]
_OWN_NUMBERS = {INT64: (int,), FLOAT32: (int, float), FLOAT64: (int, float)}
WIDE = 1 << 63


def number_for(name: str, value: Any, like: Any) -> Any:
    """What an op may take for a number that `name` writes to a tensor: the number itself, where it fits as it is."""
    own = _OWN_NUMBERS.get(_field(need_tensor(name, like), _DTYPE), ())
    return value if type(value) in own and -WIDE <= value < WIDE else fill_value(name, value, like)


def fill_value(name: str, value: Any, like: Any) -> Any:
    """A value as a 0-dim tensor of the dtype of the tensor that `name` will write it to."""
    if is_tensor(value):
        return value.to(need_tensor(name, like).dtype)
    if isinstance(value, complex) and _field(need_tensor(name, like), _DTYPE) not in COMPLEX:
        raise RuntimeError(f"{name}(): value cannot be converted to type {like.dtype.name} without overflow")
    if not isinstance(value, (int, float, complex, np.number, np.bool_)):
        raise TypeError(
            f"{name}(): argument 'value' must be a number or a Tensor, not {type(value).__name__}"
        )
    code = _field(need_tensor(name, like), _DTYPE)
    return rt.number(*number_parts(value, name, code), code, 0)


# --- functions that follow from the declaration of their op ----------------------------------------------------


def _unary(op: Op) -> Callable[..., Any]:
    name, number = op.name, op.id
    over_complex = BY_NAME.get(f"{name}.complex")

    def function(input: Any, *, out: Any = None) -> Any:
        if out is not None:
            return into(out, function, (input,), {})
        if not isinstance(input, TensorBase):
            need_tensor(name, input)
        if over_complex is not None and _field(input, _DTYPE) in COMPLEX:
            return invoke(over_complex, (input,))
        return apply(number, 1, 0, input)

    return function


def _binary(op: Op) -> Callable[..., Any]:
    name, number, commutes = op.name, op.id, op.commutes

    def function(input: Any, other: Any, *, out: Any = None) -> Any:
        if out is not None:
            return into(out, function, (input, other), {})
        if isinstance(input, TensorBase):
            if isinstance(other, TensorBase):
                return apply(number, 2, 0, input, other)
        else:
            _need_operand(name, input, other)
            if commutes:
                return invoke(op, (other, input))
        return invoke(op, (input, other))

    return function


_FORMS = {
    1: (_unary, "input : Tensor"),
    2: (_binary, "input, other : Tensor or number\n    One is a tensor at least."),
}


def function_of(op: Op) -> Callable[..., Any]:
    """The function that does nothing but call an op, with a docstring from that of the op's formula."""
    make, parameters = _FORMS[len(op.inputs)]
    function = make(op)
    function.__name__ = function.__qualname__ = op.name
    sections = f"Parameters\n----------\n{parameters}\n\nReturns\n-------\nTensor\n"
    function.__doc__ = f"{op.doc}\n\nElement by element.\n\n{sections}"
    return function


def _inplace_method(op: Op, name: str) -> Callable[..., Any]:
    if len(op.inputs) == 1:

        def method(self: Any) -> Any:
            return inplace(op, self)

    else:

        def method(self: Any, other: Any) -> Any:  # type: ignore[misc]
            return inplace(op, self, other)

    method.__name__ = f"{name}_"
    method.__qualname__ = f"Tensor.{name}_"
    method.__doc__ = f"In-place form of `{name}`."
    return method


for _op in OPS:
    if _op.names and _op.doc:
        globals().update(dict.fromkeys(_op.names, public(*_op.names[1:])(function_of(_op))))
    for _name in _op.names if _op.inplace else ():
        public(package=False)(_inplace_method(_op, _name))

if TYPE_CHECKING:
    from typing import Protocol

    class _Function(Protocol):
        def __call__(self, *operands: Any) -> Any: ...

    def __getattr__(name: str) -> _Function: ...
