"""Lowered functions, kept from one compilation of the runtime to the next.

Numba takes most of the time that compiling the runtime takes, and an edit changes a function or two. What it made of a
function depends on the function's code and defaults, on the globals and cells that it reads and on the types that it is
called with. Of other functions of the runtime it knows no more than what they are called and what they return. So a
function has an identity, which its symbol is made of, and a key, which covers all that it depends on: its code may
change without those that call it being lowered anew. What is known of neither is lowered every time, and so is what
calls it.
"""

from __future__ import annotations

import hashlib
import pickle
import re
import types as python_types
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any, ClassVar, NamedTuple

import llvmlite.binding as llvm
import numpy as np
from numba.core import serialize, types
from numba.core.compiler import CompileResult

from fastgrad.native.base.raw_library import RawLibrary
from fastgrad.native.contracts.record import Part, Record


class UnknownError(Exception):
    """A value of which nobody can tell whether it is the same as before."""


# --- identities ------------------------------------------------------------------------------------------------


def _digest(*texts: str) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for text in texts:
        digest.update(text.encode())
        digest.update(b"\0")
    return digest.hexdigest()


def _place(function: Any) -> str:
    return f"{function.__module__}:{function.__qualname__}"


def _is_dispatcher(value: Any) -> bool:
    return hasattr(value, "py_func") and hasattr(value, "get_call_template")


_codes: dict[str, Any] = {}  # by identity: the code of the function that has it


def identity(function: Any) -> str:
    """What tells a function from all others, whatever stands in it: its place, and what its cells hold.

    Raises
    ------
    UnknownError
        If that cannot be told, or if another function has the same.
    """
    found = " ".join([_place(function), *_described_cells(function)])
    if _codes.setdefault(found, function.__code__) is not function.__code__:
        raise UnknownError(found)
    return found


def number_of(function: Any) -> int | None:
    """A number of 60 bits that stands for the identity of a function; None if it has none."""
    try:
        return int(_digest(identity(function))[:15], 16)
    except UnknownError:
        return None


def _described_cells(function: Any) -> Iterator[str]:
    for cell in function.__closure__ or ():
        try:
            yield describe(cell.cell_contents)
        except ValueError:  # it is empty
            raise UnknownError(_place(function)) from None


_PLAIN = (bool, int, float, complex, str, bytes, bytearray, type(None), type(Ellipsis))
_DESCRIBERS: list[tuple[Any, Callable[[Any], str]]] = [
    (_PLAIN, lambda v: f"{type(v).__name__} {v!r}"),
    (Enum, lambda v: f"{_place(type(v))} {v!r}"),
    ((tuple, list), lambda v: f"{_place(type(v))}({', '.join(map(describe, v))})"),
    ((set, frozenset), lambda v: f"{_place(type(v))}({', '.join(sorted(map(describe, v)))})"),
    (dict, lambda v: "dict(" + ", ".join(f"{describe(k)}: {describe(x)}" for k, x in v.items()) + ")"),
    ((Record, Part), lambda v: f"record {v.name} {v.words} {describe(v.fields)} {describe(v.parts)}"),
    (types.ExternalFunction, lambda v: f"extern {v.symbol} {v.sig}"),
    (types.Type, lambda v: f"type {v!r}"),
    (np.ndarray, lambda v: f"array {v.dtype.str} {v.shape} {_digest(v.tobytes().hex())}"),
    ((np.dtype, np.generic), lambda v: f"{type(v).__name__} {v!r}"),
    (type, _place),
    (python_types.BuiltinFunctionType, lambda v: f"builtin {v.__module__} {v.__name__}"),
    (np.ufunc, lambda v: f"ufunc {v.__name__}"),
]


def describe(value: Any) -> str:
    """A text that is another one whenever code that reads the value would be.

    Raises
    ------
    UnknownError
        If there is none.
    """
    if _is_dispatcher(value):
        return f"native {identity(value.py_func)}"
    if hasattr(value, "_defn"):
        return f"intrinsic {_described_writer(value._defn)}"
    for kinds, text in _DESCRIBERS:
        if isinstance(value, kinds):
            return text(value)
    raise UnknownError(repr(type(value)))


