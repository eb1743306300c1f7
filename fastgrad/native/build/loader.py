"""Loading object code and making it callable: the only part of the compiler's side that a warm start runs.

`rt` is the namespace of the runtime's entries, `rt.apply(op, n, n_outs, *tensors, *integers)` first of all;
`TensorBase`, `NodeBase` and `HandleBase` are the types that its objects have.
"""

from __future__ import annotations

import ctypes
import importlib
import sys
import types
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import llvmlite.binding as llvm
import numpy as np

from fastgrad import flags
from fastgrad.native.build import cache
from fastgrad.native.build.interrupts import Uninterrupted
from fastgrad.native.contracts.entries import Export
from fastgrad.native.contracts.entry_table import ENTRIES
from fastgrad.native.contracts.limits import MAX_KERNELS, N_DEVICES, N_DTYPES, N_LAYOUTS
from fastgrad.native.contracts.python_types import HELD, METH_FASTCALL, SLOTS, TYPES, ObjectType
from fastgrad.native.contracts.records import RUNTIME

_engines: list[Any] = []  # object code lives as long as the process
_keep: list[Any] = []  # definitions that CPython refers to


def load_object(*codes: bytes) -> Callable[[str], int]:
    """Load object files, which may refer to each other; returns the function that gives the address of a symbol."""
    with cache.COMPILING, Uninterrupted():
        engine = _new_engine()
        for code in codes:
            engine.add_object_file(llvm.ObjectFileRef.from_data(code))
        engine.finalize_object()
        _engines.append(engine)

    def address(symbol: str) -> int:
        with cache.COMPILING:
            found: int = engine.get_function_address(symbol)
        if not found:
            raise RuntimeError(
                f"compiled code lacks {symbol}; remove the folder {cache.root()} and try again"
            )
        return found

    return address


_target: Any = None


def _new_engine() -> Any:
    global _target
    if _target is None:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        _target = llvm.Target.from_default_triple()
    machine = _target.create_target_machine(codemodel="jitdefault", jit=True)
    return llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)


# --- the runtime -----------------------------------------------------------------------------------------------


class _MethodDef(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]


def make_function(name: str, address: int) -> Any:
    """A Python builtin for a METH_FASTCALL function at an address."""
    definition = _MethodDef(name.encode(), address, METH_FASTCALL, None)
    _keep.append(definition)
    new = ctypes.pythonapi.PyCFunction_NewEx
    new.restype = ctypes.py_object
    new.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
    return new(ctypes.addressof(definition), None, None)


class _Slot(ctypes.Structure):
    _fields_ = [("slot", ctypes.c_int), ("function", ctypes.c_void_p)]


class _Spec(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p), ("basicsize", ctypes.c_int), ("itemsize", ctypes.c_int), ("flags", ctypes.c_uint),
        ("slots", ctypes.c_void_p),
    ]  # fmt: skip


class _Member(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p), ("type", ctypes.c_int), ("offset", ctypes.c_ssize_t), ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]  # fmt: skip


class _GetSet(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p), ("get", ctypes.c_void_p), ("set", ctypes.c_void_p), ("doc", ctypes.c_char_p),
        ("closure", ctypes.c_void_p),
    ]  # fmt: skip


PY_TP_METHODS, PY_TP_MEMBERS, PY_TP_GETSET = 64, 72, 73
TP_DEFAULT, TP_BASETYPE, TP_HAVE_GC = 1 << 18, 1 << 10, 1 << 14
TP_CALLED_AS_VECTOR = 1 << 11 | 1 << 17  # Py_TPFLAGS_HAVE_VECTORCALL, Py_TPFLAGS_METHOD_DESCRIPTOR


def make_type(kind: ObjectType, address: Callable[[str], int], base: type) -> type:
    """The Python type whose slots are compiled functions."""
    members = (_Member * (len(kind.members) + 1))()
    for k, (name, code, field, access) in enumerate(kind.members):
        members[k] = _Member(name.encode(), code, kind.record.offset(field), access, None)
    methods = (_MethodDef * (len(kind.methods) + 1))()
    for k, (name, symbol, access) in enumerate(kind.methods):
        methods[k] = _MethodDef(name.encode(), address(f"fastgrad_{kind.symbol}_{symbol}"), access, None)
    slots = (_Slot * (len(kind.slots) + 5))()
    for k, name in enumerate(kind.slots):
        slots[k] = _Slot(SLOTS[name], address(f"fastgrad_{kind.symbol}_{name}"))
    slots[len(kind.slots)] = _Slot(PY_TP_MEMBERS, ctypes.addressof(members))
    slots[len(kind.slots) + 1] = _Slot(PY_TP_METHODS, ctypes.addressof(methods))
    getset = (_GetSet * (len(kind.held) + 2))()
    for k, which in enumerate(kind.held):
        get, put = (address(f"fastgrad_{kind.symbol}_{verb}_held") for verb in ("get", "set"))
        getset[k] = _GetSet(HELD[which].name.encode(), get, put, None, which)
    if "dict" in kind.record.fields:
        get, put = (llvm.address_of_symbol(f"PyObject_Generic{verb}Dict") for verb in ("Get", "Set"))
        getset[len(kind.held)] = _GetSet(b"__dict__", get, put, None, None)
    slots[len(kind.slots) + 2] = _Slot(PY_TP_GETSET, ctypes.addressof(getset))
    flags = TP_DEFAULT | TP_BASETYPE | (TP_HAVE_GC if kind.collected else 0)
    if kind.vector:
        slots[len(kind.slots) + 3] = _Slot(SLOTS["call"], llvm.address_of_symbol("PyVectorcall_Call"))
        flags = (flags & ~TP_BASETYPE) | TP_CALLED_AS_VECTOR
    spec = _Spec(f"fastgrad.native.{kind.name}".encode(), kind.size, 0, flags, ctypes.addressof(slots))
    _keep.extend((members, methods, getset, slots, spec))
    new = ctypes.pythonapi.PyType_FromSpecWithBases
    new.restype = ctypes.py_object
    new.argtypes = [ctypes.c_void_p, ctypes.py_object]
    return new(ctypes.addressof(spec), (base,))  # type: ignore[no-any-return]


