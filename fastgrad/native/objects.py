"""The Python object of a tensor, as LLVM IR: a thin extension type whose slots call the runtime directly.

An operator such as ``a * b`` reaches the compiled dispatch without a Python frame. The object holds a handle
(one reference to the record), the record's generation, a dict for what Python attaches, and weak references.
While an object lives, its record knows it (`tensor.pyobj`), so that a tensor keeps one identity in Python.

`Tensor` in `fastgrad.tensor` derives from this type; only functions of CPython's documented API are used.
"""

from __future__ import annotations

from fastgrad.native import layout
from fastgrad.native.compiler import runtime_field
from fastgrad.native.finalize import FINALIZE
from fastgrad.native.objects_layout import OBJECT_DICT, OBJECT_GENERATION, OBJECT_HANDLE, OBJECT_WEAKLIST

_API = """
declare ptr @PyType_GenericAlloc(ptr, i64)
declare ptr @PyType_GetSlot(ptr, i32)
declare void @PyObject_GC_UnTrack(ptr)
declare void @PyObject_ClearWeakRefs(ptr)
declare void @PyErr_Clear()
declare ptr @PyObject_CallNoArgs(ptr)
declare ptr @PyObject_CallOneArg(ptr, ptr)
declare void @PyErr_WriteUnraisable(ptr)
declare void @PyErr_Fetch(ptr, ptr, ptr)
declare void @PyErr_Restore(ptr, ptr, ptr)
declare ptr @PyDict_GetItem(ptr, ptr)
declare i32 @PyDict_SetItem(ptr, ptr, ptr)
declare ptr @PyTuple_New(i64)
declare i32 @PyTuple_SetItem(ptr, i64, ptr)
@PyFloat_Type = external global i8
@PyLong_Type = external global i8
"""


def _record_field(field: str) -> int:
    return layout.TENSOR.offset(field)


def object_ir(symbols: dict[str, str], debug: bool = False) -> str:
    """The functions of the type as text; `symbols` maps exports of the runtime to their compiled names."""
    parts = [
        _API,
        FINALIZE.format(**_names(symbols)),
        _CORE.format(**_names(symbols), generation_check=_GENERATION_CHECK if debug else _NO_CHECK),
    ]
    index = {name: k for k, name in enumerate(layout.OPERATORS)}
    for name in layout.BINARY_OPERATORS:
        parts.append(_BINARY.format(name=name, k=index[name], **_names(symbols)))
    for name in layout.INPLACE_OPERATORS:
        parts.append(_INPLACE.format(name=name, k=index["inplace_" + name], **_names(symbols)))
    for name in layout.UNARY_OPERATORS:
        parts.append(_UNARY.format(name=name, k=index[name], **_names(symbols)))
    parts.append(_COMPARE.format(first=index["lt"], **_names(symbols)))
    return "\n".join(parts)


def _names(symbols: dict[str, str]) -> dict[str, str]:
    fields = (
        "status", "wrap_error", "tensor_type", "tensor_base", "operator_fallback", "operators", "finalizer",
        "node_table", "hooks_name", "reference_type",
    )  # fmt: skip
    values = {"rt_" + field: runtime_field(field) for field in fields}
    values |= {"fn_" + name: symbol for name, symbol in symbols.items()}
    values |= {
        "handle": str(OBJECT_HANDLE), "generation": str(OBJECT_GENERATION), "dict": str(OBJECT_DICT),
        "weaklist": str(OBJECT_WEAKLIST), "rec_pyobj": str(_record_field("pyobj")),
        "rec_generation": str(_record_field("generation")), "rec_flags": str(_record_field("flags")),
        "has_python": str(layout.HAS_PYTHON), "bad_handle": str(layout.BAD_HANDLE),
    }  # fmt: skip
    return values