def _described_code(code: Any) -> str:
    """All of a code object but for where it stands."""
    constants = [
        _described_code(c) if isinstance(c, python_types.CodeType) else describe(c) for c in code.co_consts
    ]
    tables = getattr(code, "co_exceptiontable", b"")
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    return _digest(
        code.co_code.hex(), tables.hex(), repr(names), repr((code.co_argcount, code.co_flags)), *constants
    )


def described_function(function: Any) -> str:
    """A text that covers a Python function: its code, its defaults, and what its globals and cells are."""
    return " ".join([
        _place(function), _described_code(function.__code__), describe(function.__defaults__),
        *_described_cells(function), *_described_globals(function),
    ])  # fmt: skip


def _described_writer(function: Any) -> str:
    """The same for the writer of an intrinsic: the files of those in `base` are in the key of the store."""
    if function.__module__.startswith("fastgrad.native.base."):
        return " ".join([_place(function), *_described_cells(function)])
    return described_function(function)


def _described_globals(function: Any) -> Iterator[str]:
    names = function.__code__.co_names
    for name in names:
        value = function.__globals__.get(name, function)
        if isinstance(value, python_types.ModuleType):
            yield f"{name} is {value.__name__}"
            for attribute in names:
                found = getattr(value, attribute, function)
                if found is not function and not isinstance(found, python_types.ModuleType):
                    yield f"{name}.{attribute} is {describe(found)}"
        elif value is not function:
            yield f"{name} is {describe(value)}"


# --- what is kept ----------------------------------------------------------------------------------------------


class Callee(NamedTuple):
    """A function of the runtime that another one calls: its identity, the types of its arguments and its result."""

    identity: str
    args: tuple[Any, ...]
    result: Any


class Kept(NamedTuple):
    """What Numba made of a function: LLVM modules, and its description with its callees, pickled.

    The first module is its own; the others are those of Numba's own functions that it calls, such as ``max``.
    """

    modules: tuple[bytes, ...]
    description: bytes


class Store:
    """What is kept of all functions of the runtime.

    It is good for one state of what all of them depend on besides themselves: the versions, the records and constants
    in `native.contracts`, and the intrinsics in `native.base`.

    Parameters
    ----------
    kept : dict
        By their keys; what is not asked for is not kept any longer.
    codes : dict
        The machine code of parts of the runtime, likewise: plain objects.
    """

    active: ClassVar[Store | None] = None

    def __init__(self, kept: dict[str, Kept], codes: dict[str, Any]) -> None:
        self.kept, self.codes = kept, codes
        self.used: dict[str, Kept] = {}
        self.used_codes: dict[str, Any] = {}
        self.lowered = 0

    @classmethod
    def of_bytes(cls, data: bytes) -> Store:
        """What `to_bytes` gave."""
        kept, codes = pickle.loads(data)
        return cls({key: Kept(*made) for key, made in kept.items()}, codes)

    def to_bytes(self) -> bytes:
        """What was asked for, as bytes."""
        return pickle.dumps(({key: tuple(made) for key, made in self.used.items()}, self.used_codes))

    @property
    def changed(self) -> bool:
        """Whether anything that was asked for had to be made."""
        return self.lowered > 0 or not self.used_codes.keys() <= self.codes.keys()


def _key(dispatcher: Any, args: tuple[Any, ...], result: Any) -> str:
    options = sorted((name, repr(value)) for name, value in dispatcher.targetoptions.items())
    return _digest(described_function(dispatcher.py_func), repr(options), repr(args), repr(result))


def _called(function: Any) -> dict[str, Any]:
    """The functions of the runtime that one reads as globals, in modules or in cells, by their identities."""
    values = [function.__globals__.get(name) for name in function.__code__.co_names]
    values += [cell.cell_contents for cell in function.__closure__ or ()]
    modules = [value for value in values if isinstance(value, python_types.ModuleType)]
    values += [getattr(m, name, None) for m in modules for name in function.__code__.co_names]
    found: dict[str, Any] = {}
    while values:
        value = values.pop()
        if isinstance(value, (tuple, list)):
            values += value
        elif _is_dispatcher(value):
            found[identity(value.py_func)] = value
    return found