# How functions return, by kinds of results; the others a word.
_RETURNS = {"none": "v", "inner": "x"}


ROOMS = (
    ("fastgrad.native.shapes",),
    ("fastgrad.native.backward", "fastgrad.native.graph"),
    ("fastgrad.native.python", "fastgrad.native.objects"),
)
"""What of the runtime is compiled beside the rest: see `parts`."""


def _compile_runtime() -> bytes:
    from fastgrad.native.build.compiler import compile_parts
    from fastgrad.native.build.incremental import lowered_functions
    from fastgrad.native.python.wrappers import wrappers

    def function(place: str) -> Any:
        module, name = place.split(":")
        return getattr(importlib.import_module(f"fastgrad.native.{module}"), name)

    exports = [Export(e.name, function(e.place), e.letters, _RETURNS.get(e.result, "i")) for e in ENTRIES]
    with lowered_functions():
        codes = compile_parts("runtime", exports, ROOMS, wrappers)
    return b"".join(len(code).to_bytes(8, "little") + code for code in codes)


def _parts_of(joined: bytes) -> Iterator[bytes]:
    """The object files of the runtime, which lie one behind the other, each behind its length."""
    at = 0
    while at < len(joined):
        size = int.from_bytes(joined[at : at + 8], "little")
        yield joined[at + 8 : at + 8 + size]
        at += 8 + size


RUNTIME_SECONDS = 30.0  # that compiling it takes; for messages


def _check_interpreter() -> None:
    if sys.implementation.name != "cpython":
        raise ImportError(f"fastgrad needs CPython, not {sys.implementation.name}")
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        raise ImportError(
            "fastgrad does not support the free-threaded build of CPython yet; use the usual build"
        )


def _load_runtime() -> tuple[types.SimpleNamespace, memoryview, list[type]]:
    _check_interpreter()
    key = cache.hash_package("native")
    name = f"runtime-{key}{'-debug' if flags.DEBUG else ''}"
    unit = cache.get(name, "the runtime", _compile_runtime, RUNTIME_SECONDS)
    address = load_object(*_parts_of(unit.code))
    names = [entry.name for entry in ENTRIES if entry.is_public]
    namespace = types.SimpleNamespace(**{n: make_function(n, address(f"fastgrad_{n}")) for n in names})
    record = memoryview((ctypes.c_int64 * RUNTIME.words).from_address(address("fastgrad_runtime")))
    words = record.cast("B").cast("q")
    for field, symbol in (("read_attribute", "module_getattro"), ("planned_call", "planned_call")):
        words[RUNTIME.fields[field][0]] = address(f"fastgrad_{symbol}")
    made: dict[str, type] = {}
    for kind in TYPES:
        made[kind.name] = make_type(kind, address, made.get(kind.base, object))
    return namespace, words, list(made.values())


rt: types.SimpleNamespace
WORDS: memoryview
"""The words of the runtime's record, as integers."""
TensorBase: Any  # a type made at run time, as the two below
if TYPE_CHECKING:

    class NodeBase:
        _handle: int
        _metadata: Any
        _function: Any
        _to_save: Any
        _dirty: Any
        _non_differentiable: Any
        _packed: Any
        _options: int

    class HandleBase:
        _extra: Any
        id: int

    class ContextBase:
        _on: int
        _off: int
        _setting: int
        _gives_self: int

        def __enter__(self) -> Any: ...
        def __exit__(self, *error: object) -> None: ...

    class SwitchBase(ContextBase):
        def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

    class ModuleBase:
        def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

    class NativeHookBase:
        _function: Any
        _state: Any
        _access: int
        _rank: int
        _op: int

        def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

    class Planned:
        def __call__(self, *args: Any, **kwargs: Any) -> Any: ...


rt, WORDS, _types = _load_runtime()
(  # type: ignore[misc]
    TensorBase, NodeBase, HandleBase, ContextBase, SwitchBase, ModuleBase, Planned, NativeHookBase,
) = _types  # fmt: skip


def runtime_get(field: str, index: int = 0) -> int:
    """A word of the runtime's record."""
    return WORDS[RUNTIME.fields[field][0] + index]


def runtime_set(field: str, value: int, index: int = 0) -> None:
    """Set a word of the runtime's record."""
    WORDS[RUNTIME.fields[field][0] + index] = value


def runtime_set_object(field: str, value: object, index: int = 0) -> None:
    """Let the runtime know a Python object, which then lives as long as the process."""
    rt.set_object(RUNTIME.fields[field][0] + index, value)


KERNEL_TABLE = np.zeros(MAX_KERNELS * N_DEVICES * N_DTYPES * N_LAYOUTS, np.int64)
"""The addresses of kernels, by their cells."""
runtime_set("kernels", KERNEL_TABLE.ctypes.data)
runtime_set_object("context_base", ContextBase)
runtime_set_object("module_base", ModuleBase)
runtime_set_object("planned_type", Planned)
runtime_set_object("type_error", TypeError)
runtime_set_object("runtime_error", RuntimeError)
runtime_set_object("system_error", SystemError)
