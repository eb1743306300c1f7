"""What a function may see besides its arguments, and whether that is as it was.

Note [Guards]: a recorded call may be replayed while nothing has changed that the function could have decided by. What a
function can reach is walked from its closure, its defaults and the globals that it names, through functions, methods,
modules, optimizers, objects with attributes and containers. Of a number or a text, the value must be the same; of
anything else, that it is the same object, and what it holds in turn. Tensors are collected; what they are, the runtime
compares (`native.python.tape_calls`). What a walk cannot look into and what may nevertheless change, such as an array
of NumPy's or an iterator, is *opaque*: a function that reaches it is not replayed.

Of an object of a class of the program's own, and of such a class, only those attributes are entered and compared that
some function on the way names, in code or as a text: a method that makes the object, say, is of no matter to one that
uses it.

Hooks are not entered: a replay calls them, and which there are is compared. Nor are custom functions, and what earlier
recordings have seen called as hooks.

The library's own functions, those of the standard library and of installed packages are taken for constant. So is what
only an extension module knows.
"""

from __future__ import annotations

import array
import builtins
import collections
import functools
import operator
import random
import sys
import sysconfig
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from fastgrad.autograd.function import Function
from fastgrad.autograd.native_hooks import state_of
from fastgrad.compiler.code_names import global_names, names_in, texts_in, used_cells
from fastgrad.module_names import is_own
from fastgrad.native.build.loader import TensorBase, rt
from fastgrad.native.contracts.flags import LEAF_HOOKS, LEAF_POST_HOOKS
from fastgrad.native.contracts.python_types import MODULE_NAMES
from fastgrad.native.contracts.records import TENSOR
from fastgrad.native.host.options import Option
from fastgrad.nn.modules import module_hooks
from fastgrad.nn.modules.module_hooks import CALL_STORES
from fastgrad.ops.namespaces import NAMESPACES, table_of
from fastgrad.optim import optimizer as optimizers

_FLAGS = TENSOR.fields["flags"][0]

SCALARS = (int, float, complex, bool, str, bytes, type(None), type(Ellipsis), range, slice)
_OPAQUE = (
    np.ndarray, np.random.Generator, np.random.RandomState, random.Random, bytearray, memoryview, array.array,
    types.GeneratorType, collections.deque,
)  # fmt: skip
_UNSTEADY = ("random", "time", "datetime", "secrets", "uuid")
_FOLDERS = ("stdlib", "platstdlib", "purelib", "platlib")
_LIBRARY_FOLDERS = tuple({path for name in _FOLDERS if (path := sysconfig.get_path(name))})
_COUNT = object()
MOST_CHECKS = 100_000
CHECKS_OF_A_FUNCTION = 400
"""Of so many comparisons is one function made: the compiler of Python takes long for more."""

_NEVER_CALLED = frozenset(
    f"_{which}{kind}_hooks"
    for which in ("state_dict", "load_state_dict", "optimizer_state_dict", "optimizer_load_state_dict")
    for kind in ("_pre", "_post", "")
)
"""Attributes of modules and optimizers that neither a call nor a step looks into."""


_HOOK_STORES = frozenset((*CALL_STORES, "_optimizer_step_pre_hooks", "_optimizer_step_post_hooks"))
_GETTERS = (operator.attrgetter, operator.methodcaller)
_FUNCTIONS_OF_NAMES = (getattr, hasattr, vars, eval, exec, *_GETTERS)
_ATTRIBUTES_OF_NAMES = frozenset(("__dict__", "__getattribute__", "attrgetter", "methodcaller"))
"""Where code uses one of these, the former by themselves, it may read any attribute."""

_CONSTRUCTION = (
    "__new__",
    "__init__",
    "__post_init__",
    "__init_subclass__",
    "__del__",
    "__repr__",
    "__reduce__",
)
"""Methods that are of no matter where no object of the class is made."""


class Check(NamedTuple):
    """A comparison: the Python expression of what is compared, by the names of what is bound, and what it has to be."""

    path: str
    expression: str
    names: tuple[tuple[str, Any], ...]
    expected: Any


