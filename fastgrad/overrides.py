"""Classes and modes that functions of the library ask before they run: ``__torch_function__``.

Note [Overrides]: plain tensors pay nothing for this, because nothing looks at operands until a program needs it.

- A subclass of `Tensor` gets methods that ask: `prepare` puts `_ASKING`, a class of these alone, between it and
  `Tensor`.
- Functions of modules, such as ``fastgrad.add``, are replaced by `Overridable` objects when the first such class is
  made, the first mode is entered or a program calls `install`: in their modules and wherever a program has imported
  them to. From then on a call with plain tensors costs a look at the types of its arguments.
  So do methods of `Tensor` that take other tensors, such as ``mul``: these may be of such a class.
- While a mode is on, in any thread, `Tensor` itself has all the methods that ask, and operators.

An `Overridable` is equal to the function that it stands for, so that tables of functions work that were made before.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import FunctionType, MethodType, ModuleType
from typing import Any

from fastgrad.functions.argument_names import BETWEEN
from fastgrad.functions.public import PACKAGE
from fastgrad.module_names import getattr_of as _getattr_of
from fastgrad.native.build.loader import Planned
from fastgrad.nn.parameter import Parameter
from fastgrad.tensor import Size, Tensor
from fastgrad.tensor.subclasses import disabled_torch_function

__all__ = [
    "BaseTorchFunctionMode",
    "DisableTorchFunction",
    "DisableTorchFunctionSubclass",
    "TorchFunctionMode",
    "get_default_nowrap_functions",
    "get_overridable_functions",
    "handle_torch_function",
    "has_torch_function",
    "has_torch_function_unary",
    "has_torch_function_variadic",
    "install",
    "is_tensor_like",
    "is_tensor_method_or_property",
    "resolve_name",
    "wrap_torch_function",
]

_MODULES = ("nn.functional", "nn.init", "linalg", "fft", "special")
_IN_LAYERS = "fastgrad.nn.modules."  # which call functions that they have imported by name
_PLAIN = frozenset(
    (Tensor, Parameter, Size, int, float, bool, complex, str, bytes, type(None), slice, range, dict)
)
_SEQUENCES = (tuple, list)
_OF_DATA = ("tensor", "as_tensor", "asarray")  # whose lists are long, and hold numbers


class _State(threading.local):
    """What is on in a thread."""

    def __init__(self) -> None:
        self.modes: list[Any] = []
        self.without_classes = 0
        self.without_modes = 0


_state = _State()
_lock = threading.RLock()


# --- asking ----------------------------------------------------------------------------------------------------


def _overloaded(arguments: Iterable[Any], sequences: tuple[type, ...] = _SEQUENCES) -> list[Any]:
    """Those of arguments whose classes want to be asked, in the order in which they are: subclasses first.

    Arguments of the classes `sequences` are looked into.
    """
    found: list[Any] = []
    if _state.without_classes:
        return found
    for a in arguments:
        kind = type(a)
        if kind in _PLAIN:
            continue
        for item in a if kind in sequences else (a,):
            kind = type(item)
            if kind not in _PLAIN and all(kind is not type(f) for f in found):
                ask = getattr(kind, "__torch_function__", None)
                if ask is not None and ask is not disabled_torch_function:
                    before = (k for k, f in enumerate(found) if issubclass(kind, type(f)))
                    found.insert(next(before, len(found)), item)
    return found


def _modes() -> list[Any]:
    return [] if _state.without_modes else _state.modes


def _ask(func: Any, found: Sequence[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What the innermost mode, or the first class that answers, makes of a call."""
    types = tuple(type(f) for f in found)
    modes = _modes()
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
    mode_text = f" nor in mode {modes[-1]!r}" if modes else ""
    raise TypeError(
        f"no implementation found for '{resolve_name(func) or func}' on types that implement __torch_function__: "
        f"{list(types)}{mode_text}; the last of them returned NotImplemented"
    )


def _itself(function: Any) -> Any:
    return function


