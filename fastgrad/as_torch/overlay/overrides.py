"""The protocol ``__torch_function__`` as programs use it in functions of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import fastgrad as fg

__all__ = [
    "handle_torch_function",
    "has_torch_function",
    "has_torch_function_unary",
    "has_torch_function_variadic",
    "is_tensor_like",
    "is_tensor_method_or_property",
]

_METHOD = "__torch_function__"


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Whether one of the arguments is of a class with a ``__torch_function__`` of its own."""
    return any(_own(type(argument)) is not None for argument in relevant_args)


def has_torch_function_unary(argument: Any) -> bool:
    """The same of one argument."""
    return _own(type(argument)) is not None


def has_torch_function_variadic(*arguments: Any) -> bool:
    """The same of arguments that are not in a tuple."""
    return has_torch_function(arguments)


def handle_torch_function(
    public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: Any, **kwargs: Any
) -> Any:
    """What the ``__torch_function__`` of one of the arguments makes of a call: subclasses first, then from the left.

    Raises
    ------
    TypeError
        If all of them give NotImplemented.
    """
    asked: list[Any] = []
    for argument in relevant_args:
        kind = type(argument)
        if _own(kind) is None or any(type(other) is kind for other in asked):
            continue
        before = (i for i, other in enumerate(asked) if issubclass(kind, type(other)))
        asked.insert(next(before, len(asked)), argument)
    types = tuple(map(type, asked))
    for argument in asked:
        result = getattr(argument, _METHOD)(public_api, types, args, kwargs)
        if result is not NotImplemented:
            return result
    name = f"{public_api.__module__}.{public_api.__name__}"
    raise TypeError(f"no implementation found for {name!r} on types that implement {_METHOD}: {list(types)}")


def is_tensor_like(inp: Any) -> bool:
    """Whether an object is a tensor, or its class has a ``__torch_function__``."""
    return isinstance(inp, fg.Tensor) or hasattr(type(inp), _METHOD)


def is_tensor_method_or_property(func: Callable[..., Any]) -> bool:
    """Whether a function is one that tensors have as a method, or gets a property of theirs."""
    return any(getattr(fg.Tensor, name, None) is func for name in dir(fg.Tensor)) or (
        getattr(func, "__name__", None) == "__get__"
    )


def _own(kind: type) -> Any:
    """The ``__torch_function__`` of a class, if it is another one than that of tensors."""
    found = getattr(kind, _METHOD, None)
    return None if found is getattr(fg.Tensor, _METHOD, None) else found
