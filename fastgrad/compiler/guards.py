"""What a function may see besides its arguments, and whether that is as it was.

Note [Guards]: a recorded call may be replayed while nothing has changed that the function could have decided by. What a
function can reach is walked from its closure, its defaults and the globals that it names, through functions, methods,
modules, optimizers, objects with attributes and containers. Of a number or a text, the value must be the same; of
anything else, that it is the same object, and what it holds in turn. Tensors are collected; what they are, the runtime
compares (`native.python.tape_calls`). What a walk cannot look into and what may nevertheless change, such as an array of
NumPy's or an iterator, is *opaque*: a function that reaches it is not replayed.

The library's own functions, those of the standard library and of installed packages are taken for constant. So is what
only an extension module knows.
"""

from __future__ import annotations

import array
import collections
import random
import sys
import sysconfig
import types
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from fastgrad.native.build.loader import TensorBase

SCALARS = (int, float, complex, bool, str, bytes, type(None), type(Ellipsis), range, slice)
_OPAQUE = (
    np.ndarray, np.random.Generator, np.random.RandomState, random.Random, bytearray, memoryview, array.array,
    types.GeneratorType, collections.deque,
)  # fmt: skip
_UNSTEADY = ("random", "time", "datetime", "secrets", "uuid")
_PACKAGE = __name__.partition(".")[0]
_LIBRARY_FOLDERS = tuple({path for name in ("stdlib", "platstdlib", "purelib", "platlib") if (path := sysconfig.get_paths().get(name))})
MOST_CHECKS = 100_000
CHECKS_OF_A_FUNCTION = 400
"""Of so many comparisons is one function made: the compiler of Python takes long for more."""


class Check(NamedTuple):
    """A comparison: the Python expression of what is compared, by the names of what is bound, and what it has to be."""

    path: str
    expression: str
    names: tuple[tuple[str, Any], ...]
    expected: Any
    by_value: bool


def same(a: Any, b: Any) -> bool:
    """Whether two numbers or texts are the same: in type and value, NaN like NaN."""
    if type(a) is not type(b):
        return False
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float) and a == b == 0:
        return str(a) == str(b)
    return bool(a == b) or (a != a and b != b)


def is_constant_module(module: Any) -> bool:
    """Whether a module belongs to the library, the standard library or an installed package."""
    name = getattr(module, "__name__", "")
    if name.partition(".")[0] in (_PACKAGE, "builtins", *sys.stdlib_module_names):
        return True
    file = getattr(module, "__file__", None)
    return file is None or file.startswith(_LIBRARY_FOLDERS)


def _is_constant_function(function: Any) -> bool:
    module = sys.modules.get(getattr(function, "__module__", None) or "")
    if module is None or module is sys.modules.get("__main__"):
        return False
    return is_constant_module(module)


