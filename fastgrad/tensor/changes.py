"""Changes in place that take more than the op's operands."""

from __future__ import annotations

import builtins
from typing import Any

from fastgrad.cuda import pinned
from fastgrad.errors import renamed
from fastgrad.functions import elementwise
from fastgrad.functions.arguments import as_truth
from fastgrad.functions.older_forms import numbers_first
from fastgrad.functions.plans import planned
from fastgrad.native.build.loader import TensorBase, rt
from fastgrad.native.contracts.element_types import FLOATS
from fastgrad.native.contracts.flags import GRAD_ENABLED
from fastgrad.native.contracts.records import TENSOR
from fastgrad.native.host.tables import BY_NAME
from fastgrad.ops.call import apply
from fastgrad.tensor.methods import Methods

_DTYPE, _DEVICE = (TENSOR.fields[n][0] for n in ("dtype", "device"))
_ADD, _SUB = BY_NAME["add"], BY_NAME["sub"]
_ZERO, _FILL = (BY_NAME[f"assign.{name}"].id for name in ("zero", "number"))
_EXACT = 1 << 53  # up to here float64 holds all integers
_field = rt.field


def _assigned(name: str, op: int, target: Any, number: tuple[int, builtins.float, int]) -> Any:
    """Let an op write a number, given as its kind, float and int, to all elements of a tensor."""
    try:
        return apply(op, 2, -1, target, rt.number(*number, _field(target, _DTYPE), 0))
    except (RuntimeError, TypeError) as error:
        raise renamed(error, name) from error.__cause__


class Changes(Methods):
    """Changes in place."""

    __slots__ = ()

    @planned
    @numbers_first(2, "alpha")
    def add_(self, other: Any, *, alpha: builtins.float = 1) -> Any:
        """``self += alpha * other``."""
        if alpha == 1:
            return elementwise.inplace(_ADD, self, other)
        op, operands = elementwise.scaled("add", self, other, alpha)
        return elementwise.inplace(op, *operands)

    @planned
    @numbers_first(2, "alpha")
    def sub_(self, other: Any, *, alpha: builtins.float = 1) -> Any:
        """``self -= alpha * other``."""
        elementwise._no_bool_sub(self, other)
        if alpha == 1:
            return elementwise.inplace(_SUB, self, other)
        op, operands = elementwise.scaled("sub", self, other, alpha)
        return elementwise.inplace(op, *operands)

    @planned
    def div_(self, other: Any, *, rounding_mode: str | None = None) -> Any:
        """``self /= other``, rounded if asked for."""
        if rounding_mode is None:
            return elementwise.inplace(BY_NAME["div"], self, other)
        op = elementwise.rounded(rounding_mode)
        elementwise.need_divisor("div_", self, other)
        return elementwise.inplace(op, self, other)

    @planned
    def floor_divide_(self, other: Any) -> Any:
        """``self //= other``."""
        elementwise.need_divisor("floor_divide_", self, other)
        return elementwise.inplace(BY_NAME["floor_divide"], self, other)

    @planned
    def remainder_(self, other: Any) -> Any:
        """``self %= other``."""
        elementwise.need_divisor("remainder_", self, other)
        op = BY_NAME["remainder" if isinstance(other, TensorBase) else "remainder.number"]
        return elementwise.inplace(op, self, other)

    @planned
    def clamp_(self, min: Any = None, max: Any = None) -> Any:
        """Bound the elements, in place."""
        op, bounds = elementwise.bounded("clamp_", min, max)
        return elementwise.inplace(op, self, *bounds)

    clip_ = clamp_
    subtract_ = sub_
    divide_ = true_divide_ = div_

    def fill_(self, value: Any) -> Any:
        """Set all elements to a number."""
        kind = type(value)
        if (kind is float or kind is int) and -_EXACT < value < _EXACT and _field(self, _DTYPE) in FLOATS:
            number = (1, value, 0) if kind is float else (0, 0.0, value)
            return _assigned("fill_", _FILL, self, number)
        if isinstance(value, TensorBase) and value.ndim != 0:
            raise RuntimeError(
                f"fill_(): only supports 0-dimension value tensor but got tensor with {value.ndim} dimensions."
            )
        op = BY_NAME["assign.fill" if isinstance(value, TensorBase) else "assign.number"]
        return elementwise.write("fill_", op, self, elementwise.fill_value("fill_", value, self))

    def zero_(self) -> Any:
        """Set all elements to zero."""
        return _assigned("zero_", _ZERO, self, (0, 0.0, 0))

    @planned
    def copy_(self, source: Any, non_blocking: Any = False) -> Any:
        """Copy the elements of another tensor, broadcast and cast.

        Parameters
        ----------
        source : Tensor
        non_blocking : bool
            Do not wait for a copy between a GPU and memory that `pin_memory` locked; see `to`.
        """
        if not isinstance(source, TensorBase):
            raise TypeError(
                f"copy_(): argument 'other' (position 1) must be Tensor, not {type(source).__name__}"
            )
        if _field(source, _DEVICE) != _field(self, _DEVICE):
            waits = not as_truth("copy_", "non_blocking", non_blocking)
            tracked = rt.get_mode() & GRAD_ENABLED and (self.requires_grad or source.requires_grad)
            if not waits and not tracked and pinned.copy_in_place(self, source):
                return self
            source = source.to(device=self.device, non_blocking=not waits and self.is_cuda)
        if _field(source, _DTYPE) != _field(self, _DTYPE):
            source = source.to(self.dtype)
        return elementwise.inplace(BY_NAME["assign"], self, source)

    @planned
    def pow_(self, exponent: Any) -> Any:
        """``self **= exponent``."""
        op = BY_NAME["pow" if isinstance(exponent, TensorBase) else "pow.number"]
        return elementwise.inplace(op, self, exponent)

    @planned
    def masked_fill_(self, mask: Any, value: Any) -> Any:
        """Set the elements where the mask holds to a number."""
        op, filling = elementwise.filled("masked_fill_", self, mask, value)
        return elementwise.inplace(op, self, filling, mask)
