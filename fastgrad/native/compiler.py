"""From Python functions to object code: Numba compiles, LLVM links and optimises, nothing is run.

A unit is a set of functions in one object file. Two sorts of functions leave a unit: kernels,
``void(int64 frame)``, and entries, which CPython calls. The wrappers of entries are emitted as LLVM IR here,
so that the optimiser sees through them; see Note [Entries].

Note [Entries]: an entry is a ``METH_FASTCALL`` function or a type slot. Its arguments are letters: ``i`` an int64,
``d`` a float64, ``T`` a tensor (its handle is read from the object), ``O`` a tensor or None, ``N`` a node (likewise),
``K`` a pass under way (its handle, a Python integer), ``o`` any object (its address).

Results: ``i``, ``d``, ``n`` nothing, ``s`` a status (a negative one raises), ``T`` a tensor: a handle becomes the
Python object that stands for it, zero None, a negative number is a status; ``R`` a new reference to a Python
object, zero if an exception is set, a negative number is a status; ``E`` an int64, -PYTHON_RAISED if an exception
is set; ``L`` a tuple of integers (the function gets the address of an array as its last argument and returns how many
it wrote);
``x`` nothing: the function is called by other wrappers only (pointers are ``p``).

A failing call stores the status in the runtime and calls the Python function that `runtime.wrap_error` holds with the
same arguments; it raises. Where an exception is set already, that one is raised.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import llvmlite.binding as llvm
from numba import njit, types

from fastgrad.native import layout
from fastgrad.native.intrinsics import NATIVE, OUT_OF_LINE
from fastgrad.native.pipeline import link

NUMBA_TYPES = {
    "d": types.float64, "n": types.void, "p": types.CPointer(types.int64), **dict.fromkeys("iTOsLRENKo", types.int64),
}  # fmt: skip
LLVM_TYPES = {"d": "double", "p": "ptr", **dict.fromkeys("iTONKo", "i64")}
HANDLES = {
    "T": ("object_handle", "0"), "O": ("optional_handle", "-1"), "N": ("node_handle", "0"), "K": ("pass_handle", "0"),
}  # fmt: skip


class Export(NamedTuple):
    """A function that leaves its unit.

    Parameters
    ----------
    name : str
        Its name in the manifest.
    function : callable
        A Python function or Numba dispatcher.
    args, returns : str
        Letters as in Note [Entries]; a kernel is ``("i", "k")``.
    """

    name: str
    function: Callable[..., Any]
    args: str = "i"
    returns: str = "k"


def compile_unit(
    name: str,
    exports: list[Export],
    *,
    objects: bool = False,
    options: dict[str, Any] | None = None,
) -> bytes:
    """Compile `exports` to one relocatable object file.

    Parameters
    ----------
    name : str
        Name of the LLVM module.
    exports : list of Export
        What the unit provides, each under the symbol ``fastgrad_<name>``.
    objects : bool
        Whether the unit holds the runtime and so the slots of the Python type.
    options : dict, optional
        Numba options in place of those of the runtime (kernels allow contraction).
    """
    symbols = []
    libraries = []
    for export in exports:
        symbol, library = _compile(export, options or NATIVE)
        symbols.append(symbol)
        libraries.append(library)
    module = link(libraries)
    module.link_in(llvm.parse_assembly(_wrappers(exports, symbols, objects)))
    module.name = name
    code = _emit(module, 2 if objects else 3)
    _check_symbols(module, name)
    return code


def _compile(export: Export, options: dict[str, Any]) -> tuple[str, Any]:
    args = export.args + ("i" if export.returns == "L" else "")
    signature: Any = tuple(NUMBA_TYPES[letter] for letter in args)
    if export.returns != "x":
        signature = (types.void if export.returns == "k" else NUMBA_TYPES[export.returns])(*signature)
    dispatcher = export.function if hasattr(export.function, "py_func") else njit(**options)(export.function)
    dispatcher.compile(signature)
    result = dispatcher.overloads[dispatcher.signatures[0]]
    return result.fndesc.llvm_func_name, result.library


def _emit(module: llvm.ModuleRef, level: int) -> bytes:
    # Everything but the wrappers becomes private to the unit, so that inlining and constant propagation see
    # that no function ever reports an exception.
    for function in module.functions:
        if not function.is_declaration and not function.name.startswith("fastgrad_"):
            function.linkage = llvm.Linkage.internal
            if any(name in function.name for name in OUT_OF_LINE):
                function.add_function_attribute("noinline")
    for variable in module.global_variables:
        if not variable.is_declaration:
            variable.linkage = llvm.Linkage.internal
    machine = target_machine()
    options = llvm.create_pipeline_tuning_options(speed_level=level)
    options.loop_vectorization = True
    options.slp_vectorization = True
    llvm.create_pass_builder(machine, options).getModulePassManager().run(
        module, llvm.create_pass_builder(machine, options)
    )
    return bytes(machine.emit_object(module))


def _check_symbols(module: llvm.ModuleRef, name: str) -> None:
    """Every function that the unit uses but does not hold must exist in the process: a call would crash."""
    for symbol in (*module.functions, *module.global_variables):
        if symbol.is_declaration and not symbol.name.startswith("llvm."):
            if llvm.address_of_symbol(symbol.name) is None:
                raise RuntimeError(f"unit {name} refers to {symbol.name}, which is not to be found")


def target_machine() -> llvm.TargetMachine:
    """The machine that object code is made for: this CPU with all its features."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_default_triple()
    features = llvm.get_host_cpu_features().flatten()
    return target.create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=features, opt=3, reloc="pic", codemodel="jitdefault", jit=True
    )