def same(a: Any, b: Any) -> bool:
    """Whether two numbers or texts, or tuples and sets of such, are the same: in type and value, NaN like NaN."""
    if a is b:
        return True
    if type(a) is not type(b) or not isinstance(a, (*SCALARS, tuple, frozenset)):
        return False
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float) and a == b == 0:
        return str(a) == str(b)
    return bool(a == b) or (a != a and b != b)


def _is_constant_module(module: Any) -> bool:
    """Whether a module belongs to the library, the standard library or an installed package."""
    name = getattr(module, "__name__", "")
    if is_own(name) or name.partition(".")[0] in sys.stdlib_module_names:
        return True
    file = getattr(module, "__file__", None)
    return file is None or file.startswith(_LIBRARY_FOLDERS)


def _is_constant(thing: Any) -> bool:
    """Whether a function or a class is one of such a module's."""
    module = sys.modules.get(getattr(thing, "__module__", None) or "")
    if module is None or module is sys.modules.get("__main__"):
        return False
    return _is_constant_module(module)


class Wrapper:
    """What calls a function, and holds nothing else that a function could decide by.

    Attributes
    ----------
    __wrapped__ : callable
        The function.
    """

    __wrapped__: Callable[..., Any]


class Walk:
    """What is reached from some objects.

    Parameters
    ----------
    called : iterable of callable
        Hooks that a replay calls: what they hold is not entered, nor what functions made as these are would hold.

    Attributes
    ----------
    dicts : list
        Dicts all of whose items are compared: each with the number of them, keys and values.
    items : list
        Items of dicts: each a dict, a key and a value.
    checks : list of Check
        What is compared otherwise.
    paths : dict
        What people call a dict, by its identity.
    tensors : list of Tensor
    opaque : list of str
        What cannot be looked into, by its path.
    hooks : dict
        Hooks that a replay calls, by their identity: which there are is compared, not what they hold.
    """

    def __init__(self, called: Iterable[Any] = ()) -> None:
        self._called = {id(function): function for function in called}
        self._called_codes = {code for f in called if (code := getattr(f, "__code__", None)) is not None}
        self.dicts: list[Any] = []
        self.items: list[Any] = []
        self.checks: list[Check] = []
        self.paths: dict[int, str] = {}
        self.tensors: list[Any] = []
        self.opaque: list[str] = []
        self.hooks: dict[int, Any] = {}
        self._seen: dict[int, Any] = {}
        self._todo: list[tuple[Any, str]] = []
        self._named: set[str] = set()  # by the code of all functions that were reached
        self._owners: list[tuple[dict[str, Any], str, set[str], frozenset[str]]] = []
        self._classes: dict[type, set[str]] = {}
        self._reads_by_names = False
        self._made: set[type] = set()  # classes that code may call

    def begin(self, value: Any, path: str) -> None:
        """Walk from an object."""
        self._todo.append((value, path))
        while self._todo:
            self._visit(*self._todo.pop())
            if len(self.checks) + len(self.items) + len(self.dicts) > MOST_CHECKS:
                self.opaque.append(f"more than {MOST_CHECKS} attributes and items")
                self._todo.clear()
                break
            if not self._todo:
                self._enter_named()

    def begin_hooks(self) -> None:
        """Compare which hooks all modules and all optimizers have."""
        self._hook_dict(module_hooks.CALL_HOOKS, "the hooks of all modules")
        for name in module_hooks._OWN:
            if isinstance(hooks := getattr(module_hooks, name), dict):
                self._hook_dict(hooks, name)
        for hooks in (optimizers._global_optimizer_pre_hooks, optimizers._global_optimizer_post_hooks):
            self._hook_dict(hooks, "the hooks of all optimizers")

    def _hook_dict(self, hooks: dict[Any, Any], path: str) -> None:
        """Compare which hooks there are; a native one has a tensor."""
        self.paths.setdefault(id(hooks), path)
        self._seen[id(hooks)] = hooks
        self.dicts += [hooks, len(hooks), *(part for item in list(hooks.items()) for part in item)]
        self.hooks.update((id(hook), hook) for hook in hooks.values())
        self.tensors += [state for hook in hooks.values() if (state := state_of(hook)) is not None]

    def has_visited(self, value: Any) -> bool:
        """Whether a walk came by an object."""
        return id(value) in self._seen

    def end(self) -> None:
        """Compare the objects of which only what code names was entered."""
        for own, path, entered, _ in self._owners:
            self.paths.setdefault(id(own), path)
            self.dicts += [own, len(own)]
            for name, value in own.items():
                self.dicts += [name, value if name in entered else ...]
        self._owners.clear()

    def reads(self, names: tuple[str, ...]) -> bool:
        """Whether code that was reached may read what has one of these names."""
        return self._reads_by_names or not self._named.isdisjoint((*names, *_ATTRIBUTES_OF_NAMES))

    def names(self, names: tuple[str, ...]) -> bool:
        """Whether code that was reached has one of these names in it."""
        return not self._named.isdisjoint(names)

    def pairs(self) -> Iterator[tuple[Any, Any]]:
        """What was compared: each a container or an object's attributes, and something that it holds."""
        for own, _, value in _items_of(self.dicts):
            yield own, value
        yield from zip(self.items[::3], self.items[2::3], strict=True)
        for check in self.checks:
            for _, own in check.names:
                yield own, check.expected

    def _enter_named(self) -> None:
        """Enter what code names by now of objects and classes that were reached."""
        everything = self._reads_by_names or not self._named.isdisjoint(_ATTRIBUTES_OF_NAMES)
        for own, path, entered, of_library in self._owners:
            for name in list(own):
                used = everything or name in self._named or name in of_library
                if used and name not in entered:
                    entered.add(name)
                    if own[name] is ...:
                        self._compare(f"{path}.{name}", f"own[{name!r}]", ..., own=own)
                    if name in _HOOK_STORES and isinstance(own[name], dict):
                        self._hook_dict(own[name], f"{path}.{name}")
                        continue
                    self._todo.append((own[name], f"{path}.{name}"))
        for kind, entered in list(self._classes.items()):
            for name, value in vars(kind).items():
                if name not in entered and (everything or self._is_used(kind, name)):
                    entered.add(name)
                    self._compare(f"{kind.__name__}.{name}", f"own[{name!r}]", value, own=vars(kind))

    def _is_used(self, kind: type, name: str) -> bool:
        """Whether an attribute of a class may be used: by the code that was reached, by Python, or by the library."""
        if name in ("__dict__", "__weakref__", "__doc__", "__module__", "__annotations__"):
            return False
        if name in _CONSTRUCTION:
            return any(kind in made.__mro__ for made in self._made)
        if name in self._named or (name.startswith("__") and name.endswith("__")):
            return True
        return any(name in vars(base) for base in kind.__mro__ if _is_constant(base))

    def _compare(self, path: str, expression: str, value: Any, **names: Any) -> None:
        self.checks.append(Check(path, expression, tuple(names.items()), value))
        self._todo.append((value, path))

    def _item(self, own: dict[Any, Any], key: Any, path: str) -> None:
        value = own[key]
        self.paths.setdefault(id(own), path)
        self.items += [own, key, value]
        self._todo.append((value, _item_path(path, key)))

    def _whole(
        self, own: dict[Any, Any], path: str, attributes: bool = False, but: tuple[Any, Any] = (None, None)
    ) -> None:
        """All items of a dict, which may be the attributes of an object; what `but` names is not entered."""
        self.paths.setdefault(id(own), path)
        self.dicts += [own, len(own)]
        stores: list[tuple[dict[Any, Any], str]] = []
        for key, value in list(own.items()):
            self.dicts += [key, value]
            if value is ...:
                self._compare(_item_path(path, key), "d[key]", ..., d=own, key=key)
            if not isinstance(key, SCALARS):
                self._todo.append((key, f"a key of {path}"))
            if attributes and key in _HOOK_STORES and isinstance(value, dict):
                if value is not but[0] and value is not but[1]:
                    stores.append((value, f"{path}.{key}"))
            elif not (attributes and (key in _NEVER_CALLED or value is but[0] or value is but[1])):
                self._todo.append((value, f"{path}.{key}" if attributes else _item_path(path, key)))
        for hooks, where in stores:
            self._hook_dict(hooks, where)

    def _visit(self, value: Any, path: str) -> None:
        if id(value) in self._seen or isinstance(value, SCALARS):
            return
        self._seen[id(value)] = value
        if isinstance(value, TensorBase):
            self.tensors.append(value)
            self._instance(value, path, but=self._hooks(value, path))
        elif isinstance(value, types.FunctionType):
            self._function(value, path)
        elif isinstance(value, types.MethodType):
            self._todo += [(value.__self__, f"{path}.__self__"), (value.__func__, path)]
        elif isinstance(value, _GETTERS):
            self._reads_by_names = True
        elif isinstance(value, Wrapper):
            self._todo.append((value.__wrapped__, path))
        elif isinstance(value, functools.partial):
            self._todo += [
                (value.func, path),
                (value.args, f"{path}.args"),
                (value.keywords, f"{path}.keywords"),
            ]
        elif isinstance(value, (staticmethod, classmethod)):
            self._todo.append((value.__func__, path))
        elif isinstance(value, property):
            self._todo += [(f, path) for f in (value.fget, value.fset) if f is not None]
        elif isinstance(value, type):
            self._made.add(value)
            self._class(value)
        elif isinstance(value, dict):
            self._whole(value, path)
            self._instance(value, path)
        elif isinstance(value, (list, tuple)):
            self._sequence(value, path)
        elif isinstance(value, (set, frozenset)):
            self._set(value, path)
        elif isinstance(value, _OPAQUE) or (hasattr(value, "__next__") and not hasattr(value, "__dict__")):
            self.opaque.append(f"{path} ({type(value).__name__})")
        elif not isinstance(value, types.ModuleType):
            self._instance(value, path)

    def _hooks(self, tensor: Any, path: str) -> tuple[Any, Any]:
        """Compare which hooks a leaf has."""
        found: list[Any] = [None, None]
        for k, flag in enumerate((LEAF_HOOKS, LEAF_POST_HOOKS)):
            if rt.field(tensor, _FLAGS) & flag:
                found[k] = hooks = rt.leaf_hooks(tensor, k)
                self._hook_dict(hooks, f"the hooks of {path}")
        return found[0], found[1]

    def _function(self, function: Any, path: str) -> None:
        if _is_constant(function) or id(function) in self._called:
            return
        code = function.__code__
        used = used_cells(code, self._called_codes)
        if vars(function):
            self._whole(vars(function), path, attributes=True)
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            if name not in used:
                continue
            try:
                value = cell.cell_contents
            except ValueError:  # not set yet
                self.opaque.append(f"{name} (a variable of {path} that is not set)")
                continue
            self._compare(f"{name} of {path}", "cell.cell_contents", value, cell=cell)
        for name in ("__code__", "__defaults__", "__kwdefaults__"):
            self._compare(f"{path}.{name}", f"function.{name}", getattr(function, name), function=function)
        self._named.update(names_in(code, self._called_codes), texts_in(code, self._called_codes))
        self._globals(function, path)

    def _globals(self, function: Any, path: str) -> None:
        names = list(names_in(function.__code__, self._called_codes))
        own = function.__globals__
        for name, writes in dict.fromkeys(global_names(function.__code__, self._called_codes)):
            if any(own.get(name, vars(builtins).get(name)) is f for f in _FUNCTIONS_OF_NAMES):
                self._reads_by_names = True
            if name in own:
                if isinstance(own[name], types.ModuleType):
                    self._module(own[name], name, names, path)
                self._item(own, name, f"globals of {function.__module__}")
            elif writes:
                self.opaque.append(f"{name}, a global that {path} makes")

    def _module(self, module: types.ModuleType, name: str, names: list[str], path: str) -> None:
        if module.__name__ in _UNSTEADY or (module is np and "random" in names) or module is np.random:
            self.opaque.append(f"{name} in {path}, which gives other values at each call")
        if module.__name__ in ("fastgrad", "fastgrad.ops"):  # ops of users may be defined anew
            for space in NAMESPACES.keys() & set(names):
                ops = table_of(space)
                for op in sorted(ops.keys() & set(names)):
                    self._item(ops, op, f"fastgrad.ops.{space}")
        if not _is_constant_module(module):
            for attribute in names:
                if attribute in vars(module):
                    self._item(vars(module), attribute, name)

    def _class(self, kind: type) -> None:
        if issubclass(kind, Function):  # a replay calls it, whatever that is by then
            return
        for base in kind.__mro__:
            if not _is_constant(base):
                self._classes.setdefault(base, set())

    def _sequence(self, value: Any, path: str) -> None:
        if isinstance(value, list):
            self.checks.append(Check(f"len({path})", "len(x)", (("x", value),), len(value)))
        for k, item in enumerate(value):
            self._compare(f"{path}[{k}]", f"x[{k}]", item, x=value)
        self._instance(value, path)

    def _set(self, value: Any, path: str) -> None:
        for item in value:
            if not isinstance(item, SCALARS):
                self._todo.append((item, f"an element of {path}"))
        if isinstance(value, set):
            self.checks.append(
                Check(f"the elements of {path}", "frozenset(x)", (("x", value),), frozenset(value))
            )

    def _instance(self, value: Any, path: str, but: tuple[Any, Any] = (None, None)) -> None:
        own = getattr(value, "__dict__", None)
        if isinstance(own, dict):
            if _is_constant(type(value)) or isinstance(value, TensorBase):
                self._whole(own, path, attributes=True, but=but)
            else:
                self._owners.append((own, path, set(), _names_of_library(type(value))))
        for base in type(value).__mro__:
            for name in _slots(base):
                if hasattr(value, name):
                    self._compare(f"{path}.{name}", f"x.{name}", getattr(value, name), x=value)
        self._class(type(value))


