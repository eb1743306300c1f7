"""The slots of the runtime's Python types, as LLVM IR: thin functions of the shape that CPython calls.

An operator such as ``a * b`` reaches the compiled dispatch without a Python frame. What the slots do with an object's
life stands in `objects`. `Tensor`, `Node` and `RemovableHandle` derive from these types; only functions of
CPython's documented API are used.
"""

from __future__ import annotations

from fastgrad.native.contracts.ops import BINARY_OPERATORS, INPLACE_OPERATORS, OPERATORS, UNARY_OPERATORS
from fastgrad.native.contracts.records import RUNTIME

_API = """
declare void @PyErr_Clear()
declare ptr @PyTuple_New(i64)
declare i32 @PyTuple_SetItem(ptr, i64, ptr)
@PyFloat_Type = external global i8
@PyLong_Type = external global i8
"""

# What the IR calls of the compiled runtime, with the types that fit its callers: p an object, i a word, v nothing,
# b an `int`, _ an argument that is not passed on. Name, export, result, arguments.
_SHIMS = (
    ("fail", "entry_refused", "p", "ipi"),
    ("apply", "apply", "p", "_pi"),
    ("slot_new", "no_new_tensor", "p", "___"),
    ("node_slot_new", "no_new_node", "p", "___"),
    ("object_handle", "object_handle", "i", "p"),
    ("optional_handle", "optional_handle", "i", "p"),
    ("node_handle", "node_handle", "i", "p"),
    ("pass_handle", "pass_handle", "i", "p"),
    ("wrap", "wrap", "p", "i"),
    ("wrap_optional", "wrap_optional", "p", "i"),
    ("slot_dealloc", "dealloc_tensor", "v", "p"),
    ("slot_traverse", "traverse_tensor", "b", "ppp"),
    ("slot_clear", "clear_tensor", "b", "p"),
    ("node_slot_dealloc", "dealloc_node", "v", "p"),
    ("node_slot_traverse", "traverse_node", "b", "ppp"),
    ("node_slot_clear", "clear_node", "b", "p"),
    ("node_slot_get_held", "get_held", "p", "pi"),
    ("node_slot_set_held", "set_held", "b", "ppi"),
    ("handle_slot_dealloc", "dealloc_handle", "v", "p"),
    ("context_slot_dealloc", "dealloc_context", "v", "p"),
    ("context_slot_traverse", "traverse_context", "b", "ppp"),
    ("context_slot_clear", "clear_context", "b", "p"),
    ("context_slot_call", "context_call", "p", "ppp"),
    ("context_slot_enter", "context_enter", "p", "p"),
    ("context_slot_exit", "context_exit", "p", "p"),
)
_TYPES = {"_": "ptr", "p": "ptr", "i": "i64", "v": "void", "b": "i32"}
_CONVERSIONS = {
    "p": "  %out = inttoptr i64 %value to ptr\n  ret ptr %out", "i": "  ret i64 %value", "v": "  ret void",
    "b": "  %out = trunc i64 %value to i32\n  ret i32 %out",
}  # fmt: skip


def runtime_field(field: str) -> str:
    words = RUNTIME.words
    index = RUNTIME.fields[field][0]
    return f"getelementptr inbounds ([{words} x i64], ptr @fastgrad_runtime, i64 0, i64 {index})"


def _shim(name: str, symbol: str, result: str, args: str) -> str:
    parameters = ", ".join(f"{_TYPES[letter]} %a{k}" for k, letter in enumerate(args))
    lines = [
        f"define {_TYPES[result]} @fastgrad_{name}({parameters}) {{",
        "  %result = alloca i64",
        "  %info = alloca ptr",
    ]
    passed = ["ptr %result", "ptr %info"]
    for k, letter in enumerate(args):
        if letter == "_":
            continue
        if letter == "p":
            lines.append(f"  %w{k} = ptrtoint ptr %a{k} to i64")
        passed.append(f"i64 %{'w' if letter == 'p' else 'a'}{k}")
    lines.append(f"  %code = call i32 @{symbol}({', '.join(passed)})")
    if result != "v":
        lines.append("  %value = load i64, ptr %result")
    return "\n".join([*lines, _CONVERSIONS[result], "}"])


