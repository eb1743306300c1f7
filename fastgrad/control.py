"""What programs that are to be traced write in place of Python's own branches, loops and arithmetic.

There is no tracing: `cond` and `while_loop` run as Python does, and what they compute is recorded like everything else.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from fastgrad.native.build.loader import TensorBase

__all__ = [
    "cond",
    "sym_float",
    "sym_fresh_size",
    "sym_int",
    "sym_ite",
    "sym_max",
    "sym_min",
    "sym_not",
    "sym_sqrt",
    "sym_sum",
    "while_loop",
]

# --- control flow ----------------------------------------------------------------------------------------------


def cond(pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: Any = ()) -> Any:
    """One of two functions of the same operands.

    Parameters
    ----------
    pred : bool, number or Tensor
        Which one; a tensor has one element, which is read.
    true_fn, false_fn : callable
    operands : tuple or list
        Tensors, also within lists, tuples and dicts.

    Returns
    -------
    object
        What the function returns.

    Raises
    ------
    RuntimeError
        If an argument is of another type, or `pred` has another number of elements.

    Examples
    --------
    >>> import fastgrad as fg
    >>> x = fg.tensor([1.0, -2.0])
    >>> fg.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.abs(), (x,))
    tensor([1., 2.])
    """
    if not isinstance(pred, (bool, int, float, TensorBase)):
        raise RuntimeError(f"cond(): Expected pred to be bool or tensor, but got {pred!r}")
    if isinstance(pred, TensorBase) and pred.numel() != 1:
        raise RuntimeError(
            f"cond(): Expected pred to be bool or single-element tensor, but got shape {list(pred.shape)}; use where() "
            "to choose element by element"
        )
    if not callable(true_fn) or not callable(false_fn):
        raise RuntimeError("cond(): Expect both branches to be callable")
    if not isinstance(operands, (tuple, list)) or not all(
        isinstance(leaf, TensorBase) for leaf in _leaves(operands)
    ):
        raise RuntimeError(
            "cond(): Expect operands to be a tuple of possibly nested dict/list/tuple that only consists of tensor "
            f"leaves, but got {operands!r}"
        )
    return (true_fn if pred else false_fn)(*operands)


def while_loop(
    cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried_inputs: tuple[Any, ...] | list[Any]
) -> Any:
    """Call a function on its own results as long as a condition of them holds.

    Parameters
    ----------
    cond_fn : callable
        Gives a bool, or a tensor with one element, which is read.
    body_fn : callable
        Gives as many values as it gets, tensors of the same shapes and dtypes.
    carried_inputs : tuple or list
        Tensors and ints to begin with.

    Returns
    -------
    tuple
        The last values; one alone if `body_fn` returns it alone.

    Raises
    ------
    RuntimeError
        If an argument or what a function gives is of another type, or the values of `body_fn` are others than before.
    AssertionError
        If something among `carried_inputs` is neither a tensor nor an int.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.while_loop(lambda k, x: k < 3, lambda k, x: (k + 1, 2 * x), (fg.tensor(0), fg.ones(2)))
    (tensor(3), tensor([8., 8.]))
    """
    if not callable(cond_fn) or not callable(body_fn):
        raise RuntimeError("while_loop(): Expect cond_fn and body_fn to be callable")
    if not isinstance(carried_inputs, (tuple, list)):
        raise RuntimeError(
            f"while_loop(): Expect carried_inputs to be a tuple or list, but got {type(carried_inputs).__name__}"
        )
    for leaf in _leaves(carried_inputs):
        if not isinstance(leaf, (TensorBase, int)):
            raise AssertionError(
                f"while_loop(): carried_inputs can only be tensors and ints, but got {type(leaf).__name__}"
            )
    values: Any = carried_inputs
    while _holds(cond_fn(*_spread(values))):
        following = body_fn(*_spread(values))
        _check_same(_spread(values), _spread(following))
        values = following
    return values


def _holds(found: Any) -> bool:
    if isinstance(found, TensorBase) and found.numel() == 1:
        return bool(found)
    if not isinstance(found, bool):
        raise RuntimeError(
            f"while_loop(): Expected cond_fn to return a bool or a tensor with one element, but got {found!r}"
        )
    return found


def _spread(values: Any) -> tuple[Any, ...]:
    """Several values, or one, as arguments."""
    return tuple(values) if isinstance(values, (tuple, list)) else (values,)


def _check_same(before: Sequence[Any], after: Sequence[Any]) -> None:
    """Raise RuntimeError unless a step gave values as it got."""
    old, new = list(_leaves(before)), list(_leaves(after))
    if len(old) != len(new):
        raise RuntimeError(
            f"while_loop(): Expected body_fn to give {len(old)} values, as many as it gets, but got {len(new)}"
        )
    for k, (a, b) in enumerate(zip(old, new, strict=True)):
        kinds = [
            (t.dtype, tuple(t.shape), t.device) if isinstance(t, TensorBase) else type(t) for t in (a, b)
        ]
        if kinds[0] != kinds[1]:
            raise RuntimeError(
                f"while_loop(): Expected value {k} of body_fn to stay {kinds[0]}, but it became {kinds[1]}"
            )


def _leaves(values: Any) -> Iterator[Any]:
    if isinstance(values, dict):
        values = list(values.values())
    if isinstance(values, (tuple, list)):
        for value in values:
            yield from _leaves(value)
    else:
        yield values


# --- arithmetic ------------------------------------------------------------------------------------------------


def sym_int(a: Any) -> int:
    """``int(a)``: towards zero."""
    return int(a)


def sym_float(a: Any) -> float:
    """``float(a)``."""
    return float(a)


def sym_not(a: Any) -> bool:
    """``not a``."""
    return not a


def sym_sqrt(a: Any) -> float:
    """``math.sqrt(a)``."""
    return math.sqrt(a)


def sym_max(a: Any, b: Any) -> Any:
    """The larger of two numbers, a float if one of them is one.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.sym_max(3, 2.0)
    3.0
    """
    return _chosen("sym_max", max, a, b)


def sym_min(a: Any, b: Any) -> Any:
    """The smaller of two numbers, a float if one of them is one."""
    return _chosen("sym_min", min, a, b)


def _chosen(name: str, choose: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
    for value in (a, b):
        if not isinstance(value, (int, float, np.integer, np.floating)):
            raise AssertionError(f"{name}(): expected numbers, but got {type(value).__name__}")
    found = choose(a, b)
    return float(found) if isinstance(a, float) or isinstance(b, float) else found


def sym_sum(*args: Any) -> Any:
    """The sum of numbers, or of those in one sequence.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.sym_sum([1, 2, 3]), fg.sym_sum(1, 2)
    (6, 3)
    """
    return sum(args[0] if len(args) == 1 and isinstance(args[0], (tuple, list)) else args)


def sym_ite(b: bool, t: Any, f: Any) -> Any:
    """``t if b else f``, of one type.

    Raises
    ------
    AssertionError
        If `b` is no bool, or the types differ.
    """
    if not isinstance(b, bool):
        raise AssertionError(f"sym_ite(): expected a bool, but got {type(b).__name__}")
    if type(t) is not type(f):
        raise AssertionError(f"sym_ite(): type mismatch: {type(t).__name__} and {type(f).__name__}")
    return t if b else f


def sym_fresh_size(expr: Any) -> int:
    """``int(expr)``."""
    return int(expr)