def _items_of(dicts: Sequence[Any]) -> Iterator[tuple[Any, int, Any]]:
    """Of dicts all of whose items are compared, by item: the dict, the place of the value, the value."""
    at = 0
    while at < len(dicts):
        own, count = dicts[at : at + 2]
        for place in range(at + 3, at + 2 + 2 * count, 2):
            yield own, place, dicts[place]
        at += 2 + 2 * count


def _item_path(path: str, key: Any) -> str:
    return f"{path}[{key!r}]" if isinstance(key, SCALARS) else f"{path}[...]"


def _names_of_library(kind: type) -> frozenset[str]:
    """What the code of the library, or other code that is taken for constant, names in classes that one is made of."""
    bases = [base for base in kind.__mro__ if base is not object and _is_constant(base)]
    return frozenset().union(MODULE_NAMES if bases else (), *map(_names_in_class, bases))


@functools.cache
def _names_in_class(kind: type) -> frozenset[str]:
    found: set[str] = set()
    for value in vars(kind).values():
        for function in (getattr(value, "__wrapped__", value), getattr(value, "fget", value)):
            code = getattr(function, "__code__", None)
            if isinstance(code, types.CodeType):
                found.update(names_in(code), texts_in(code))
    return frozenset(found)


def _slots(base: type) -> tuple[str, ...]:
    if _is_constant(base):
        return ()
    names = vars(base).get("__slots__", ())
    names = (names,) if isinstance(names, str) else tuple(names)
    return tuple(name for name in names if name not in ("__dict__", "__weakref__"))