_NO_CHECK = "  ret i64 %handle"
_GENERATION_CHECK = """  %pg = getelementptr i8, ptr %object, i64 24
  %mine = load i64, ptr %pg
  %good = call i64 @fastgrad_generation(i64 %handle)
  %same = icmp eq i64 %mine, %good
  %checked = select i1 %same, i64 %handle, i64 0
  ret i64 %checked"""

_CORE = """
define i64 @fastgrad_generation(i64 %handle) {{
  %record = inttoptr i64 %handle to ptr
  %p = getelementptr i8, ptr %record, i64 {rec_generation}
  %g = load i64, ptr %p
  ret i64 %g
}}

define i64 @fastgrad_object_handle(ptr %object) {{
  %ptype = getelementptr i8, ptr %object, i64 8
  %type = load ptr, ptr %ptype
  %tensor = load ptr, ptr {rt_tensor_type}
  %exact = icmp eq ptr %type, %tensor
  br i1 %exact, label %yes, label %maybe
maybe:
  %base = load ptr, ptr {rt_tensor_base}
  %sub = call i32 @PyType_IsSubtype(ptr %type, ptr %base)
  %is = icmp ne i32 %sub, 0
  br i1 %is, label %yes, label %no
no:
  ret i64 0
yes:
  %ph = getelementptr i8, ptr %object, i64 {handle}
  %handle = load i64, ptr %ph
{generation_check}
}}

define ptr @fastgrad_fail(i64 %status, ptr %args, i64 %n) noinline cold {{
  store i64 %status, ptr {rt_status}
  %callable = load ptr, ptr {rt_wrap_error}
  %r = call ptr @PyObject_Vectorcall(ptr %callable, ptr %args, i64 %n, ptr null)
  ret ptr null
}}

define ptr @fastgrad_wrap(i64 %handle) {{
  %record = inttoptr i64 %handle to ptr
  %pp = getelementptr i8, ptr %record, i64 {rec_pyobj}
  %known = load ptr, ptr %pp
  %none = icmp eq ptr %known, null
  br i1 %none, label %make, label %old
old:
  call void @Py_IncRef(ptr %known)
  call void @fastgrad_drop(i64 %handle)
  ret ptr %known
make:
  %type = load ptr, ptr {rt_tensor_type}
  %object = call ptr @PyType_GenericAlloc(ptr %type, i64 0)
  %failed = icmp eq ptr %object, null
  br i1 %failed, label %lost, label %fill
lost:
  call void @fastgrad_drop(i64 %handle)
  ret ptr null
fill:
  call void @fastgrad_attach(ptr %object, i64 %handle)
  ret ptr %object
}}

define void @fastgrad_attach(ptr %object, i64 %handle) {{
  %record = inttoptr i64 %handle to ptr
  %pp = getelementptr i8, ptr %record, i64 {rec_pyobj}
  store ptr %object, ptr %pp
  %ph = getelementptr i8, ptr %object, i64 {handle}
  store i64 %handle, ptr %ph
  %g = call i64 @fastgrad_generation(i64 %handle)
  %pg = getelementptr i8, ptr %object, i64 {generation}
  store i64 %g, ptr %pg
  ret void
}}

define void @fastgrad_drop(i64 %handle) {{
  %result = alloca ptr
  %info = alloca ptr
  %code = call i32 @{fn_drop_tensor}(ptr %result, ptr %info, i64 %handle)
  ret void
}}

define void @fastgrad_slot_dealloc(ptr %self) {{
  %ptype = getelementptr i8, ptr %self, i64 8
  %type = load ptr, ptr %ptype
  call void @PyObject_GC_UnTrack(ptr %self)
  %pw = getelementptr i8, ptr %self, i64 {weaklist}
  %weak = load ptr, ptr %pw
  %unwatched = icmp eq ptr %weak, null
  br i1 %unwatched, label %attributes, label %watched
watched:
  call void @PyObject_ClearWeakRefs(ptr %self)
  br label %attributes
attributes:
  %cleared = call i32 @fastgrad_slot_clear(ptr %self)
  %ph = getelementptr i8, ptr %self, i64 {handle}
  %handle = load i64, ptr %ph
  %empty = icmp eq i64 %handle, 0
  br i1 %empty, label %free, label %drop
drop:
  %record = inttoptr i64 %handle to ptr
  %pp = getelementptr i8, ptr %record, i64 {rec_pyobj}
  %known = load ptr, ptr %pp
  %mine = icmp eq ptr %known, %self
  br i1 %mine, label %forget, label %release
forget:
  store ptr null, ptr %pp
  br label %release
release:
  store i64 0, ptr %ph
  call void @fastgrad_drop(i64 %handle)
  br label %free
free:
  %deallocate = call ptr @PyType_GetSlot(ptr %type, i32 74)
  call void %deallocate(ptr %self)
  call void @Py_DecRef(ptr %type)
  ret void
}}

define i32 @fastgrad_slot_traverse(ptr %self, ptr %visit, ptr %arg) {{
  %ptype = getelementptr i8, ptr %self, i64 8
  %type = load ptr, ptr %ptype
  %pd = getelementptr i8, ptr %self, i64 {dict}
  %dict = load ptr, ptr %pd
  %bare = icmp eq ptr %dict, null
  br i1 %bare, label %last, label %look
look:
  %r = call i32 %visit(ptr %dict, ptr %arg)
  %stop = icmp ne i32 %r, 0
  br i1 %stop, label %out, label %last
out:
  ret i32 %r
last:
  %s = call i32 %visit(ptr %type, ptr %arg)
  ret i32 %s
}}

define i32 @fastgrad_slot_clear(ptr %self) {{
  %pd = getelementptr i8, ptr %self, i64 {dict}
  %dict = load ptr, ptr %pd
  %bare = icmp eq ptr %dict, null
  br i1 %bare, label %done, label %release
release:
  store ptr null, ptr %pd
  call void @Py_DecRef(ptr %dict)
  br label %done
done:
  ret i32 0
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
  %code = call i32 @{fn_scalar_operator}(ptr %result, ptr %info, i64 %op, i64 %handle, i64 %kind, double %f, i64 %i, i64 %swapped)
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

define i64 @fastgrad_optional_handle(ptr %object) {{
  %none = icmp eq ptr %object, @_Py_NoneStruct
  br i1 %none, label %absent, label %present
absent:
  ret i64 0
present:
  %handle = call i64 @fastgrad_object_handle(ptr %object)
  %wrong = icmp eq i64 %handle, 0
  %out = select i1 %wrong, i64 -1, i64 %handle
  ret i64 %out
}}

define ptr @fastgrad_wrap_optional(i64 %handle) {{
  %none = icmp eq i64 %handle, 0
  br i1 %none, label %absent, label %present
absent:
  call void @Py_IncRef(ptr @_Py_NoneStruct)
  ret ptr @_Py_NoneStruct
present:
  %object = call ptr @fastgrad_wrap(i64 %handle)
  ret ptr %object
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
  %c2 = call i32 @{fn_call_entry}(ptr %result, ptr %info, i64 %op, i64 %nt, ptr %ins, i64 %na, ptr %attrs, ptr %outs, i64 %no)
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

; adopt(type, tensor): an object of a subclass for the record of a fresh tensor, which the old object gives up.
define ptr @fastgrad_adopt(ptr %self, ptr %args, i64 %n) {{
  %type = load ptr, ptr %args
  %p1 = getelementptr ptr, ptr %args, i64 1
  %old = load ptr, ptr %p1
  %handle = call i64 @fastgrad_object_handle(ptr %old)
  %object = call ptr @PyType_GenericAlloc(ptr %type, i64 0)
  %lost = icmp eq ptr %object, null
  br i1 %lost, label %out, label %fill
fill:
  %ph = getelementptr i8, ptr %old, i64 {handle}
  store i64 0, ptr %ph
  call void @fastgrad_attach(ptr %object, i64 %handle)
  br label %out
out:
  ret ptr %object
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