def _names_in(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names_in(constant)


class Walk:
    """What is reached from some objects.

    Attributes
    ----------
    checks : list of Check
    tensors : list of Tensor
    opaque : list of str
        What cannot be looked into, by its path.
    """

    def __init__(self) -> None:
        self.checks: list[Check] = []
        self.tensors: list[Any] = []
        self.opaque: list[str] = []
        self._seen: dict[int, Any] = {}
        self._todo: list[tuple[Any, str]] = []

    def begin(self, value: Any, path: str) -> None:
        """Walk from an object."""
        self._todo.append((value, path))
        while self._todo:
            self._visit(*self._todo.pop())
            if len(self.checks) > MOST_CHECKS:
                self.opaque.append(f"more than {MOST_CHECKS} attributes and items")
                self._todo.clear()

    def _compare(self, path: str, expression: str, value: Any, **names: Any) -> None:
        by_value = isinstance(value, SCALARS) or (type(value) is tuple and _all_scalars(value))
        self.checks.append(Check(path, expression, tuple(names.items()), value, by_value))
        if not by_value:
            self._todo.append((value, path))

    def _visit(self, value: Any, path: str) -> None:
        if id(value) in self._seen or isinstance(value, SCALARS):
            return
        self._seen[id(value)] = value
        if isinstance(value, TensorBase):
            self.tensors.append(value)
            self._instance(value, path)
        elif isinstance(value, types.FunctionType):
            self._function(value, path)
        elif isinstance(value, types.MethodType):
            self._todo += [(value.__self__, f"{path}.__self__"), (value.__func__, path)]
        elif isinstance(value, (staticmethod, classmethod)):
            self._todo.append((value.__func__, path))
        elif isinstance(value, property):
            self._todo += [(f, path) for f in (value.fget, value.fset) if f is not None]
        elif isinstance(value, type):
            self._class(value, path)
        elif isinstance(value, dict):
            self._dict(value, path)
            self._instance(value, path)
        elif isinstance(value, (list, tuple)):
            self._sequence(value, path)
        elif isinstance(value, (set, frozenset)):
            self._set(value, path)
        elif isinstance(value, _OPAQUE) or (hasattr(value, "__next__") and not hasattr(value, "__dict__")):
            self.opaque.append(f"{path} ({type(value).__name__})")
        elif not isinstance(value, types.ModuleType):
            self._instance(value, path)

    def _function(self, function: Any, path: str) -> None:
        if _is_constant_function(function):
            return
        wrapped = vars(function)
        if wrapped:
            self._dict(wrapped, path)
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            try:
                value = cell.cell_contents
            except ValueError:  # not set yet
                self.opaque.append(f"{name} (a variable of {path} that is not set)")
                continue
            self._compare(f"{name} of {path}", "cell.cell_contents", value, cell=cell)
        self._compare(f"{path}.__code__", "function.__code__", function.__code__, function=function)
        self._compare(f"{path}.__defaults__", "function.__defaults__", function.__defaults__, function=function)
        self._compare(
            f"{path}.__kwdefaults__", "function.__kwdefaults__", function.__kwdefaults__, function=function
        )
        self._globals(function, path)

    def _globals(self, function: Any, path: str) -> None:
        names = list(dict.fromkeys(_names_in(function.__code__)))
        own = function.__globals__
        for name in names:
            if name not in own:
                continue
            value = own[name]
            if isinstance(value, types.ModuleType):
                self._module(value, name, names, path)
            self._compare(f"{name} in {path}", f"globals[{name!r}]", value, globals=own)

    def _module(self, module: types.ModuleType, name: str, names: list[str], path: str) -> None:
        if module.__name__ in _UNSTEADY or (module is np and "random" in names) or module is np.random:
            self.opaque.append(f"{name} in {path}, which gives other values at each call")
        if is_constant_module(module):
            return
        own = vars(module)
        for attribute in names:
            if attribute in own:
                self._compare(f"{name}.{attribute}", f"own[{attribute!r}]", own[attribute], own=own)

    def _class(self, kind: type, path: str) -> None:
        for base in kind.__mro__:
            module = sys.modules.get(base.__module__)
            if module is not None and module is not sys.modules.get("__main__") and is_constant_module(module):
                continue
            own = vars(base)
            for name, value in own.items():
                if name in ("__dict__", "__weakref__", "__doc__", "__module__", "__annotations__"):
                    continue
                self._compare(f"{base.__name__}.{name}", f"own[{name!r}]", value, own=own)

    def _dict(self, value: dict[Any, Any], path: str) -> None:
        self.checks.append(Check(f"len({path})", "len(d)", (("d", value),), len(value), by_value=True))
        self.checks.append(Check(f"the keys of {path}", "tuple(d)", (("d", value),), tuple(value), by_value=True))
        for key, item in list(value.items()):
            if isinstance(key, TensorBase):
                self.tensors.append(key)
            self._compare(f"{path}[{key!r}]" if isinstance(key, SCALARS) else f"{path}[...]", "d[key]", item, d=value, key=key)

    def _sequence(self, value: Any, path: str) -> None:
        if isinstance(value, list):
            self.checks.append(Check(f"len({path})", "len(x)", (("x", value),), len(value), by_value=True))
        for k, item in enumerate(value):
            self._compare(f"{path}[{k}]", f"x[{k}]", item, x=value)
        self._instance(value, path)

    def _set(self, value: Any, path: str) -> None:
        for item in value:
            if not isinstance(item, SCALARS):
                self._todo.append((item, f"an element of {path}"))
        self.checks.append(Check(f"the elements of {path}", "frozenset(x)", (("x", value),), frozenset(value), by_value=True))

    def _instance(self, value: Any, path: str) -> None:
        own = getattr(value, "__dict__", None)
        if isinstance(own, dict) and own:
            for name, item in list(own.items()):
                self._compare(f"{path}.{name}", f"own[{name!r}]", item, own=own)
            self.checks.append(Check(f"attributes of {path}", "len(own)", (("own", own),), len(own), by_value=True))
        for base in type(value).__mro__:
            for name in _slots(base):
                if hasattr(value, name):
                    self._compare(f"{path}.{name}", f"x.{name}", getattr(value, name), x=value)
        self._todo.append((type(value), type(value).__name__))


def _slots(base: type) -> tuple[str, ...]:
    module = sys.modules.get(base.__module__)
    if module is not None and module is not sys.modules.get("__main__") and is_constant_module(module):
        return ()
    names = vars(base).get("__slots__", ())
    names = (names,) if isinstance(names, str) else tuple(names)
    return tuple(name for name in names if name not in ("__dict__", "__weakref__"))


def _all_scalars(value: tuple[Any, ...]) -> bool:
    return all(isinstance(v, SCALARS) or (type(v) is tuple and _all_scalars(v)) for v in value)


class Guards:
    """The comparisons of a walk as compiled functions."""

    def __init__(self, walk: Walk) -> None:
        self.checks = walk.checks
        self._functions = [
            _compiled(self.checks[k : k + CHECKS_OF_A_FUNCTION])
            for k in range(0, len(self.checks), CHECKS_OF_A_FUNCTION)
        ]

    def hold(self) -> bool:
        """Whether all that was compared is as it was."""
        for function in self._functions:
            if not function():
                return False
        return True

    def first_change(self) -> str:
        """What is not as it was, for people; empty if all is."""
        for check in self.checks:
            try:
                value = eval(check.expression, {}, dict(check.names))  # noqa: S307 - the text is ours
            except Exception:  # noqa: BLE001 - whatever was deleted
                return f"{check.path} is gone"
            if value is check.expected:
                continue
            if not check.by_value:
                return f"{check.path} is another object"
            if not same(value, check.expected):
                return f"{check.path} was {check.expected!r} and is {value!r}"
        return ""


def _compiled(checks: list[Check]) -> Callable[[], bool]:
    scope: dict[str, Any] = {"same": same}
    names: dict[int, str] = {}

    def name_of(value: Any) -> str:
        name = names.get(id(value))
        if name is None:
            name = names[id(value)] = f"v{len(names)}"
            scope[name] = value
        return name

    lines = []
    for check in checks:
        expression = check.expression
        bound = {name: name_of(value) for name, value in check.names}
        expression = _renamed(expression, bound)
        expected = name_of(check.expected)
        text = f"{expression} is {expected}"
        if check.by_value:
            text = f"({text} or same({expression}, {expected}))"
        lines.append(text)
    body = "\n            and ".join(lines) or "True"
    source = f"def hold():\n    try:\n        return ({body})\n    except Exception:\n        return False\n"
    exec(source, scope)  # noqa: S102 - the text is ours
    return scope["hold"]  # type: ignore[no-any-return]


def _renamed(expression: str, names: dict[str, str]) -> str:
    """An expression of one of the few forms above with other names for what is bound."""
    head, bracket, rest = expression.partition("[")
    if bracket and head in names:
        inner = rest[:-1]
        return f"{names[head]}[{names.get(inner, inner)}]"
    if "(" in expression:
        called, _, rest = expression.partition("(")
        return f"{called}({names[rest[:-1]]})"
    head, dot, rest = expression.partition(".")
    return f"{names[head]}{dot}{rest}"