def object_ir(symbols: dict[str, str]) -> str:
    """The functions of the type as text; `symbols` maps exports of the runtime to their compiled names."""
    parts = [_API, _CORE.format(**_names(symbols))]
    parts += [_shim(name, symbols[export], result, args) for name, export, result, args in _SHIMS]
    index = {name: k for k, name in enumerate(OPERATORS)}
    for name in BINARY_OPERATORS:
        parts.append(_BINARY.format(name=name, k=index[name], **_names(symbols)))
    for name in INPLACE_OPERATORS:
        parts.append(_INPLACE.format(name=name, k=index["inplace_" + name], **_names(symbols)))
    for name in UNARY_OPERATORS:
        parts.append(_UNARY.format(name=name, k=index[name], **_names(symbols)))
    parts.append(_COMPARE.format(first=index["lt"], **_names(symbols)))
    return "\n".join(parts)


def _names(symbols: dict[str, str]) -> dict[str, str]:
    fields = ("operator_fallback", "operators")
    values = {"rt_" + field: runtime_field(field) for field in fields}
    return values | {"fn_" + name: symbol for name, symbol in symbols.items()}


_CORE = """
define i64 @fastgrad_slot_hash(ptr %self) {{
  %address = ptrtoint ptr %self to i64
  %hash = lshr i64 %address, 4
  ret i64 %hash
}}

; An operator with something other than two tensors: numbers take a compiled path, the rest goes to Python.
define ptr @fastgrad_operator_other(ptr %a, ptr %b, i64 %k) {{
  %ha = call i64 @fastgrad_object_handle(ptr %a)
  %left = icmp ne i64 %ha, 0
  br i1 %left, label %number, label %swap
swap:
  %hb = call i64 @fastgrad_object_handle(ptr %b)
  br label %number
number:
  %handle = phi i64 [ %ha, %0 ], [ %hb, %swap ]
  %other = phi ptr [ %b, %0 ], [ %a, %swap ]
  %swapped = phi i64 [ 0, %0 ], [ 1, %swap ]
  %none = icmp eq i64 %handle, 0
  br i1 %none, label %python, label %kind
kind:
  %ptype = getelementptr i8, ptr %other, i64 8
  %type = load ptr, ptr %ptype
  %float = icmp eq ptr %type, @PyFloat_Type
  br i1 %float, label %real, label %notfloat
real:
  %value = call double @PyFloat_AsDouble(ptr %other)
  br label %scalar
notfloat:
  %int = icmp eq ptr %type, @PyLong_Type
  br i1 %int, label %whole, label %python
whole:
  %integer = call i64 @PyLong_AsLongLong(ptr %other)
  %minus = icmp eq i64 %integer, -1
  br i1 %minus, label %check, label %scalar
check:
  %error = call ptr @PyErr_Occurred()
  %fine = icmp eq ptr %error, null
  br i1 %fine, label %scalar, label %toobig
toobig:
  call void @PyErr_Clear()
  br label %python
scalar:
  %f = phi double [ %value, %real ], [ 0.0, %whole ], [ 0.0, %check ]
  %i = phi i64 [ 0, %real ], [ %integer, %whole ], [ %integer, %check ]
  %which = phi i64 [ 1, %real ], [ 0, %whole ], [ 0, %check ]
  %result = alloca i64
  %info = alloca ptr
  %po = getelementptr i64, ptr {rt_operators}, i64 %k
  %op = load i64, ptr %po
  %code = call i32 @{fn_scalar_operator}(ptr %result, ptr %info, i64 %op, i64 %handle, i64 %which, double %f, i64 %i,
    i64 %swapped)
  %out = load i64, ptr %result
  %bad = icmp sle i64 %out, 0
  br i1 %bad, label %python, label %good
good:
  %object = call ptr @fastgrad_wrap(i64 %out)
  ret ptr %object
python:
  %fallback = call ptr @fastgrad_operator_python(ptr %a, ptr %b, i64 %k)
  ret ptr %fallback
}}

define ptr @fastgrad_operator_python(ptr %a, ptr %b, i64 %k) noinline cold {{
  %error = call ptr @PyErr_Occurred()
  %clean = icmp eq ptr %error, null
  br i1 %clean, label %ask, label %raised
raised:  ; by a hook, while the compiled path ran
  ret ptr null
ask:
  %args = alloca [3 x ptr]
  %slot = call ptr @PyLong_FromLongLong(i64 %k)
  store ptr %a, ptr %args
  %p1 = getelementptr ptr, ptr %args, i64 1
  store ptr %b, ptr %p1
  %p2 = getelementptr ptr, ptr %args, i64 2
  store ptr %slot, ptr %p2
  %callable = load ptr, ptr {rt_operator_fallback}
  %r = call ptr @PyObject_Vectorcall(ptr %callable, ptr %args, i64 3, ptr null)
  call void @Py_DecRef(ptr %slot)
  ret ptr %r
}}

define ptr @fastgrad_integers(ptr %list, i64 %n) {{
  %tuple = call ptr @PyTuple_New(i64 %n)
  %lost = icmp eq ptr %tuple, null
  br i1 %lost, label %done, label %loop
loop:
  %i = phi i64 [ 0, %0 ], [ %next, %body ]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %body, label %done
body:
  %p = getelementptr i64, ptr %list, i64 %i
  %v = load i64, ptr %p
  %o = call ptr @PyLong_FromLongLong(i64 %v)
  %s = call i32 @PyTuple_SetItem(ptr %tuple, i64 %i, ptr %o)
  %next = add i64 %i, 1
  br label %loop
done:
  ret ptr %tuple
}}

define ptr @fastgrad_operator(ptr %a, ptr %b, i64 %k) alwaysinline {{
  %ha = call i64 @fastgrad_object_handle(ptr %a)
  %hb = call i64 @fastgrad_object_handle(ptr %b)
  %la = icmp ne i64 %ha, 0
  %lb = icmp ne i64 %hb, 0
  %both = and i1 %la, %lb
  br i1 %both, label %fast, label %other
fast:
  %result = alloca i64
  %info = alloca ptr
  %po = getelementptr i64, ptr {rt_operators}, i64 %k
  %op = load i64, ptr %po
  %code = call i32 @{fn_binary_operator}(ptr %result, ptr %info, i64 %op, i64 %ha, i64 %hb)
  %out = load i64, ptr %result
  %bad = icmp sle i64 %out, 0
  br i1 %bad, label %failed, label %good
good:
  %object = call ptr @fastgrad_wrap(i64 %out)
  ret ptr %object
failed:
  %raise = call ptr @fastgrad_operator_python(ptr %a, ptr %b, i64 %k)
  ret ptr %raise
other:
  %r = call ptr @fastgrad_operator_other(ptr %a, ptr %b, i64 %k)
  ret ptr %r
}}
"""

