"""The slots of the runtime's Python types, as LLVM IR: thin functions of the shape that CPython calls.

An operator such as ``a * b`` reaches the compiled dispatch without a Python frame. What the slots do with an object's
life stands in `objects`. `Tensor`, `Node` and `RemovableHandle` derive from these types; only functions of
CPython's documented API are used.
"""

from __future__ import annotations

from fastgrad.native.contracts.ops import BINARY_OPERATORS, INPLACE_OPERATORS, OPERATORS, UNARY_OPERATORS
from fastgrad.native.contracts.records import RUNTIME
from fastgrad.native.contracts.status import BAD_HANDLE

_API = """
declare void @PyErr_Clear()
declare ptr @PyTuple_New(i64)
declare i32 @PyTuple_SetItem(ptr, i64, ptr)
@PyFloat_Type = external global i8
@PyLong_Type = external global i8
"""

# What the IR calls of the compiled runtime, with the types that fit its callers: p an object, i a word, v nothing,
# b an `int`. Name, export, result, arguments.
_SHIMS = (
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
    ("handle_slot_dealloc", "dealloc_handle", "v", "p"),
    ("context_slot_dealloc", "dealloc_context", "v", "p"),
    ("context_slot_traverse", "traverse_context", "b", "ppp"),
    ("context_slot_clear", "clear_context", "b", "p"),
    ("context_slot_call", "context_call", "p", "ppp"),
    ("context_slot_enter", "context_enter", "p", "p"),
    ("context_slot_exit", "context_exit", "p", "p"),
)
_TYPES = {"p": "ptr", "i": "i64", "v": "void", "b": "i32"}
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
    fields = ("status", "wrap_error", "operator_fallback", "operators")
    values = {"rt_" + field: runtime_field(field) for field in fields}
    return (
        values | {"fn_" + name: symbol for name, symbol in symbols.items()} | {"bad_handle": str(BAD_HANDLE)}
    )


_CORE = """
define ptr @fastgrad_fail(i64 %status, ptr %args, i64 %n) noinline cold {{
  %error = call ptr @PyErr_Occurred()
  %clean = icmp eq ptr %error, null
  br i1 %clean, label %ask, label %raised
raised:
  ret ptr null
ask:
  store i64 %status, ptr {rt_status}
  %callable = load ptr, ptr {rt_wrap_error}
  %r = call ptr @PyObject_Vectorcall(ptr %callable, ptr %args, i64 %n, ptr null)
  ret ptr null
}}

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
  %kind = phi i64 [ 1, %real ], [ 0, %whole ], [ 0, %check ]
  %result = alloca i64
  %info = alloca ptr
  %po = getelementptr i64, ptr {rt_operators}, i64 %k
  %op = load i64, ptr %po
  %code = call i32 @{fn_scalar_operator}(ptr %result, ptr %info, i64 %op, i64 %handle, i64 %kind, double %f, i64 %i,
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

; apply(op, n, n_outs, *tensors, *integers): n_outs 0 for one result, -1 for a change in place, else a tuple.
define ptr @fastgrad_apply(ptr %self, ptr %args, i64 %n) {{
  %op = call i64 @fastgrad_integer(ptr %args, i64 0)
  %nt = call i64 @fastgrad_integer(ptr %args, i64 1)
  %no = call i64 @fastgrad_integer(ptr %args, i64 2)
  %space = add i64 %n, 8
  %ins = alloca i64, i64 %space
  %attrs = alloca i64, i64 %space
  %few = icmp slt i64 %no, 2
  %room = select i1 %few, i64 2, i64 %no
  %outs = alloca i64, i64 %room
  %result = alloca i64
  %info = alloca ptr
  %last = add i64 %nt, 3
  br label %tensors
tensors:
  %i = phi i64 [ 3, %0 ], [ %i1, %store ]
  %more = icmp slt i64 %i, %last
  br i1 %more, label %one, label %integers
one:
  %pa = getelementptr ptr, ptr %args, i64 %i
  %object = load ptr, ptr %pa
  %handle = call i64 @fastgrad_optional_handle(ptr %object)
  %wrong = icmp eq i64 %handle, -1
  br i1 %wrong, label %bad, label %store
bad:
  %f0 = call ptr @fastgrad_fail(i64 {bad_handle}, ptr %args, i64 %n)
  ret ptr null
store:
  %k = sub i64 %i, 3
  %pi = getelementptr i64, ptr %ins, i64 %k
  store i64 %handle, ptr %pi
  %i1 = add i64 %i, 1
  br label %tensors
integers:
  %j = phi i64 [ %last, %tensors ], [ %j1, %keep ]
  %rest = icmp slt i64 %j, %n
  br i1 %rest, label %number, label %run
number:
  %v = call i64 @fastgrad_integer(ptr %args, i64 %j)
  %minus = icmp eq i64 %v, -1
  br i1 %minus, label %check, label %keep
check:
  %e = call ptr @PyErr_Occurred()
  %fine = icmp eq ptr %e, null
  br i1 %fine, label %keep, label %raised
raised:
  ret ptr null
keep:
  %m = sub i64 %j, %last
  %pm = getelementptr i64, ptr %attrs, i64 %m
  store i64 %v, ptr %pm
  %j1 = add i64 %j, 1
  br label %integers
run:
  %na = sub i64 %n, %last
  %inplace = icmp eq i64 %no, -1
  br i1 %inplace, label %write, label %make
write:
  %c1 = call i32 @{fn_inplace}(ptr %result, ptr %info, i64 %op, i64 %nt, ptr %ins, i64 %na, ptr %attrs)
  %w = load i64, ptr %result
  %wbad = icmp sle i64 %w, 0
  br i1 %wbad, label %failed, label %wgood
wgood:
  %wo = call ptr @fastgrad_wrap(i64 %w)
  ret ptr %wo
make:
  %c2 = call i32 @{fn_call_entry}(ptr %result, ptr %info, i64 %op, i64 %nt, ptr %ins, i64 %na, ptr %attrs, ptr %outs,
    i64 %no)
  %count = load i64, ptr %result
  %cbad = icmp sle i64 %count, 0
  br i1 %cbad, label %failed, label %cgood
failed:
  %value = phi i64 [ %w, %write ], [ %count, %make ]
  %status = sub i64 0, %value
  %f1 = call ptr @fastgrad_fail(i64 %status, ptr %args, i64 %n)
  ret ptr null
cgood:
  %only = icmp eq i64 %count, 1
  %single = icmp eq i64 %no, 0
  %plain = and i1 %only, %single
  br i1 %plain, label %first, label %tuple
first:
  %h0 = load i64, ptr %outs
  %o0 = call ptr @fastgrad_wrap(i64 %h0)
  ret ptr %o0
tuple:
  %t = call ptr @PyTuple_New(i64 %count)
  br label %fill
fill:
  %q = phi i64 [ 0, %tuple ], [ %q1, %put ]
  %qm = icmp slt i64 %q, %count
  br i1 %qm, label %put, label %out
put:
  %pq = getelementptr i64, ptr %outs, i64 %q
  %hq = load i64, ptr %pq
  %oq = call ptr @fastgrad_wrap(i64 %hq)
  %sq = call i32 @PyTuple_SetItem(ptr %t, i64 %q, ptr %oq)
  %q1 = add i64 %q, 1
  br label %fill
out:
  ret ptr %t
}}

define i64 @fastgrad_integer(ptr %args, i64 %k) {{
  %p = getelementptr ptr, ptr %args, i64 %k
  %o = load ptr, ptr %p
  %v = call i64 @PyLong_AsLongLong(ptr %o)
  ret i64 %v
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