def _wrappers(exports: list[Export], symbols: list[str], objects: bool) -> str:
    lines = [_PRELUDE]
    if objects:
        size = layout.RUNTIME.words
        lines.append(f"@fastgrad_runtime = linkonce_odr global [{size} x i64] zeroinitializer, align 64")
    for export, symbol in zip(exports, symbols, strict=True):
        args = export.args + ("i" if export.returns == "L" else "")
        parameters = ", ".join(LLVM_TYPES[letter] for letter in args)
        lines.append(f"declare i32 @{symbol}(ptr, ptr{', ' + parameters if parameters else ''})")
        if export.returns == "k":
            lines.append(_KERNEL.format(name=export.name, symbol=symbol))
        elif export.returns in "sindTLRE":
            lines.append(_entry(export, symbol))
        elif export.returns != "x":
            raise ValueError(f"unknown result {export.returns!r} of {export.name}")
    if objects:
        lines.append(_objects({e.name: s for e, s in zip(exports, symbols, strict=True)}))
    return "\n".join(lines)


_PRELUDE = """
declare i64 @PyLong_AsLongLong(ptr)
declare ptr @PyLong_FromLongLong(i64)
declare double @PyFloat_AsDouble(ptr)
declare ptr @PyFloat_FromDouble(double)
declare ptr @PyErr_Occurred()
declare void @PyErr_SetString(ptr, ptr)
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
@_Py_NoneStruct = external global i8
@PyExc_TypeError = external global ptr
@fastgrad_text_count = private constant [39 x i8] c"fastgrad: wrong number of arguments   \\00"
"""

_KERNEL = """
define void @fastgrad_{name}(i64 %frame) {{
  %result = alloca ptr
  %info = alloca ptr
  %code = call i32 @{symbol}(ptr %result, ptr %info, i64 %frame)
  ret void
}}"""


def runtime_field(field: str) -> str:
    words = layout.RUNTIME.words
    index = layout.RUNTIME.fields[field][0]
    return f"getelementptr inbounds ([{words} x i64], ptr @fastgrad_runtime, i64 0, i64 {index})"