_BINARY = """
define ptr @fastgrad_slot_{name}(ptr %a, ptr %b) {{
  %r = call ptr @fastgrad_operator(ptr %a, ptr %b, i64 {k})
  ret ptr %r
}}"""

_INPLACE = """
define ptr @fastgrad_slot_inplace_{name}(ptr %a, ptr %b) {{
  %r = call ptr @fastgrad_operator_python(ptr %a, ptr %b, i64 {k})
  ret ptr %r
}}"""

_UNARY = """
define ptr @fastgrad_slot_{name}(ptr %a) {{
  %ha = call i64 @fastgrad_object_handle(ptr %a)
  %none = icmp eq i64 %ha, 0
  br i1 %none, label %failed, label %call
call:
  %result = alloca i64
  %info = alloca ptr
  %po = getelementptr i64, ptr {rt_operators}, i64 {k}
  %op = load i64, ptr %po
  %code = call i32 @{fn_unary_operator}(ptr %result, ptr %info, i64 %op, i64 %ha)
  %out = load i64, ptr %result
  %bad = icmp sle i64 %out, 0
  br i1 %bad, label %failed, label %good
good:
  %object = call ptr @fastgrad_wrap(i64 %out)
  ret ptr %object
failed:
  %raise = call ptr @fastgrad_operator_python(ptr %a, ptr @_Py_NoneStruct, i64 {k})
  ret ptr %raise
}}"""

_COMPARE = """
define ptr @fastgrad_slot_richcompare(ptr %a, ptr %b, i32 %which) {{
  %wide = zext i32 %which to i64
  %k = add i64 %wide, {first}
  %r = call ptr @fastgrad_operator(ptr %a, ptr %b, i64 %k)
  ret ptr %r
}}"""
