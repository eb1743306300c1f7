"""Functions of modules that ask, where a program needs it: see Note [Overrides]; what programs ask about them."""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

from fastgrad import module_names
from fastgrad.functions.public import PACKAGE
from fastgrad.native.build.loader import Planned
from fastgrad.overrides.asking import INSTALLED, Overridable
from fastgrad.overrides.methods import ASKING, METHODS_OF_TENSOR, method_names
from fastgrad.tensor import Tensor
from fastgrad.tensor.subclasses import disabled_torch_function

_MODULES = ("nn.functional", "nn.init", "linalg", "fft", "special")
_IN_LAYERS = "fastgrad.nn.modules."  # which call functions that they have imported by name
_namespace: Callable[[ModuleType], dict[str, Any]] = vars(ModuleType)["__dict__"].__get__
"""What a module has by itself; ``vars`` of one that imports names when they are asked for may import them all."""


def public_functions() -> dict[Any, list[str]]:
    """The functions that can be overridden, by the modules that have them: names."""
    package = sys.modules["fastgrad"]
    found: dict[Any, list[str]] = {package: [name for name in PACKAGE if hasattr(package, name)]}
    for name in _MODULES:
        module = importlib.import_module(f"fastgrad.{name}")
        names = getattr(module, "__all__", None) or dir(module)
        found[module] = [n for n in names if n[0] != "_" and _is_function(module, getattr(module, n, None))]
    return found


def _is_function(module: ModuleType, obj: Any) -> bool:
    return isinstance(obj, (FunctionType, Planned, Overridable)) and (
        hasattr(module, "__all__") or str(getattr(obj, "__module__", "")).startswith("fastgrad.")
    )


@functools.cache
def install() -> None:
    """Let functions ask classes that do not inherit from `Tensor`.

    Such a class is unknown to the library until an object of it is an argument, and then it is too late to replace the
    function that was called: see Note [Overrides]. A subclass of `Tensor` and a mode do this by themselves.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.overrides.install()
    >>> class Scalar:
    ...     @classmethod
    ...     def __torch_function__(cls, func, types, args=(), kwargs=None):
    ...         return func.__name__
    >>> fg.mean(Scalar())
    'mean'
    """
    asking = INSTALLED
    for module, names in public_functions().items():
        for name in names:
            function = getattr(module, name)
            if not isinstance(function, Overridable) and id(function) not in asking:
                asking[id(function)] = Overridable(function)
    for name, module in list(sys.modules.items()):
        inside = name.partition(".")[0] == "fastgrad"
        known = _namespace(module) if isinstance(module, ModuleType) else None
        if known is None or (inside and not (name in _public_names() or name.startswith(_IN_LAYERS))):
            continue
        for key, value in list(known.items()):
            if type(value) in (FunctionType, Planned) and id(value) in asking:
                known[key] = asking[id(value)]
    METHODS_OF_TENSOR.keep()


def _public_names() -> tuple[str, ...]:
    return ("fastgrad", *(f"fastgrad.{name}" for name in _MODULES))


def prepare(kind: type) -> None:
    """Give a new subclass of `Tensor` methods that ask, unless it says that it is not to be asked."""
    if getattr(kind, "__torch_function__", None) is disabled_torch_function:
        return
    install()
    if Tensor in kind.__bases__:
        kind.__bases__ = tuple(ASKING if base is Tensor else base for base in kind.__bases__)


def get_overridable_functions() -> dict[Any, list[Any]]:
    """The functions that ask modes and classes.

    Returns
    -------
    dict
        Lists of functions by the modules, and the class `Tensor`, that have them.
    """
    found: dict[Any, list[Any]] = {
        module: [getattr(module, name) for name in names] for module, names in public_functions().items()
    }
    methods = [getattr(Tensor, name) for name in method_names()]
    found[Tensor] = [m if callable(m) else m.__get__ for m in methods]
    return found


def is_tensor_like(inp: Any) -> bool:
    """Whether an object is a tensor, or of a class with ``__torch_function__``.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.overrides.is_tensor_like(fg.ones(1)), fg.overrides.is_tensor_like(1.0)
    (True, False)
    """
    return type(inp) is Tensor or hasattr(inp, "__torch_function__")


def is_tensor_method_or_property(func: Callable[..., Any]) -> bool:
    """Whether a function that ``__torch_function__`` got is a method or a property of `Tensor`."""
    return str(resolve_name(func)).startswith("fastgrad.Tensor.")


def resolve_name(f: Any) -> str | None:
    """The full name of a function that ``__torch_function__`` got; None if it is none.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.overrides.resolve_name(fg.Tensor.add), fg.overrides.resolve_name(fg.nn.functional.relu)
    ('fastgrad.Tensor.add', 'fastgrad.nn.functional.relu')
    """
    name = _full_name(f)
    return None if name is None else f"{module_names.shown}.{name}"


def _full_name(f: Any) -> str | None:
    """The same within the package."""
    install()
    if type(f) is Overridable and f._method:
        return f"Tensor.{f._method}"
    for module, names in sorted(public_functions().items(), key=lambda pair: -len(pair[0].__name__)):
        for name in names:
            if getattr(module, name) is f:
                return f"{module.__name__}.{name}".partition(".")[2]
    for name in method_names():
        own = getattr(Tensor, name)
        methods = {"": own} if callable(own) else {".__get__": own.__get__, ".__set__": own.__set__}
        for more, method in methods.items():
            if method == f:
                return f"Tensor.{name}{more}"
    return _full_name(INSTALLED[id(f)]) if id(f) in INSTALLED else None  # one of before `install`
