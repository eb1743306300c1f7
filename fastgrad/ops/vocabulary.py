"""`m` and `c`: the words of elementwise formulas.

A formula lives twice. In a compiled loop `m` is a namespace of `fastgrad.kernels.vecmath` and ``c(1)`` a constant of
the loop's dtype; on tensors, when a derivative is itself differentiated, they are what stands here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastgrad.native.build.loader import rt
from fastgrad.native.contracts.element_types import COMPLEX, COMPLEX128, FLOAT64
from fastgrad.native.contracts.records import TENSOR
from fastgrad.native.host.tables import BY_NAME
from fastgrad.ops.call import as_number, invoke

if TYPE_CHECKING:
    from fastgrad.ops.registry import Op

_DTYPE = TENSOR.fields["dtype"][0]


class _TensorMath:
    """Every elementwise op as a function of tensors and numbers; of numbers alone it is a number.

    So what is computed of the numbers of a call never becomes a tensor that a node might save.
    """

    def __getattr__(self, name: str) -> Any:
        op = BY_NAME.get(_OP_NAMES.get(name, name))
        if op is None:
            raise AttributeError(f"no op named {name!r}")

        def function(*operands: Any) -> Any:
            if all(map(_is_number, operands)):
                return invoke(op, [_double(value, op) for value in operands]).item()
            numbered = op.numbered if op.numbered and _is_number(operands[1]) else op
            return invoke(numbered, operands)

        return function

    def where(self, condition: Any, a: Any, b: Any) -> Any:
        """A choice; a condition of numbers alone is decided at once."""
        if _is_number(condition):
            return a if condition else b
        return invoke(BY_NAME["where"], (a, b, condition))

    def of_dtype(self, x: Any, other: Any) -> Any:
        """`x` in the dtype of another operand, where a function would compute in another one."""
        dtype = rt.field(other, _DTYPE)
        if _is_number(x):
            return complex(x) if dtype in COMPLEX else x
        return x if rt.field(x, _DTYPE) == dtype else invoke(BY_NAME["cast"], (x,), dtype)

    def is_at_least_zero(self, x: Any) -> Any:
        """Whether ``x >= 0``, which a complex number is only if it is real."""
        if _is_number(x):
            return not isinstance(x, complex) and x >= 0
        if rt.field(x, _DTYPE) not in COMPLEX:
            return x >= 0
        real, imag = (invoke(BY_NAME[name], (x,)) for name in ("real_part", "imag_part"))
        return self.logical_and(imag == 0, real >= 0)

    def logical_and(self, first: Any, second: Any) -> Any:
        """Whether two conditions hold; one of numbers alone is decided at once."""
        if _is_number(first):
            return second if first else False
        return invoke(BY_NAME["logical_and"], (first, second))


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, complex))


def _double(value: float, op: Op) -> Any:
    code = COMPLEX128 if isinstance(value, complex) else FLOAT64
    return invoke(BY_NAME["cast"], (as_number(value, (), op),), code)


_OP_NAMES = {
    "floor_div": "div_floor",
    "trunc_div": "div_trunc",
    "sign": "sign.sgn",
    "whole_power": "pow",
}

m = _TensorMath()


def c(value: float) -> float:
    """A constant of the dtype that the formula computes in."""
    return value
