"""Arithmetic, exponentials, comparisons: functions that work element by element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastgrad import dtypes
from fastgrad.functions.arguments import is_tensor, need_tensor
from fastgrad.native.layout import BOOL, HAS_PYTHON, TENSOR
from fastgrad.native.loader import rt
from fastgrad.ops.call import apply, invoke
from fastgrad.ops.registry import BY_NAME, Op
_FLAGS, _NODE = TENSOR.fields["flags"][0], TENSOR.fields["node"][0]


def _unary(name: str, op_name: str | None = None) -> Callable[[Any], Any]:
    op = BY_NAME[op_name or name]
    number = op.id

    def function(input: Any) -> Any:  # noqa: A002 - PyTorch's name
        need_tensor(name, input)
        return apply(number, 1, 0, input)

    function.__name__ = function.__qualname__ = name
    return function


def _binary(name: str, op_name: str | None = None) -> Callable[[Any, Any], Any]:
    op = BY_NAME[op_name or name]

    def function(input: Any, other: Any) -> Any:  # noqa: A002
        if not is_tensor(input) and not is_tensor(other):
            need_tensor(name, input)
        return invoke(op, (input, other))

    function.__name__ = function.__qualname__ = name
    return function


def inplace(op: Op, target: Any, *others: Any) -> Any:
    """Run an elementwise op into its first operand; returns that operand."""
    operands = [target]
    for other in others:
        operands.append(other if is_tensor(other) else _number(other, target))
    if rt.field(target, _FLAGS) & HAS_PYTHON:
        return _inplace_with_hooks(op, operands)
    return apply(op.id, len(operands), -1, *operands)


def _inplace_with_hooks(op: Op, operands: list[Any]) -> Any:
    from fastgrad.autograd.hooks import leave_hooks_behind

    target = operands[0]
    node = rt.grad_node(target)
    try:
        out = apply(op.id, len(operands), -1, *operands)
        if node and rt.field(target, _NODE) != node:
            leave_hooks_behind(target, node)
        return out
    finally:
        if node:
            rt.drop_handle(node)


def _number(value: Any, like: Any) -> Any:
    from fastgrad.ops.call import as_number

    return as_number(value, (like,))


neg = negative = _unary("neg")
abs = absolute = _unary("abs")  # noqa: A001
sign = _unary("sign")
exp = _unary("exp")
log = _unary("log")
sqrt = _unary("sqrt")
square = _unary("square")
tanh = _unary("tanh")
sigmoid = _unary("sigmoid")
sin = _unary("sin")
cos = _unary("cos")
relu = _unary("relu")
isnan = _unary("isnan")
logical_not = _unary("logical_not")
bitwise_not = _unary("bitwise_not")

mul = multiply = _binary("mul")
remainder = _binary("remainder")
fmod = _binary("fmod")
maximum = _binary("maximum")
minimum = _binary("minimum")
pow = _binary("pow")  # noqa: A001
eq = _binary("eq")
ne = not_equal = _binary("ne")
lt = less = _binary("lt")
le = less_equal = _binary("le")
gt = greater = _binary("gt")
ge = greater_equal = _binary("ge")
logical_and = _binary("logical_and")
logical_or = _binary("logical_or")
logical_xor = _binary("logical_xor")
bitwise_and = _binary("bitwise_and")
bitwise_or = _binary("bitwise_or")
bitwise_xor = _binary("bitwise_xor")
floor_divide = _binary("floor_divide")


def add(input: Any, other: Any, *, alpha: float = 1) -> Any:  # noqa: A002
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
    return invoke(BY_NAME["add"], (input, _scaled("add", other, alpha, input)))


def sub(input: Any, other: Any, *, alpha: float = 1) -> Any:  # noqa: A002
    """``input - alpha * other``, broadcast and promoted. See `add`."""
    _no_bool_sub(input, other)
    return invoke(BY_NAME["sub"], (input, _scaled("sub", other, alpha, input)))


subtract = sub


def _no_bool_sub(*operands: Any) -> None:
    if all(is_tensor(t) and t.dtype.code == BOOL for t in operands):
        raise RuntimeError(
            "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or `logical_xor()` "
            "operator instead."
        )


def _scaled(name: str, other: Any, alpha: Any, input: Any = None) -> Any:  # noqa: A002
    if alpha == 1:
        return other
    if isinstance(alpha, float):
        kinds = [t.dtype for t in (input, other) if is_tensor(t)]
        if kinds and not any(k.is_floating_point for k in kinds):
            raise RuntimeError(f"{name}: For integral input tensors, argument alpha must not be a floating point number.")
    return other * alpha


def div(input: Any, other: Any, *, rounding_mode: str | None = None) -> Any:  # noqa: A002
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
        return invoke(BY_NAME["div"], (input, other))
    if rounding_mode not in ("trunc", "floor"):
        raise RuntimeError(
            f"div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '{rounding_mode}'"
        )
    return invoke(BY_NAME["div_trunc" if rounding_mode == "trunc" else "div_floor"], (input, other))


divide = div


def true_divide(input: Any, other: Any) -> Any:  # noqa: A002
    """The exact quotient. See `div`."""
    return invoke(BY_NAME["div"], (input, other))


def clamp(input: Any, min: Any = None, max: Any = None) -> Any:  # noqa: A002
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
    need_tensor("clamp", input)
    if min is None and max is None:
        raise RuntimeError("clamp: At least one of 'min' or 'max' must not be None")
    if max is None:
        return invoke(BY_NAME["clamp_min"], (input, min))
    if min is None:
        return invoke(BY_NAME["clamp_max"], (input, max))
    return invoke(BY_NAME["clamp"], (input, min, max))


clip = clamp


def where(condition: Any, input: Any = None, other: Any = None) -> Any:  # noqa: A002
    """``input`` where the condition holds, else ``other``.

    Parameters
    ----------
    condition : Tensor
        Of dtype bool.
    input, other : Tensor or number

    Raises
    ------
    RuntimeError
        If the condition is not bool or the shapes do not broadcast.

    Examples
    --------
    >>> import fastgrad as fg
    >>> x = fg.tensor([-1.0, 2.0])
    >>> fg.where(x > 0, x, 0.0)
    tensor([0., 2.])
    """
    need_tensor("where", condition, "condition")
    return invoke(BY_NAME["where"], (condition, input, other))


def masked_fill(input: Any, mask: Any, value: Any) -> Any:  # noqa: A002
    """A copy of `input` with `value` where the mask holds.

    Parameters
    ----------
    input : Tensor
    mask : Tensor
        Of dtype bool; broadcast to the shape of `input`.
    value : number or 0-dim Tensor
    """
    need_tensor("masked_fill", input)
    need_tensor("masked_fill", mask, "mask")
    if mask.dtype is not dtypes.bool_:
        raise RuntimeError(f"masked_fill only supports boolean masks, but got mask with dtype {mask.dtype.name}")
    if is_tensor(value) and value.dim() != 0:
        raise RuntimeError(
            f"masked_fill only supports a 0-dimensional value tensor, but got tensor with {value.dim()} dimension(s)."
        )
    return invoke(BY_NAME["where"], (mask, fill_value(value, input), input))


def fill_value(value: Any, like: Any) -> Any:
    """A value as a 0-dim tensor of the dtype of the tensor that it will be written to."""
    from fastgrad.functions.creation import full

    if is_tensor(value):
        return value.to(like.dtype)
    bounds = {dtypes.uint8: (-255, 255), dtypes.int32: (-(2**31), 2**31 - 1)}.get(like.dtype)
    if bounds and not isinstance(value, bool) and not bounds[0] <= value <= bounds[1]:
        raise RuntimeError(f"value cannot be converted to type {like.dtype.name} without overflow")
    return full((), value, dtype=like.dtype)
