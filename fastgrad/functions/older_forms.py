"""Calls as programs of old versions of PyTorch write them: numbers before tensors, ``p.addcdiv_(-lr, m, v)``."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from fastgrad.functions.argument_names import between
from fastgrad.functions.arguments import is_plain_number, is_tensor
from fastgrad.functions.plans import warn


@between
def numbers_first(count: int, *names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Let a function of tensors take numbers before the last of them, as well as by their names.

    Parameters
    ----------
    count : int
        How many tensors it takes.
    *names : str
        The names of the numbers; the last ones may be left out. `beta` may stand before all tensors.

    Examples
    --------
    >>> import warnings
    >>> import fastgrad as fg
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     fg.ones(1).add_(3, fg.ones(1))
    tensor([4.])
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if len(args) <= count:
                return function(*args, **kwargs)
            numbers, tensors = [x for x in args if is_plain_number(x)], [x for x in args if is_tensor(x)]
            last = args[1 - count :]
            known = len(tensors) == count and len(args) <= count + len(names) and all(map(is_tensor, last))
            known = known and (is_tensor(args[0]) or "beta" in names)
            if not known or len(tensors) + len(numbers) != len(args) or kwargs:
                return function(*args, **kwargs)  # which says what is wrong
            warn(
                f"This overload of {function.__name__} is deprecated: pass {', '.join(names[: len(numbers)])} by name, "
                "behind the tensors.",
                stacklevel=2,
            )
            return function(*tensors, **dict(zip(names, numbers, strict=False)))

        return call

    return decorate
