"""What functions ask before they run, and whom."""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from types import MethodType
from typing import Any

from fastgrad.functions.argument_names import BETWEEN
from fastgrad.module_names import is_own, is_torch
from fastgrad.nn.parameter import Parameter
from fastgrad.tensor import Size, Tensor
from fastgrad.tensor.subclasses import disabled_torch_function

_PLAIN = frozenset(
    (Tensor, Parameter, Size, int, float, bool, complex, str, bytes, type(None), slice, range, dict)
)
SEQUENCES = (tuple, list)
_OF_DATA = ("tensor", "as_tensor", "asarray")  # whose lists are long, and hold numbers


class State(threading.local):
    """What is on in a thread."""

    def __init__(self) -> None:
        self.modes: list[Any] = []
        self.without_classes = 0
        self.without_modes = 0


class Everywhere:
    """Whether a mode is on in any thread.

    Attributes
    ----------
    users : int
        How many are.
    """

    users = 0


state, everywhere = State(), Everywhere()


def overloaded(arguments: Iterable[Any], sequences: tuple[type, ...] = SEQUENCES) -> list[Any]:
    """Those of arguments whose classes want to be asked, in the order in which they are: subclasses first.

    Arguments of the classes `sequences` are looked into.
    """
    found: list[Any] = []
    if state.without_classes:
        return found
    for a in arguments:
        kind = type(a)
        if kind in _PLAIN:
            continue
        for item in a if kind in sequences else (a,):
            kind = type(item)
            if kind not in _PLAIN and all(kind is not type(f) for f in found):
                ask = getattr(kind, "__torch_function__", None)
                if ask is not None and ask is not disabled_torch_function and not is_pytorchs(ask):
                    before = (k for k, f in enumerate(found) if issubclass(kind, type(f)))
                    found.insert(next(before, len(found)), item)
    return found


def is_pytorchs(function: Any) -> bool:
    """Whether a function is PyTorch's own: what is asked does not know ours, what is called takes no tensors of ours.

    Either would come back to ask, without end. Under the alias `fastgrad.as_torch`, nothing is.
    """
    owner = getattr(function, "__objclass__", function)  # methods that are compiled code name no module
    module = str(getattr(owner, "__module__", ""))
    return is_torch(module) and not is_own(module)


def modes_on() -> list[Any]:
    """The modes of this thread that are on, the innermost last."""
    return [] if state.without_modes else state.modes


def ask(func: Any, found: Sequence[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What the innermost mode, or the first class that answers, makes of a call."""
    types = tuple(type(f) for f in found)
    modes = modes_on()
    if modes:
        mode = modes.pop()
        try:
            result = mode.__torch_function__(func, types, args, kwargs)
        finally:
            modes.append(mode)
        if result is not NotImplemented:
            return result
    for f in found:
        result = f.__torch_function__(func, types, args, kwargs)
        if result is not NotImplemented:
            return result
    from fastgrad.overrides.functions import resolve_name  # which knows the functions that ask

    mode_text = f" nor in mode {modes[-1]!r}" if modes else ""
    raise TypeError(
        f"no implementation found for '{resolve_name(func) or func}' on types that implement __torch_function__: "
        f"{list(types)}{mode_text}; the last of them returned NotImplemented"
    )


INSTALLED: dict[int, Any] = {}
"""What stands in the place of functions, by their ids."""


def _installed(function: Any) -> Any:
    """What a pickle of a function that asks is read as."""
    return INSTALLED.get(id(function), function)


class Overridable:
    """A public function that asks modes and the classes of its arguments before it runs.

    It is equal to that function, and hashes like it.
    """

    __name__: str

    def __init__(self, function: Any, name: str = "") -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self._sequences = () if function.__name__ in _OF_DATA else SEQUENCES
        self._method = name  # of `Tensor` that is overridden; nothing for functions of modules

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Ask, then call."""
        if not kwargs and not everywhere.users:
            for a in args:
                if type(a) not in _PLAIN:
                    break
            else:  # most calls
                return self.function(*args)
        found = overloaded((*args, *kwargs.values()) if kwargs else args, self._sequences)
        if not found and not modes_on():
            return self.function(*args, **kwargs)
        return ask(getattr(Tensor, self._method) if self._method else self, found, args, kwargs)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __eq__(self, other: object) -> bool:
        return bool(self.function == (other.function if type(other) is Overridable else other))

    def __hash__(self) -> int:
        return hash(self.function)

    def __repr__(self) -> str:
        return repr(self.function)

    def __reduce__(self) -> Any:
        home = sys.modules.get(self.__module__)
        if getattr(home, self.__name__, None) is self:  # the name of the function itself means this
            return self.__name__
        return _installed, (self.function,)

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return self


def original(function: Any) -> Any:
    """A function itself, where one that asks has its place."""
    return function.function if type(function) is Overridable else function


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Whether a mode is on, or one of arguments is of a class that wants to be asked.

    Parameters
    ----------
    relevant_args : iterable

    Examples
    --------
    >>> import fastgrad as fg
    >>> class Marked(fg.Tensor):
    ...     pass
    >>> fg.overrides.has_torch_function((fg.ones(1),)), fg.overrides.has_torch_function((Marked([1.0]),))
    (False, True)
    """
    return bool(modes_on()) or bool(overloaded(relevant_args))


def has_torch_function_unary(obj: Any) -> bool:
    """`has_torch_function` of one argument."""
    return has_torch_function((obj,))


def has_torch_function_variadic(*args: Any) -> bool:
    """`has_torch_function` of arguments that are given one by one."""
    return has_torch_function(args)


def handle_torch_function(public_api: Any, relevant_args: Iterable[Any], *args: Any, **kwargs: Any) -> Any:
    """Ask modes and classes what a call comes to.

    Parameters
    ----------
    public_api : callable
        The function that was called.
    relevant_args : iterable
        The arguments whose classes are asked.
    *args, **kwargs
        All arguments.

    Raises
    ------
    TypeError
        If nobody answers.
    """
    return ask(public_api, overloaded(relevant_args), args, kwargs)


def wrap_torch_function(dispatcher: Callable[..., Iterable[Any]]) -> Callable[[Any], Any]:
    """Let a function of a program ask modes and classes as those of the library do.

    Parameters
    ----------
    dispatcher : callable
        Gives, from the arguments of a call, those whose classes are asked.

    Examples
    --------
    >>> import fastgrad as fg
    >>> @fg.overrides.wrap_torch_function(lambda a: (a,))
    ... def twice(a):
    ...     return a + a
    >>> twice(fg.ones(1))
    tensor([2.])
    """

    def wrap(function: Any) -> Any:
        @functools.wraps(function)
        def asking(*args: Any, **kwargs: Any) -> Any:
            relevant = dispatcher(*args, **kwargs)
            if has_torch_function(relevant):
                return handle_torch_function(asking, relevant, *args, **kwargs)
            return function(*args, **kwargs)

        return asking

    return wrap


BETWEEN.add(Overridable.__call__.__code__)
