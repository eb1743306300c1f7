"""`m` and `c`: the words of elementwise formulas.

A formula lives twice. In a compiled loop `m` is a namespace of `fastgrad.kernels.vecmath` and ``c(1)`` a constant of
the loop's dtype; on tensors, when a derivative is itself differentiated, they are what stands here.
"""

from __future__ import annotations

from typing import Any

from fastgrad.native.contracts.element_types import FLOAT64
from fastgrad.ops import registry
from fastgrad.ops.call import as_number, invoke


class _TensorMath:
    """Every elementwise op as a function of tensors and numbers; of numbers alone it is a number.

    So what is computed of the numbers of a call never becomes a tensor that a node might save.
    """

    def __getattr__(self, name: str) -> Any:
        op = registry.BY_NAME.get(_OP_NAMES.get(name, name))
        if op is None:
            raise AttributeError(f"no op named {name!r}")

        if name == "where":  # a formula names the condition first

            def choose(condition: Any, a: Any, b: Any) -> Any:
                if _is_number(condition):
                    return a if condition else b
                return invoke(op, (a, b, condition))

            return choose

        def function(*operands: Any) -> Any:
            if _is_number(operands[-1]):
                if all(map(_is_number, operands)):
                    return invoke(op, [_double(value) for value in operands]).item()
                return invoke(op.numbered or op, operands)
            return invoke(op, operands)

        return function


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float))


def _double(value: float) -> Any:
    return invoke(registry.BY_NAME["cast"], (as_number(value),), FLOAT64)


_OP_NAMES = {
    "floor_div": "div_floor",
    "trunc_div": "div_trunc",
    "softplus": "softplus.one",
    "sign": "sign.sgn",
}

m = _TensorMath()


def c(value: float) -> float:
    """A constant of the dtype that the formula computes in."""
    return value