class Overridable:
    """A public function that asks modes and the classes of its arguments before it runs.

    It is equal to that function, and hashes like it.
    """

    __qualname__: str

    def __init__(self, function: Any, name: str = "") -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self._sequences = () if function.__name__ in _OF_DATA else _SEQUENCES
        self._method = name  # of `Tensor` that is overridden; nothing for functions of modules

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Ask, then call."""
        if not kwargs and not _METHODS_OF_TENSOR.users:
            for a in args:
                if type(a) not in _PLAIN:
                    break
            else:  # most calls
                return self.function(*args)
        found = _overloaded((*args, *kwargs.values()) if kwargs else args, self._sequences)
        if not found and not _modes():
            return self.function(*args, **kwargs)
        return _ask(getattr(Tensor, self._method) if self._method else self, found, args, kwargs)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __eq__(self, other: object) -> bool:
        return bool(self.function == (other.function if type(other) is Overridable else other))

    def __hash__(self) -> int:
        return hash(self.function)

    def __repr__(self) -> str:
        return f"<function {self.__qualname__}>"

    def __reduce__(self) -> Any:
        return _itself, (self.function,)


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
    return bool(_modes()) or bool(_overloaded(relevant_args))


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
    return _ask(public_api, _overloaded(relevant_args), args, kwargs)


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


# --- modes -----------------------------------------------------------------------------------------------------


class TorchFunctionMode:
    """A context in which each call of a function of the library is given to `__torch_function__` of the mode.

    While that runs, the mode is off; with several modes the innermost one is asked, and its own calls ask the next.

    Examples
    --------
    >>> import fastgrad as fg
    >>> class Count(fg.overrides.TorchFunctionMode):
    ...     names = []
    ...
    ...     def __torch_function__(self, func, types, args=(), kwargs=None):
    ...         self.names.append(func.__name__)
    ...         return func(*args, **(kwargs or {}))
    >>> with Count() as mode:
    ...     y = fg.ones(2) + 1
    >>> mode.names
    ['ones', 'add']
    """

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """What a call comes to; NotImplemented asks the classes of the arguments."""
        raise NotImplementedError(f"{type(self).__name__}.__torch_function__ is not defined")

    def __enter__(self) -> Any:
        install()
        _METHODS_OF_TENSOR.take()
        _state.modes.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        _state.modes.pop()
        _METHODS_OF_TENSOR.leave()


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that changes nothing."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Call the function."""
        return func(*args, **(kwargs or {}))


class DisableTorchFunctionSubclass:
    """A context in which classes are not asked; modes are.

    Examples
    --------
    >>> import fastgrad as fg
    >>> class Marked(fg.Tensor):
    ...     pass
    >>> x = Marked([1.0])
    >>> with fg.overrides.DisableTorchFunctionSubclass():
    ...     type(x + 1).__name__
    'Tensor'
    """

    def __enter__(self) -> None:
        _state.without_classes += 1

    def __exit__(self, *_: object) -> None:
        _state.without_classes -= 1


class DisableTorchFunction(DisableTorchFunctionSubclass):
    """A context in which neither classes nor modes are asked."""

    def __enter__(self) -> None:
        super().__enter__()
        _state.without_modes += 1

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        _state.without_modes -= 1


# --- methods ---------------------------------------------------------------------------------------------------

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


def _names() -> Iterator[str]:
    """The methods and properties of `Tensor` that can be overridden."""
    for name in dir(Tensor):
        if ((name[0] != "_" and name not in _NEVER) or name in _SPECIAL) and hasattr(
            _static(name), "__get__"
        ):
            yield name


def _static(name: str) -> Any:
    for kind in Tensor.__mro__:
        if name in kind.__dict__:
            return kind.__dict__[name]
    raise AttributeError(name)


def _asking(name: str) -> Any:
    """What stands for a method or a property of `Tensor` where it is overridden."""
    own = _static(name)
    if isinstance(own, (staticmethod, classmethod, type)):
        return own
    if callable(own):
        called = _CALLED.get(name, name)
        return Overridable(own, called if hasattr(Tensor, called) else name)

    def get(self: Any) -> Any:
        found = _overloaded((self,))
        if not found and not _modes():
            return own.__get__(self)
        return _ask(getattr(Tensor, name).__get__, found, (self,), {})

    def put(self: Any, value: Any) -> None:
        found = _overloaded((self, value))
        if not found and not _modes():
            own.__set__(self, value)
        else:
            _ask(getattr(Tensor, name).__set__, found, (self, value), {})

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


class _Methods:
    """The methods that ask, and whether `Tensor` has them: while a mode is on in any thread."""

    def __init__(self) -> None:
        self.asking = {name: _asking(name) for name in _names()}
        self.own = {name: Tensor.__dict__[name] for name in self.asking if name in Tensor.__dict__}
        self.users = 0

    def keep(self) -> None:
        """Leave those to `Tensor` that take other tensors."""
        with _lock:
            for name, method in self.asking.items():
                if (
                    isinstance(method, Overridable)
                    and name[0] != "_"
                    and not _TENSORS.isdisjoint(_arguments(method))
                ):
                    self.own[name] = method
                    setattr(Tensor, name, method)

    def take(self) -> None:
        """Give them to `Tensor`."""
        with _lock:
            self.users += 1
            if self.users == 1:
                for name, method in self.asking.items():
                    setattr(Tensor, name, method)

    def leave(self) -> None:
        """Take them away, if nobody else needs them."""
        with _lock:
            self.users -= 1
            if not self.users:
                for name in self.asking:
                    if name in self.own:
                        setattr(Tensor, name, self.own[name])
                    else:
                        delattr(Tensor, name)


