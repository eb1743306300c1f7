"""Transforms of functions, with the interface of ``torch.func``: derivatives, Jacobians, and batches by `vmap`."""

from fastgrad.func.derivatives import grad, grad_and_value, jvp, linearize, vjp
from fastgrad.func.mapping import vmap
from fastgrad.func.matrices import hessian, jacfwd, jacrev

__all__ = [
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "vjp",
    "vmap",
]
