"""The functions that CPython calls, around compiled ones, as LLVM IR: see Note [Entries] in `contracts.entries`."""

from __future__ import annotations

from fastgrad.native.contracts.entries import Export
from fastgrad.native.contracts.records import RUNTIME
from fastgrad.native.contracts.status import BAD_HANDLE, RAISED
from fastgrad.native.python.type_slots import object_ir, runtime_field

LLVM_TYPES = {"d": "double", "p": "ptr", **dict.fromkeys("iTONKo", "i64")}
HANDLES = {
    "T": ("object_handle", "0"), "O": ("optional_handle", "-1"), "N": ("node_handle", "0"), "K": ("pass_handle", "0"),
}  # fmt: skip


def wrappers(exports: list[Export], symbols: list[str]) -> str:
    """The text of the runtime's entries and of the slots of its types; `symbols` are the compiled functions."""
    size = RUNTIME.words
    lines = [_PRELUDE, f"@fastgrad_runtime = linkonce_odr global [{size} x i64] zeroinitializer, align 64"]
    for export, symbol in zip(exports, symbols, strict=True):
        args = export.args + ("i" if export.returns == "L" else "")
        parameters = ", ".join(LLVM_TYPES[letter] for letter in args)
        lines.append(f"declare i32 @{symbol}(ptr, ptr{', ' + parameters if parameters else ''})")
        if export.returns in "sindTLRE":
            lines.append(_entry(export, symbol))
        elif export.returns != "x":
            raise ValueError(f"unknown result {export.returns!r} of {export.name}")
    lines.append(object_ir({e.name: s for e, s in zip(exports, symbols, strict=True)}))
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
@fastgrad_text_count = private constant [39 x i8] c"fastgrad: wrong number of arguments   \\00"
"""


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
        f"  %te = load ptr, ptr {runtime_field('type_error')}",
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
                f"  %e{k} = call ptr @fastgrad_fail(i64 {BAD_HANDLE}, ptr %args, i64 %n)",
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
  %raise = call ptr @fastgrad_fail(i64 %value, ptr %args, i64 %n)
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
    "E": f"  %value = load i64, ptr %result\n  %raised = icmp eq i64 %value, {RAISED}\n"
    "  br i1 %raised, label %failed, label %good\nfailed:\n  ret ptr null\ngood:\n"
    "  %boxed = call ptr @PyLong_FromLongLong(i64 %value)\n  ret ptr %boxed",
    "L": "  %value = load i64, ptr %result\n"
    "  %tuple = call ptr @fastgrad_integers(ptr %list, i64 %value)\n  ret ptr %tuple",
}