class Memory:
    """What a function asks before it is lowered and tells afterwards, in place of Numba's own cache.

    Parameters
    ----------
    dispatcher : numba.core.dispatcher.Dispatcher
    """

    def __init__(self, dispatcher: Any) -> None:
        self.dispatcher = dispatcher

    def load_overload(self, signature: Any, context: Any) -> Any:
        """What is kept for a signature, as Numba's result of compiling; None if there is nothing."""
        store = Store.active
        if store is None:
            return None
        try:
            key = _key(self.dispatcher, *_parts(signature))
            kept = store.kept.get(key)
            if kept is None:
                return None
            found = _rebuilt(kept, self.dispatcher, context)
        except UnknownError:
            return None
        if found is not None:
            store.used[key] = kept
        return found

    def save_overload(self, signature: Any, result: Any) -> None:
        """Keep what was made for a signature."""
        store = Store.active
        result.library.callee = None
        if store is None:
            return
        store.lowered += 1
        try:
            key = _key(self.dispatcher, *_parts(signature))
            name = identity(self.dispatcher.py_func)
        except UnknownError:
            return
        libraries = [x for x in result.library._linking_libraries if x.name != _UNUSED]
        callees = [library.callee for library in libraries if isinstance(library, RawLibrary)]
        if None in callees:
            return
        result.library.callee = Callee(name, tuple(result.signature.args), result.signature.return_type)
        fndesc = result.fndesc
        typemap, calltypes = fndesc.typemap, fndesc.calltypes
        fndesc.typemap = fndesc.calltypes = None
        description = serialize.dumps((fndesc, result.signature, callees))
        fndesc.typemap, fndesc.calltypes = typemap, calltypes
        foreign = [library._final_module for library in libraries if not isinstance(library, RawLibrary)]
        store.used[key] = Kept(_portable(result.library.modules[0], foreign), description)


_UNUSED = "nrt"  # Numba's memory management, which it adds to every function


def _portable(module: Any, foreign: list[Any]) -> tuple[bytes, ...]:
    """Modules as bitcode. Symbols of Numba's own functions, which it counts, get a digest of what they stand for."""
    if not foreign:
        return (module.as_bitcode(),)
    texts = [str(module), *map(str, foreign)]
    for text, part in zip(texts[1:], foreign, strict=True):
        mark = _digest(text)
        for function in part.functions:
            if not function.is_declaration:
                symbol = re.compile(rf'@("?){re.escape(function.name)}("?)(?![\w$.])')
                texts = [symbol.sub(rf"@\g<1>{function.name}.{mark}\g<2>", other) for other in texts]
    return tuple(llvm.parse_assembly(text).as_bitcode() for text in texts)


def _parts(signature: Any) -> tuple[tuple[Any, ...], Any]:
    """The types of the arguments, and that of the result where it is prescribed."""
    return (signature, None) if isinstance(signature, tuple) else (signature.args, signature.return_type)


def _rebuilt(kept: Kept, dispatcher: Any, context: Any) -> Any:
    """Numba's result of compiling; None if a function that it calls is not what it was."""
    fndesc, signature, callees = pickle.loads(kept.description)
    library = RawLibrary(context.codegen(), fndesc.mangled_name)
    library.home = dispatcher.py_func.__module__
    called = _called(dispatcher.py_func)
    for callee in callees:
        function = called.get(callee.identity)
        if function is None:
            return None
        function.compile(callee.args)
        made = function.overloads[callee.args]
        if made.signature.return_type != callee.result:
            return None
        library.add_linking_library(made.library)
    for module in kept.modules:
        library.add_bitcode(module)
    library.finalize()
    library.callee = Callee(identity(dispatcher.py_func), tuple(signature.args), signature.return_type)
    fields = dict.fromkeys(CompileResult._fields)
    # Numba knows the function by what Python would call, a builtin. Nobody calls it, but it has to be one of its own.
    never_called = [].append
    return CompileResult(**fields | {
        "target_context": context, "typing_context": context.typing_context, "library": library,
        "entry_point": never_called,
        "fndesc": fndesc, "signature": signature, "objectmode": False, "lifted": (), "reload_init": [],
        "referenced_envs": (),
    })  # fmt: skip