_METHODS_OF_TENSOR = _Methods()
_ASKING: Any = type(
    "Tensor",
    (Tensor,),
    {"__slots__": (), "__module__": __name__, "__hash__": Tensor.__hash__, "__iter__": _rows}
    | _METHODS_OF_TENSOR.asking,
)


def prepare(kind: type) -> None:
    """Give a new subclass of `Tensor` methods that ask, unless it says that it is not to be asked."""
    if getattr(kind, "__torch_function__", None) is disabled_torch_function:
        return
    install()
    if Tensor in kind.__bases__:
        kind.__bases__ = tuple(_ASKING if base is Tensor else base for base in kind.__bases__)


def converted(result: Any, kind: type) -> Any:
    """The result of a call, with tensors as those of a subclass."""
    if isinstance(result, Tensor):
        return result if isinstance(result, kind) else result.as_subclass(kind)
    if isinstance(result, _SEQUENCES) and type(result) is not Size:
        items = [converted(item, kind) for item in result]
        return result._make(items) if hasattr(result, "_make") else type(result)(items)
    return result


def by_default(
    kind: type, func: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None
) -> Any:
    """What `Tensor.__torch_function__` does: the call, with results of the subclass."""
    if not all(issubclass(kind, t) for t in types):
        return NotImplemented
    with DisableTorchFunctionSubclass():
        result = func(*args, **(kwargs or {}))
        return result if func in get_default_nowrap_functions() else converted(result, kind)


# --- functions of modules --------------------------------------------------------------------------------------


def _public_functions() -> dict[Any, list[str]]:
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
    asking: dict[int, Any] = {}
    for module, names in _public_functions().items():
        for name in names:
            function = getattr(module, name)
            if not isinstance(function, Overridable) and id(function) not in asking:
                asking[id(function)] = Overridable(function)
    for name, module in list(sys.modules.items()):
        inside = name.partition(".")[0] == "fastgrad"
        known = vars(module) if isinstance(module, ModuleType) else None
        if known is None or (inside and not (name in _public_names() or name.startswith(_IN_LAYERS))):
            continue
        for key, value in list(known.items()):
            if type(value) in (FunctionType, Planned) and id(value) in asking:
                known[key] = asking[id(value)]
    _METHODS_OF_TENSOR.keep()


def _public_names() -> tuple[str, ...]:
    return ("fastgrad", *(f"fastgrad.{name}" for name in _MODULES))


# --- what can be overridden ------------------------------------------------------------------------------------


def get_overridable_functions() -> dict[Any, list[Any]]:
    """The functions that ask modes and classes.

    Returns
    -------
    dict
        Lists of functions by the modules, and the class `Tensor`, that have them.
    """
    found: dict[Any, list[Any]] = {
        module: [getattr(module, name) for name in names] for module, names in _public_functions().items()
    }
    methods = [getattr(Tensor, name) for name in _names()]
    found[Tensor] = [m if callable(m) else m.__get__ for m in methods]
    return found


def get_default_nowrap_functions() -> set[Any]:
    """The functions whose results `Tensor.__torch_function__` does not make tensors of the subclass."""
    return {getattr(Tensor, name).__get__ for name in ("grad", "_base", "_grad") if hasattr(Tensor, name)}


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
    install()
    if type(f) is Overridable and f._method:
        return f"fastgrad.Tensor.{f._method}"
    for module, names in sorted(_public_functions().items(), key=lambda pair: -len(pair[0].__name__)):
        for name in names:
            if getattr(module, name) is f:
                return f"{module.__name__}.{name}"
    for name in _names():
        own = getattr(Tensor, name)
        for shown, method in (
            ((name, own),)
            if callable(own)
            else (
                (f"{name}.__get__", own.__get__),
                (f"{name}.__set__", own.__set__),
            )
        ):
            if method == f:
                return f"fastgrad.Tensor.{shown}"
    return None


__getattr__ = _getattr_of(__name__)
BETWEEN.add(Overridable.__call__.__code__)
