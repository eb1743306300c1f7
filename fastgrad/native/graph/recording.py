"""Recording: the node of a call, what it saves, and the history that its results get."""

from __future__ import annotations

from fastgrad.native.base.failures import failed
from fastgrad.native.base.intrinsics import (
    native,
    runtime,
    tensor,
)
from fastgrad.native.contracts.flags import (
    GRAD_ENABLED,
    SAVED_HOOKS,
)
from fastgrad.native.contracts.ops import NOT_DIFFERENTIABLE, ONE_DIFFERENTIABLE
from fastgrad.native.contracts.status import (
    RAISED,
)
from fastgrad.native.graph.graph import any_requires_grad, create_node
from fastgrad.native.graph.packing import pack_outputs
from fastgrad.native.graph.versions import catch_up_all
from fastgrad.native.launch.launch import op_record
from fastgrad.native.launch.promotion import is_floating
from fastgrad.native.memory.references import (
    release_node,
)
from fastgrad.native.tensors.tensors import set_history


@native
def record(op, n, ins, n_out, outs, n_attrs, attrs):
    """Give the outputs of a call their history, if gradients are on and an input asks for them."""
    info = op_record(op)
    if not runtime().mode & GRAD_ENABLED or not any_requires_grad(min(n, info.n_in), ins):
        return 0
    if info.flags & NOT_DIFFERENTIABLE or not is_floating(tensor(outs[0]).dtype):
        return 0
    status = catch_up_all(min(n, info.n_in), ins)
    if failed(status):
        return status
    handle = create_node(op, n, ins, n_out, outs, n_attrs, attrs)
    if failed(handle):
        return handle
    for k in range(n_out):
        if is_floating(tensor(outs[k]).dtype):
            set_history(outs[k], handle, k)
        if info.flags & ONE_DIFFERENTIABLE:
            break
    status = pack_outputs(handle, outs) if runtime().mode & SAVED_HOOKS else 0
    release_node(handle)
    if failed(status):
        return RAISED
    return 0
