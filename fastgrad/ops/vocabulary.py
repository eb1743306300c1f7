"""`m` and `c`: the words of elementwise formulas.

A formula lives twice. In a compiled loop `m` is a namespace of `fastgrad.kernels.vecmath` and ``c(1)`` a constant of
the loop's dtype; on tensors, when a derivative is itself differentiated, they are what stands here.
"""

from __future__ import annotations

from typing import Any

from fastgrad.ops import registry
from fastgrad.ops.call import invoke


class _TensorMath:
    """Every elementwise op as a function of tensors and numbers."""

    def __getattr__(self, name: str) -> Any:
        op = registry.BY_NAME.get(_OP_NAMES.get(name, name))
        if op is None:
            raise AttributeError(f"no op named {name!r}")

        if name == "where":  # a formula names the condition first

            def choose(condition: Any, a: Any, b: Any) -> Any:
                return invoke(op, (a, b, condition))

            return choose

        def function(*operands: Any) -> Any:
            return invoke(op, operands)

        return function


_OP_NAMES = {"floor_div": "div_floor", "trunc_div": "div_trunc", "softplus": "softplus.one"}

m = _TensorMath()


def c(value: float) -> float:
    """A constant of the dtype that the formula computes in."""
    return value