def _entry(export: Export, symbol: str) -> str:
    """The METH_FASTCALL wrapper of one entry."""
    n = len(export.args)
    body = [
        f"define ptr @fastgrad_{export.name}(ptr %self, ptr %args, i64 %n) {{",
        "  %result = alloca i64",
        "  %info = alloca ptr",
        "  %list = alloca [24 x i64]",
        f"  %ok = icmp eq i64 %n, {n}",
        "  br i1 %ok, label %a0, label %count",
        "count:",
        "  %te = load ptr, ptr @PyExc_TypeError",
        "  call void @PyErr_SetString(ptr %te, ptr @fastgrad_text_count)",
        "  ret ptr null",
    ]
    values = []
    for k, letter in enumerate(export.args):
        body += [
            f"a{k}:",
            f"  %p{k} = getelementptr ptr, ptr %args, i64 {k}",
            f"  %o{k} = load ptr, ptr %p{k}",
        ]
        if letter == "o":
            body += [f"  %v{k} = ptrtoint ptr %o{k} to i64", f"  br label %a{k + 1}"]
            values.append(f"i64 %v{k}")
            continue
        if letter in HANDLES:
            convert, bad = HANDLES[letter]
            body += [
                f"  %v{k} = call i64 @fastgrad_{convert}(ptr %o{k})",
                f"  %t{k} = icmp eq i64 %v{k}, {bad}",
                f"  br i1 %t{k}, label %type{k}, label %a{k + 1}",
                f"type{k}:",
                f"  %e{k} = call ptr @fastgrad_fail(i64 {layout.BAD_HANDLE}, ptr %args, i64 %n)",
                f"  ret ptr %e{k}",
            ]
            values.append(f"i64 %v{k}")
            continue
        convert, kind, minus = (
            ("PyLong_AsLongLong", "i64", "icmp eq i64 %v{}, -1")
            if letter == "i"
            else ("PyFloat_AsDouble", "double", "fcmp oeq double %v{}, -1.0")
        )
        body += [
            f"  %v{k} = call {kind} @{convert}(ptr %o{k})",
            f"  %m{k} = {minus.format(k)}",
            f"  br i1 %m{k}, label %check{k}, label %a{k + 1}",
            f"check{k}:",
            f"  %x{k} = call ptr @PyErr_Occurred()",
            f"  %y{k} = icmp eq ptr %x{k}, null",
            f"  br i1 %y{k}, label %a{k + 1}, label %raised{k}",
            f"raised{k}:",
            "  ret ptr null",
        ]
        values.append(f"{kind} %v{k}")
    if export.returns == "L":
        values.append("i64 %where")
    arguments = "".join(", " + value for value in values)
    body += [
        f"a{n}:",
        "  %where = ptrtoint ptr %list to i64",
        f"  %code = call i32 @{symbol}(ptr %result, ptr %info{arguments})",
    ]
    body += _RESULTS[export.returns].split("\n")
    body.append("}")
    return "\n".join(body)


_FAILED = """  %bad = icmp {test} i64 %value, 0
  br i1 %bad, label %failed, label %good
failed:
  %status = sub i64 0, %value
  %raise = call ptr @fastgrad_fail(i64 %status, ptr %args, i64 %n)
  ret ptr %raise
good:"""
_RESULTS = {
    "n": "  call void @Py_IncRef(ptr @_Py_NoneStruct)\n  ret ptr @_Py_NoneStruct",
    "i": "  %value = load i64, ptr %result\n  %boxed = call ptr @PyLong_FromLongLong(i64 %value)\n  ret ptr %boxed",
    "d": "  %value = load double, ptr %result\n"
    "  %boxed = call ptr @PyFloat_FromDouble(double %value)\n  ret ptr %boxed",
    "s": "  %value = load i64, ptr %result\n"
    + _FAILED.format(test="slt")
    + "\n  %boxed = call ptr @PyLong_FromLongLong(i64 %value)\n  ret ptr %boxed",
    "T": "  %value = load i64, ptr %result\n"
    + _FAILED.format(test="slt")
    + "\n  %object = call ptr @fastgrad_wrap_optional(i64 %value)\n  ret ptr %object",
    "R": "  %value = load i64, ptr %result\n"
    + _FAILED.format(test="slt")
    + "\n  %object = inttoptr i64 %value to ptr\n  ret ptr %object",
    "E": f"  %value = load i64, ptr %result\n  %raised = icmp eq i64 %value, -{layout.PYTHON_RAISED}\n"
    "  br i1 %raised, label %failed, label %good\nfailed:\n  ret ptr null\ngood:\n"
    "  %boxed = call ptr @PyLong_FromLongLong(i64 %value)\n  ret ptr %boxed",
    "L": "  %value = load i64, ptr %result\n"
    "  %tuple = call ptr @fastgrad_integers(ptr %list, i64 %value)\n  ret ptr %tuple",
}


def _objects(symbols: dict[str, str]) -> str:
    from fastgrad.native.objects import object_ir

    return object_ir(symbols)
