"""What happens when the Python object of a tensor goes, as LLVM IR: see Note [Where hooks live] in `autograd.hooks`."""

from __future__ import annotations

FINALIZE = """
; The hooks of a dying tensor object go to its node, if the node's entry is the plain reference to them; else 0.
define i32 @fastgrad_hand_over(ptr %self, i64 %handle) {{
  %result = alloca i64
  %info = alloca ptr
  %code = call i32 @{fn_heir}(ptr %result, ptr %info, i64 %handle)
  %node = load i64, ptr %result
  %none = icmp eq i64 %node, 0
  br i1 %none, label %no, label %look
look:
  %pd = getelementptr i8, ptr %self, i64 {dict}
  %dict = load ptr, ptr %pd
  %bare = icmp eq ptr %dict, null
  br i1 %bare, label %no, label %find
find:
  %name = load ptr, ptr {rt_hooks_name}
  %hooks = call ptr @PyDict_GetItem(ptr %dict, ptr %name)
  %without = icmp eq ptr %hooks, null
  br i1 %without, label %no, label %entry
entry:
  %key = call ptr @PyLong_FromLongLong(i64 %node)
  %keyless = icmp eq ptr %key, null
  br i1 %keyless, label %no, label %table
table:
  %nodes = load ptr, ptr {rt_node_table}
  %known = call ptr @PyDict_GetItem(ptr %nodes, ptr %key)
  %absent = icmp eq ptr %known, null
  br i1 %absent, label %drop, label %kind
kind:
  %pt = getelementptr i8, ptr %known, i64 8
  %type = load ptr, ptr %pt
  %reference = load ptr, ptr {rt_reference_type}
  %plain = icmp eq ptr %type, %reference
  br i1 %plain, label %write, label %drop
write:
  %set = call i32 @PyDict_SetItem(ptr %nodes, ptr %key, ptr %hooks)
  br label %drop
drop:
  %answer = phi i32 [ 0, %table ], [ 0, %kind ], [ 1, %write ]
  call void @Py_DecRef(ptr %key)
  ret i32 %answer
no:
  ret i32 0
}}

define void @fastgrad_slot_finalize(ptr %self) {{
  %ph = getelementptr i8, ptr %self, i64 {handle}
  %handle = load i64, ptr %ph
  %empty = icmp eq i64 %handle, 0
  br i1 %empty, label %done, label %check
check:
  %record = inttoptr i64 %handle to ptr
  %pp = getelementptr i8, ptr %record, i64 {rec_pyobj}
  %known = load ptr, ptr %pp
  %mine = icmp eq ptr %known, %self
  br i1 %mine, label %forget, label %flags
forget:
  store ptr null, ptr %pp
  br label %flags
flags:
  %pf = getelementptr i8, ptr %record, i64 {rec_flags}
  %bits = load i64, ptr %pf
  %has = and i64 %bits, {has_python}
  %plain = icmp eq i64 %has, 0
  br i1 %plain, label %done, label %tell
tell:
  %et = alloca ptr
  %ev = alloca ptr
  %eb = alloca ptr
  call void @PyErr_Fetch(ptr %et, ptr %ev, ptr %eb)
  %callable = load ptr, ptr {rt_finalizer}
  %over = icmp eq ptr %callable, null
  br i1 %over, label %restore, label %simple
simple:
  %done0 = call i32 @fastgrad_hand_over(ptr %self, i64 %handle)
  %handed = icmp ne i32 %done0, 0
  br i1 %handed, label %restore, label %call
call:
  %r = call ptr @PyObject_CallOneArg(ptr %callable, ptr %self)
  %raised = icmp eq ptr %r, null
  br i1 %raised, label %report, label %release
report:
  call void @PyErr_WriteUnraisable(ptr %callable)
  br label %restore
release:
  call void @Py_DecRef(ptr %r)
  br label %restore
restore:
  %t0 = load ptr, ptr %et
  %v0 = load ptr, ptr %ev
  %b0 = load ptr, ptr %eb
  call void @PyErr_Restore(ptr %t0, ptr %v0, ptr %b0)
  br label %done
done:
  ret void
}}
"""