class Guards:
    """The comparisons of a walk."""

    def __init__(self, walk: Walk) -> None:
        walk.end()
        self._dicts, self._items = tuple(walk.dicts), tuple(walk.items)
        self._paths = walk.paths
        self._checks = walk.checks
        checks = walk.checks
        functions = [
            _compiled(checks[k : k + CHECKS_OF_A_FUNCTION])
            for k in range(0, len(checks), CHECKS_OF_A_FUNCTION)
        ]
        self._others = functions[0] if len(functions) == 1 else lambda: all(hold() for hold in functions)

    def __len__(self) -> int:
        return len(self._checks) + len(self._items) // 3 + len(self._dicts) // 2

    def release(self, options: Sequence[Option]) -> None:
        """Compare no longer what calls bring; that it is the same tensor still has to be."""
        brought = {(id(o.group), o.key) for o in options if not isinstance(o.now(), TensorBase)}
        if not brought:
            return
        dicts = list(self._dicts)
        for own, place, _ in _items_of(self._dicts):
            if (id(own), dicts[place - 1]) in brought:
                dicts[place] = ...
        self._dicts = tuple(dicts)

    def hold(self) -> bool:
        """Whether all that was compared is as it was."""
        while (place := rt.first_difference(self._dicts, self._items)) >= 0:
            if not self._is_equal(place):
                return False
        return self._others()

    def _is_equal(self, place: int) -> bool:
        """Whether another object at a place is a number or text of the same value; then it is expected from now on."""
        own, key = self._owner(place)
        if key is _COUNT or not isinstance(value := own.get(key), SCALARS):
            return False
        both = [*self._dicts, *self._items]
        if not same(value, both[place]):
            return False
        both[place] = value
        self._dicts, self._items = tuple(both[: len(self._dicts)]), tuple(both[len(self._dicts) :])
        return True

    def _owner(self, place: int) -> tuple[Any, Any]:
        """The dict and the key of what stands at a place; the key is `_COUNT` for the number of the items."""
        if place >= len(self._dicts):
            k = place - len(self._dicts)
            return self._items[k - 2], self._items[k - 1]
        at = 0
        while (end := at + 2 + 2 * self._dicts[at + 1]) <= place:
            at = end
        return self._dicts[at], _COUNT if place == at + 1 else self._dicts[place - 1]

    def first_change(self) -> str:
        """What is not as it was, for people; empty if all is."""
        while (place := rt.first_difference(self._dicts, self._items)) >= 0:
            if self._is_equal(place):
                continue
            own, key = self._owner(place)
            path = self._paths[id(own)]
            if key is _COUNT:
                return f"{path} has other names or keys, or another number of them"
            expected = (*self._dicts, *self._items)[place]
            return _change(_item_path(path, key), own.get(key), expected)
        for check in self._checks:
            try:
                value = eval(check.expression, {}, dict(check.names))
            except Exception:  # noqa: BLE001 - whatever was deleted
                return f"{check.path} is gone"
            if value is not check.expected and not same(value, check.expected):
                return _change(check.path, value, check.expected)
        return ""


def _change(path: str, value: Any, expected: Any) -> str:
    if isinstance(expected, SCALARS) and isinstance(value, SCALARS):
        return f"{path} was {expected!r} and is {value!r}"
    return f"{path} is another object"


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
        expression = _renamed(check.expression, {name: name_of(value) for name, value in check.names})
        expected = name_of(check.expected)
        text = f"{expression} is {expected}"
        if isinstance(check.expected, (*SCALARS, frozenset, tuple)):
            text = f"({text} or same({expression}, {expected}))"
        lines.append(text)
    body = "\n            and ".join(lines) or "True"
    exec(
        f"def hold():\n    try:\n        return ({body})\n    except Exception:\n        return False\n",
        scope,
    )
    return scope["hold"]  # type: ignore[no-any-return]


def _renamed(expression: str, names: dict[str, str]) -> str:
    """An expression of one of the forms ``f(x)``, ``x[...]`` and ``x.name`` with another name for `x`."""
    for opening in "[.":
        head, mark, rest = expression.partition(opening)
        if mark and head in names:
            inner = rest[:-1]
            return f"{names[head]}{mark}{names.get(inner, inner)}{rest[-1]}"
    called, _, rest = expression.partition("(")
    return f"{called}({names[rest[:-1]]})"
