"""Transforms of functions, with the interface of ``torch.func``: derivatives, Jacobians, and batches by `vmap`."""

from fastgrad.func.derivatives import grad, grad_and_value, jvp, linearize, vjp
from fastgrad.func.mapping import vmap
from fastgrad.func.matrices import hessian, jacfwd, jacrev
from fastgrad.func.modules import (
    functional_call,
    functionalize,
    replace_all_batch_norm_modules_,
    stack_module_state,
)
from fastgrad.module_names import getattr_of as _getattr_of

__all__ = [
    "functional_call",
    "functionalize",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "replace_all_batch_norm_modules_",
    "stack_module_state",
    "vjp",
    "vmap",
]

__getattr__ = _getattr_of(__name__)
