"""From Python objects to handles and back."""

from __future__ import annotations

from fastgrad.flags import DEBUG
from fastgrad.native.base.callbacks import call_python
from fastgrad.native.base.intrinsics import (
    native,
    native_inline,
    native_once,
    node,
    node_object,
    runtime,
    task,
    tensor,
    tensor_object,
)
from fastgrad.native.base.pyapi import (
    int_type,
    none,
    py_alloc,
    py_decref,
    py_incref,
    py_integer,
    py_integer_value,
    py_is_subtype,
    raises,
    type_error,
    type_type,
)
from fastgrad.native.memory.references import drop, living_object, release_node, retain_node

never_made = raises(type_error, "expected a Tensor, but got one that was never made, or is gone")


# --- from objects to handles -----------------------------------------------------------------------------------


@native_inline
def type_of(o):
    """An object's class, borrowed."""
    return tensor_object(o).type


@native_inline
def is_tensor(o):
    """Whether an object is a tensor."""
    kind = type_of(o)
    return kind == runtime().tensor_type or py_is_subtype(kind, runtime().tensor_base) != 0


@native
def object_handle(o):
    """The handle of a tensor object; zero if it is none, or in debug mode if its record is another one by now."""
    if not is_tensor(o):
        return 0
    x = tensor_object(o)
    if DEBUG and x.handle != 0 and tensor(x.handle).generation != x.generation:
        return 0
    return x.handle


@native_inline
def is_batched(o):
    """Whether an object is a tensor of `vmap`, which computes for many: see Note [Batched tensors] in
    `fastgrad/func/batched.py`.
    """
    return type_of(o) == runtime().batched_type


@native
def operand_handle(o):
    """Like `object_handle` for what compiled code computes with: zero for a batched tensor, too."""
    if type_of(o) != runtime().tensor_type and is_batched(o):
        return 0
    return object_handle(o)


@native
def optional_operand(o):
    """Like `operand_handle`, zero for None and -1 for what is no tensor, or a batched one."""
    if o == none():
        return 0
    handle = operand_handle(o)
    return handle if handle != 0 else -1


@native
def optional_handle(o):
    """Like `object_handle`, zero for None and -1 for what is no tensor."""
    if o == none():
        return 0
    handle = object_handle(o)
    return handle if handle != 0 else -1


@native
def node_handle(o):
    """The handle of a node object; zero if it is none."""
    kind = type_of(o)
    if py_is_subtype(kind, runtime().node_base) == 0:
        return 0
    x = node_object(o)
    if DEBUG and x.handle != 0 and node(x.handle).generation != x.generation:
        return 0
    return x.handle


@native
def pass_handle(o):
    """The handle of the pass under way whose number an int is; zero for any other, and for anything else."""
    if type_of(o) != int_type():
        return 0
    number = py_integer_value(o)
    handle = runtime().current_task
    while handle != 0 and task(handle).id != number:
        handle = task(handle).previous
    return handle


# --- from handles to objects -----------------------------------------------------------------------------------


@native
def wrap(handle):
    """The object of a tensor, a new reference; takes over one of the record. Zero with an exception set."""
    t = tensor(handle)
    o = living_object(t)
    if o != 0:
        py_incref(o)
        drop(handle)
        return o
    o = py_alloc(runtime().tensor_type, 0)
    known = living_object(t)
    if o == 0 or known != 0:  # the collector, which may run any code, may have asked for it
        if o != 0:
            py_decref(o)
            o = known
            py_incref(o)
        drop(handle)
        return o
    attach(o, handle)
    return o


@native
def wrap_optional(handle):
    """Like `wrap`, None for zero."""
    if handle == 0:
        py_incref(none())
        return none()
    return wrap(handle)


@native_inline
def attach(o, handle):
    """Make an object and a tensor those of each other."""
    x = tensor_object(o)
    x.handle = handle
    x.generation = tensor(handle).generation
    tensor(handle).pyobj = o


no_class_of_tensors = raises(
    type_error,
    "Creating a Tensor subclass from a class that does not inherit from Tensor is not possible. Make sure your class "
    "inherits from Tensor.",
)


no_new_tensor = raises(
    type_error, "tensors are made by functions such as fastgrad.tensor, not by their class alone"
)
no_new_node = raises(type_error, "Node objects are made by the runtime, not by users")


@native
def adopt(kind, handle):
    """An object of a subclass for the record of a fresh tensor, which the old object gives up."""
    is_class = py_is_subtype(type_of(kind), type_type()) != 0
    if not is_class or py_is_subtype(kind, runtime().tensor_base) == 0:
        return no_class_of_tensors()
    fresh = py_alloc(kind, 0)
    if fresh != 0:
        tensor_object(tensor(handle).pyobj).handle = 0
        attach(fresh, handle)
    return fresh


@native_once
def wrap_first(handle):
    """The object of a node that is the first of its op to get one: Python makes the class. Zero with an exception set.

    Other code and other threads may run meanwhile; the node stays.
    """
    rt = runtime()
    retain_node(handle)
    op = node(handle).op
    number = py_integer(op)
    kind = call_python(rt.make_node_class, 1, number) if number != 0 else 0
    if number != 0:
        py_decref(number)
    o = 0
    if kind != 0:
        o = wrap_node_as(handle, kind)
        if rt.node_classes[op] == 0:
            rt.node_classes[op] = kind  # it stays
        else:
            py_decref(kind)  # another thread was faster; both got the same class
    release_node(handle)
    return o


@native
def wrap_node(handle):
    """The object of a node, a new reference, made if need be. Zero with an exception set."""
    n = node(handle)
    kind = runtime().node_classes[n.op]
    if kind == 0 and n.pyobj == 0:
        return wrap_first(handle)
    return wrap_node_as(handle, kind)


@native
def wrap_node_as(handle, kind):
    """The object of a node, a new reference, made with the type `kind` if need be. Zero with an exception set."""
    n = node(handle)
    if n.pyobj == 0:
        o = py_alloc(kind, 0)
        if o == 0:
            return 0
        if n.pyobj != 0:  # as in `wrap`
            py_decref(o)
        else:
            x = node_object(o)
            x.handle = handle
            x.generation = n.generation
            n.pyobj = o
            runtime().n_held_objects += 1
            for _ in range(n.refs):
                py_incref(o)
            return o
    py_incref(n.pyobj)
    return n.pyobj
