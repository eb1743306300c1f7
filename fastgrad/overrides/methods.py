"""The methods that ask: those of subclasses, and of `Tensor` while a mode is on."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Iterable, Iterator
from typing import Any

from fastgrad.overrides.asking import (
    SEQUENCES,
    Overridable,
    ask,
    everywhere,
    is_pytorchs,
    modes_on,
    overloaded,
)
from fastgrad.overrides.modes import DisableTorchFunctionSubclass
from fastgrad.tensor import Size, Tensor

_lock = threading.RLock()
_OF_OPERATORS = {
    "add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "floordiv": "floor_divide", "mod": "remainder",
    "pow": "pow", "matmul": "matmul",
}  # fmt: skip
_CALLED = {
    **{f"__{op}__": name for op, name in _OF_OPERATORS.items()},
    **{f"__i{op}__": f"{name}_" for op, name in _OF_OPERATORS.items() if op != "matmul"},
    "__radd__": "add", "__rmul__": "mul", "__ne__": "ne", "__lt__": "lt", "__le__": "le", "__gt__": "gt",
    "__ge__": "ge", "__neg__": "neg", "__pos__": "positive", "__abs__": "abs",
}  # fmt: skip
"""Which methods PyTorch names where operators are used; others have their own names."""

_SPECIAL = (
    *_CALLED, "__eq__", "__rsub__", "__rtruediv__", "__rfloordiv__", "__rmod__", "__rpow__", "__rmatmul__", "__and__",
    "__or__", "__xor__", "__lshift__", "__rshift__", "__rand__", "__ror__", "__rxor__", "__rlshift__", "__rrshift__",
    "__iand__", "__ior__", "__ixor__", "__ilshift__", "__irshift__", "__invert__", "__getitem__", "__setitem__",
    "__len__", "__contains__", "__bool__", "__int__", "__float__", "__complex__", "__index__", "__repr__", "__format__",
    "__deepcopy__", "__reduce_ex__", "__array__",
)  # fmt: skip
_NEVER = frozenset(("as_subclass",))


def method_names() -> Iterator[str]:
    """The methods and properties of `Tensor` that can be overridden."""
    for name in dir(Tensor):
        if ((name[0] != "_" and name not in _NEVER) or name in _SPECIAL) and hasattr(static(name), "__get__"):
            yield name


def static(name: str) -> Any:
    """What stands in a class of `Tensor` under a name."""
    for kind in Tensor.__mro__:
        if name in kind.__dict__:
            return kind.__dict__[name]
    raise AttributeError(name)


def _asking(name: str) -> Any:
    """What stands for a method or a property of `Tensor` where it is overridden."""
    own = static(name)
    if isinstance(own, (staticmethod, classmethod, type)):
        return own
    if callable(own):
        called = _CALLED.get(name, name)
        return Overridable(own, called if hasattr(Tensor, called) else name)

    def get(self: Any) -> Any:
        found = overloaded((self,))
        if not found and not modes_on():
            return own.__get__(self)
        return ask(getattr(Tensor, name).__get__, found, (self,), {})

    def put(self: Any, value: Any) -> None:
        found = overloaded((self, value))
        if not found and not modes_on():
            own.__set__(self, value)
        else:
            ask(getattr(Tensor, name).__set__, found, (self, value), {})

    def remove(self: Any) -> None:
        own.__delete__(self)

    return property(get, put, remove, own.__doc__)


def _rows(self: Any) -> Any:
    if not Tensor.dim(self):
        return Tensor.__iter__(self)  # which says what is wrong
    return iter(self.unbind(0))


_TENSORS = frozenset(
    """
    other others tensor tensors tensor1 tensor2 mask index indices source src exponent mat1 mat2 mat vec vec1 vec2
    batch1 batch2 end weight min max value values test_elements boundaries input2 v2 A x q repeats
    """.split()  # noqa: SIM905 - a list of words
)
"""What arguments are called that may be other tensors."""


def _arguments(method: Any) -> Iterable[str]:
    try:
        return list(inspect.signature(method).parameters)[1:]
    except ValueError:  # of compiled code
        return ()


class Methods:
    """The methods that ask, and whether `Tensor` has them: while a mode is on in any thread.

    What a program has put into `Tensor` stays there.
    """

    def __init__(self) -> None:
        self.asking = {name: _asking(name) for name in method_names()}
        self.own = {name: Tensor.__dict__.get(name) for name in self.asking}
        self.given: list[str] = []

    def keep(self) -> None:
        """Leave those to `Tensor` that take other tensors."""
        with _lock:
            for name, method in self.asking.items():
                if (
                    isinstance(method, Overridable)
                    and name[0] != "_"
                    and not _TENSORS.isdisjoint(_arguments(method))
                    and self._give(name)
                ):
                    self.own[name] = method

    def _give(self, name: str) -> bool:
        """Give one to `Tensor`, unless a program has changed it."""
        if Tensor.__dict__.get(name) is not self.own[name]:
            return False
        setattr(Tensor, name, self.asking[name])
        return True

    def take(self) -> None:
        """Give them to `Tensor`."""
        with _lock:
            everywhere.users += 1
            if everywhere.users == 1:
                self.given = [name for name in self.asking if self._give(name)]

    def leave(self) -> None:
        """Take them away, if nobody else needs them."""
        with _lock:
            everywhere.users -= 1
            if everywhere.users:
                return
            for name in self.given:
                if Tensor.__dict__.get(name) is not self.asking[name]:
                    continue
                if self.own[name] is None:
                    delattr(Tensor, name)
                else:
                    setattr(Tensor, name, self.own[name])


METHODS_OF_TENSOR = Methods()
ASKING: Any = type(
    "Tensor",
    (Tensor,),
    {"__slots__": (), "__module__": __name__, "__hash__": Tensor.__hash__, "__iter__": _rows}
    | METHODS_OF_TENSOR.asking,
)


def converted(result: Any, kind: type) -> Any:
    """The result of a call, with tensors as those of a subclass."""
    if isinstance(result, Tensor):
        return result if isinstance(result, kind) else result.as_subclass(kind)
    if isinstance(result, SEQUENCES) and type(result) is not Size:
        items = [converted(item, kind) for item in result]
        return result._make(items) if hasattr(result, "_make") else type(result)(items)
    return result


def by_default(
    kind: type, func: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None
) -> Any:
    """What `Tensor.__torch_function__` does: the call, with results of the subclass."""
    if not all(issubclass(kind, t) for t in types) or is_pytorchs(func):
        return NotImplemented
    with DisableTorchFunctionSubclass():
        result = func(*args, **(kwargs or {}))
        if getattr(func, "__name__", "") == "__get__" and func in get_default_nowrap_functions():
            return result
        return converted(result, kind)


def get_default_nowrap_functions() -> set[Any]:
    """The functions whose results `Tensor.__torch_function__` does not make tensors of the subclass."""
    return {getattr(Tensor, name).__get__ for name in ("grad", "_base", "_grad") if hasattr(Tensor, name)}
