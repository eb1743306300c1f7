"""Other names of arguments: those of NumPy, which PyTorch takes as well, and of sequences that may be spread."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Mapping
from inspect import CO_VARARGS
from typing import Any, NamedTuple, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])

OTHERS = {"axis": "dim", "keepdims": "keepdim", "split_size": "split_size_or_sections"}
"""What programs may call an argument, and what it is called here."""

_OF_LAYERS = "fastgrad.nn."  # PyTorch's functions of layers take no other names
SPREAD = frozenset(("dims", "repeats", "shape", "size"))
"""Integers that stand one by one behind the other arguments, or as one sequence: then also by name."""


MAKING = ("layout", "pin_memory")
_KNOWN = frozenset((*OTHERS.values(), *SPREAD, "device"))


class Names(NamedTuple):
    """What a function calls its arguments.

    Attributes
    ----------
    positional : tuple of str
    others : dict
        Names besides its own, by which programs may call arguments, and what they are called here.
    spread : str
        The sequence that may be spread, or nothing.
    makes : bool
        Whether it makes a tensor of a dtype on a device: then programs may also ask for a layout and for pinned memory.
    """

    positional: tuple[str, ...] = ()
    others: Mapping[str, str] = types.MappingProxyType({})
    spread: str = ""
    makes: bool = False


def names_of(function: Any) -> Names:
    """What a function calls its arguments, and what programs may."""
    code = _code_of(function)
    if code is None:
        return Names()
    named = code.co_argcount + code.co_kwonlyargcount
    own = code.co_varnames[:named]
    others = {other: name for other, name in OTHERS.items() if name in own and other not in own}
    last = code.co_varnames[named] if code.co_flags & CO_VARARGS else ""
    makes = {"dtype", "device"} <= set(own) and not {"layout", "pin_memory"} & set(own)
    return Names(code.co_varnames[: code.co_argcount], others, last if last in SPREAD else "", makes)


def _code_of(function: Any) -> types.CodeType | None:
    """The code of a function, None if it has no argument with other names."""
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    code = getattr(function, "__code__", None)
    if code is None or _KNOWN.isdisjoint(code.co_varnames) or function.__module__.startswith(_OF_LAYERS):
        return None
    return code  # type: ignore[no-any-return]


def _need_strided(name: str, layout: Any) -> None:
    from fastgrad.functions.memory_format import strided  # which has functions with names of their own

    if layout is not None and layout is not strided:
        raise TypeError(f"{name}(): argument 'layout' must be {strided}, but got {layout!r}")


def taking_names(function: Function) -> Function | None:
    """What calls a function with the names that it has itself; None if it has no argument with others."""
    if _code_of(function) is None:
        return None
    names: list[Names] = []

    def call(*arguments: Any, **given: Any) -> Any:
        if not given:
            return function(*arguments)
        if not names:
            names.append(names_of(function))
        positional, others, spread, makes = names[0]
        for other in others.keys() & given.keys():
            if others[other] in given:
                raise TypeError(f"{function.__name__}() got multiple values for argument '{others[other]}'")
            given[others[other]] = given.pop(other)
        if makes and not given.keys().isdisjoint(MAKING):
            _need_strided(function.__name__, given.pop("layout", None))
            if given.pop("pin_memory", False):
                return call(*arguments, **given).pin_memory()
        if spread and spread in given:
            if len(arguments) > len(positional):
                raise TypeError(f"{function.__name__}() got multiple values for argument '{spread}'")
            before = [given.pop(name) for name in positional[len(arguments) :] if name in given]
            return function(*arguments, *before, given.pop(spread), **given)
        return function(*arguments, **given)

    call.__name__, call.__qualname__ = function.__name__, function.__qualname__  # for profiles
    return call  # type: ignore[return-value]


def also_by_name(function: Function) -> Function:
    """Let a function take its arguments by all names that PyTorch takes.

    The function itself is given back if there are no others.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.ones(size=(2, 3)).permute(dims=(1, 0)).sum(axis=1, keepdims=True).shape
    fastgrad.Size([3, 1])
    """
    call = taking_names(function)
    return function if call is None else functools.update_wrapper(call, function)  # type: ignore[return-value]


BETWEEN: set[types.CodeType] = set()
"""The code of what stands between a program and a function: warnings are given as if it were not there."""


def between(maker: Function) -> Function:
    """Note that what a function makes stands between programs and functions."""
    BETWEEN.update(code for code in maker.__code__.co_consts if isinstance(code, types.CodeType))
    return maker


between(taking_names)
