"""Orthogonal polynomials at points, of an order for all of them or for each.

Note [Orders]: Chebyshev's polynomials follow from sequences whose places ``2 k`` and ``2 k + 1`` are known from
``k`` and ``k + 1``, so an order takes as many steps as it has binary digits: those of the first kind themselves, and
for the others ``S_0 = 0, S_1 = 1, S_{k+1} = 2 x S_k - S_{k-1}``. The remaining ones have recurrences whose factors
depend on the order, with a step for each. All are computed in float64 and rounded once.

Examples
--------
>>> import fastgrad as fg
>>> fg.special.chebyshev_polynomial_t(fg.tensor([0.5, 2.0]), fg.tensor([2, 3]))
tensor([-0.5000, 26.0000])
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from fastgrad import dtypes
from fastgrad.functions.arguments import is_number, is_tensor
from fastgrad.functions.creation import full
from fastgrad.functions.index import where
from fastgrad.functions.outs import taking_out
from fastgrad.functions.promotion import result_type

Polynomial = Callable[[Any, Any], Any]

HIGHEST_HERMITE = {dtypes.float32: 128, dtypes.float64: 512}
"""Orders above which Hermite's polynomials are NaN, as in PyTorch: their values leave the dtype's range."""


def _operands(name: str, input: Any, n: Any) -> tuple[Any, Any, Any]:
    """The points in float64, the orders, and the dtype of the result."""
    for value, argument, position in ((input, "input", 1), (n, "n", 2)):
        if not is_number(value):
            given = type(value).__name__
            raise TypeError(
                f"{name}(): argument '{argument}' (position {position}) must be Tensor, not {given}"
            )
    if not is_tensor(input) and not is_tensor(n):
        raise TypeError(f"{name}(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}")
    kind: Any = result_type(input, n)
    if kind.is_complex or kind in (dtypes.float16, dtypes.bfloat16):
        raise NotImplementedError(f'"{name}" not implemented for {kind}')
    device = (input if is_tensor(input) else n).device
    x = input if is_tensor(input) else full((), input, dtype=dtypes.float64, device=device)
    order = n.trunc() if is_tensor(n) and n.is_floating_point() else n
    order = (
        order.to(dtypes.int64) if is_tensor(n) else full((), int(order), dtype=dtypes.int64, device=device)
    )
    return x.to(dtypes.float64), order, kind if kind.is_floating_point else dtypes.get_default_dtype()


def _zero_and_one(x: Any, order: Any) -> tuple[Any, Any]:
    """Zeros and ones of the sizes that points and orders have together."""
    zero = (x.isnan() & (order < 0)).to(dtypes.float64) * 0
    return zero, zero + 1


def _highest(order: Any) -> int:
    return int(order.detach().max().item()) if order.numel() else 0


def _first_kind(x: Any, order: Any) -> Any:
    """T of an order from ``T_{2k} = 2 T_k^2 - 1`` and ``T_{2k+1} = 2 T_k T_{k+1} - x``."""
    zero, here = _zero_and_one(x, order)
    after = x + zero
    for digit in reversed(range(_highest(order).bit_length())):
        odd = (order >> digit) % 2 == 1
        double, beside, beyond = 2 * here * here - 1, 2 * here * after - x, 2 * after * after - 1
        here, after = where(odd, beside, double), where(odd, beyond, beside)
    return here


def _neighbours(x: Any, order: Any) -> tuple[Any, Any]:
    """S at an order and behind it, from ``S_{2k} = 2 S_k (S_{k+1} - x S_k)`` and ``S_{2k+1} = S_{k+1}^2 - S_k^2``."""
    here, after = _zero_and_one(x, order)
    for digit in reversed(range(_highest(order).bit_length())):
        odd = (order >> digit) % 2 == 1
        double, beside = 2 * here * (after - x * here), (after - here) * (after + here)
        here, after = where(odd, beside, double), where(odd, 2 * x * beside - double, beside)
    return here, after


def _second_kind(x: Any, order: Any) -> Any:
    return _neighbours(x, order)[1]


def _third_kind(x: Any, order: Any) -> Any:
    here, after = _neighbours(x, order)
    return after - here


def _fourth_kind(x: Any, order: Any) -> Any:
    here, after = _neighbours(x, order)
    return after + here


def _chebyshev(kind: str, evaluate: Callable[[Any, Any], Any], shifted: bool) -> Polynomial:
    """A polynomial from ``evaluate(x, order)``."""
    name = f"{'shifted_' if shifted else ''}chebyshev_polynomial_{kind}"
    what = "at 2 x - 1, by order and point" if shifted else "by order and point"

    def polynomial(input: Any, n: Any) -> Any:
        x, order, dtype = _operands(name, input, n)
        x = 2 * x - 1 if shifted else x
        found = where(
            x.isinf(), x.pow(order), evaluate(x, order)
        )  # of infinite ones the highest power decides
        return where(order < 0, _zero_and_one(x, order)[0], found).to(dtype)

    polynomial.__doc__ = f"""Chebyshev's polynomials of the {_KINDS[kind]} kind, {what}.

    Parameters
    ----------
    input : Tensor or number
        Points x.
    n : Tensor or number
        Orders, whose fractions are dropped; of negative ones the polynomial is 0.

    Returns
    -------
    Tensor
        float32 or float64, of the sizes that both have together.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.special.{name}(fg.tensor([0.5, 2.0]), 2).dim()
    1
    """
    polynomial.__name__ = polynomial.__qualname__ = name
    polynomial.__module__ = "fastgrad.special"  # where it is found
    return taking_out(polynomial)


_KINDS = {"t": "first", "u": "second", "v": "third", "w": "fourth"}
_EVALUATED = {"t": _first_kind, "u": _second_kind, "v": _third_kind, "w": _fourth_kind}


def _recurrent(
    name: str,
    what: str,
    first: Callable[[Any], Any],
    step: Callable[[int, Any, Any, Any], Any],
    bounded: bool = False,
) -> Polynomial:
    """A polynomial by a recurrence: that of order 0 is 1, ``first(x)`` that of order 1, ``step(k, x, q, p)`` that of
    order k + 1, where q and p are those of k and k - 1.
    """

    def polynomial(input: Any, n: Any) -> Any:
        x, order, dtype = _operands(name, input, n)
        highest = _highest(order)
        if bounded:
            highest = min(highest, HIGHEST_HERMITE[dtype])
        zero, before = _zero_and_one(x, order)
        found, here = where(order == 0, before, zero), first(x) + zero
        for k in range(1, highest + 1):
            found = where(order == k, here, found)
            before, here = here, step(k, x, here, before)
        if bounded:
            found = where(order > HIGHEST_HERMITE[dtype], zero + math.nan, found)
        return found.to(dtype)

    polynomial.__doc__ = f"""{what}

    Parameters
    ----------
    input : Tensor or number
        Points x.
    n : Tensor or number
        Orders, whose fractions are dropped; of negative ones the polynomial is 0.

    Returns
    -------
    Tensor
        float32 or float64, of the sizes that both have together.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.special.{name}(fg.tensor([0.5, 2.0]), 2).dim()
    1
    """
    polynomial.__name__ = polynomial.__qualname__ = name
    polynomial.__module__ = "fastgrad.special"  # where it is found
    return taking_out(polynomial)


POLYNOMIALS: dict[str, Polynomial] = {
    f.__name__: f
    for f in (
        *(_chebyshev(kind, f, shifted) for shifted in (False, True) for kind, f in _EVALUATED.items()),
        _recurrent(
            "hermite_polynomial_h", "Hermite's polynomials, those of physics, by order and point.",
            lambda x: 2 * x, lambda k, x, q, p: 2 * x * q - 2 * k * p, bounded=True,
        ),
        _recurrent(
            "hermite_polynomial_he", "Hermite's polynomials, those of probability, by order and point.",
            lambda x: x, lambda k, x, q, p: x * q - k * p, bounded=True,
        ),
        _recurrent(
            "laguerre_polynomial_l", "Laguerre's polynomials, by order and point.",
            lambda x: 1 - x, lambda k, x, q, p: ((2 * k + 1 - x) * q - k * p) / (k + 1),
        ),
        _recurrent(
            "legendre_polynomial_p", "Legendre's polynomials, by order and point.",
            lambda x: x, lambda k, x, q, p: ((2 * k + 1) * x * q - k * p) / (k + 1),
        ),
    )
}  # fmt: skip
"""The functions by name."""
