"""The operators of Python that are no compiled slots, and what the compiled ones hand over."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from fastgrad.errors import renamed
from fastgrad.functions import (
    elementwise,
    index,
    index_writes,
    linalg,
    sharing,
)
from fastgrad.functions.arguments import is_number
from fastgrad.native.build.loader import TensorBase, rt, runtime_set_object
from fastgrad.native.contracts.flags import AUTOCAST
from fastgrad.native.contracts.ops import BINARY_OPERATORS, INPLACE_OPERATORS, OPERATORS, UNARY_OPERATORS
from fastgrad.native.contracts.records import TENSOR
from fastgrad.native.host.tables import BY_NAME, NUMBERS
from fastgrad.ops.call import apply
from fastgrad.tensor.changes import Changes
from fastgrad.tensor.methods import Methods

if TYPE_CHECKING:
    from fastgrad.tensor import Tensor

_NDIM = TENSOR.fields["ndim"][0]
_MM = BY_NAME["mm"].id
_field, _get_mode = rt.field, rt.get_mode


class Operators(Methods):
    """Operators that are not slots."""

    __slots__ = ()

    def __matmul__(self, other: Any) -> Any:
        if isinstance(other, TensorBase):
            if _field(self, _NDIM) == 2 == _field(other, _NDIM) and not _get_mode() & AUTOCAST:
                try:
                    return apply(_MM, 2, 0, self, other)
                except RuntimeError as error:
                    raise renamed(error, "matmul") from error.__cause__
            return linalg.matmul(self, other)
        return NotImplemented

    def __rmatmul__(self, other: Any) -> Any:
        if isinstance(other, TensorBase):
            return linalg.matmul(other, self)
        return NotImplemented

    def __rdiv__(self, other: Any) -> Any:
        return elementwise.div(other, self)

    def __pow__(self, exponent: Any) -> Any:
        if type(exponent) in NUMBERS:
            return elementwise.pow(self, exponent)
        return _or_not_implemented(elementwise.pow, self, exponent)

    def __rpow__(self, base: Any) -> Any:
        return _or_not_implemented(elementwise.pow, base, self)

    def __pos__(self) -> Tensor:
        return self

    def __floordiv__(self, other: Any) -> Any:
        return _divided(TensorBase.__floordiv__, elementwise.floor_divide, self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return _or_not_implemented(elementwise.floor_divide, other, self)

    def __mod__(self, other: Any) -> Any:
        return _divided(TensorBase.__mod__, elementwise.remainder, self, other)

    def __rmod__(self, other: Any) -> Any:
        return _or_not_implemented(elementwise.remainder, other, self)

    def __ifloordiv__(self, other: Any) -> Any:
        return self.floor_divide_(other)

    def __imod__(self, other: Any) -> Any:
        return self.remainder_(other)

    def __iand__(self, other: Any) -> Any:
        return elementwise.inplace(BY_NAME["bitwise_and"], self, other)

    def __ior__(self, other: Any) -> Any:
        return elementwise.inplace(BY_NAME["bitwise_or"], self, other)

    def __ixor__(self, other: Any) -> Any:
        return elementwise.inplace(BY_NAME["bitwise_xor"], self, other)

    def __lshift__(self, other: Any) -> Any:
        return _or_not_implemented(elementwise.bitwise_left_shift, self, other)

    def __rlshift__(self, other: Any) -> Any:
        return _or_not_implemented(elementwise.bitwise_left_shift, other, self)

    def __ilshift__(self, other: Any) -> Any:
        return elementwise.inplace(BY_NAME["bitwise_left_shift"], self, other)

    def __rshift__(self, other: Any) -> Any:
        return _or_not_implemented(elementwise.bitwise_right_shift, self, other)

    def __rrshift__(self, other: Any) -> Any:
        return _or_not_implemented(elementwise.bitwise_right_shift, other, self)

    def __irshift__(self, other: Any) -> Any:
        return elementwise.inplace(BY_NAME["bitwise_right_shift"], self, other)

    def __getitem__(self, key: Any) -> Any:
        return index.getitem(self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        index_writes.setitem(self, key, value)


def _divided(slot: Callable[..., Any], function: Callable[..., Any], a: Any, b: Any) -> Any:
    """A division that rounds: compiled for floating point, with a look at the divisor for integers."""
    return slot(a, b) if a.dtype.is_floating_point else _or_not_implemented(function, a, b)


def _or_not_implemented(function: Callable[..., Any], *operands: Any) -> Any:
    for x in operands:
        if isinstance(x, np.ndarray):
            return function(*(sharing.from_numpy(y) if isinstance(y, np.ndarray) else y for y in operands))
        if not is_number(x):
            return NotImplemented
    return function(*operands)


# --- operators that the compiled slots hand over ---------------------------------------------------------------

_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "add": elementwise.add, "subtract": elementwise.sub, "multiply": elementwise.mul,
    "true_divide": elementwise.true_divide, "floor_divide": elementwise.floor_divide,
    "remainder": elementwise.remainder, "and": elementwise.bitwise_and, "or": elementwise.bitwise_or,
    "xor": elementwise.bitwise_xor, "negative": elementwise.neg, "absolute": elementwise.abs,
    "invert": elementwise.bitwise_not, "lt": elementwise.lt, "le": elementwise.le, "eq": elementwise.eq,
    "ne": elementwise.ne, "gt": elementwise.gt, "ge": elementwise.ge,
    "inplace_add": Changes.add_, "inplace_subtract": Changes.sub_, "inplace_true_divide": Changes.div_,
    "inplace_multiply": lambda a, b: elementwise.inplace(BY_NAME["mul"], a, b),
}  # fmt: skip
_OPERATORS = [_FUNCTIONS[name] for name in OPERATORS]
_MULTIPLY = OPERATORS.index("multiply")
_N_UNARY = len(BINARY_OPERATORS) + len(INPLACE_OPERATORS)


def _operator(a: Any, b: Any, k: int) -> Any:
    """An operator whose operands are not two tensors or a tensor and a number, or whose compiled form failed."""
    if _N_UNARY <= k < _N_UNARY + len(UNARY_OPERATORS):
        return _OPERATORS[k](a)
    for x in (a, b):
        if not is_number(x):
            if isinstance(x, np.ndarray):
                other = sharing.from_numpy(x)
                return _operator(other if x is a else a, other if x is b else b, k)
            if k == _MULTIPLY and isinstance(x, (str, bytes)):  # else Python would try to repeat the text
                raise TypeError(
                    f"mul(): unsupported operand type(s) for *: 'Tensor' and '{type(x).__name__}'"
                )
            return NotImplemented
    return _OPERATORS[k](a, b)


runtime_set_object("operator_fallback", _operator)
