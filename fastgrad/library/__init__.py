"""Ops of users: formulas over scalars, functions on arrays, and functions of Python with PyTorch's interface. See
docs/users_ops.md.
"""

from fastgrad.library.arrays import op
from fastgrad.library.custom import CustomOpDef, custom_op
from fastgrad.library.formulas import ElementwiseOp, elementwise
from fastgrad.library.libraries import (
    Library,
    define,
    get_ctx,
    impl,
    register_autocast,
    register_autograd,
    register_fake,
    register_kernel,
    register_vmap,
    triton_op,
    wrap_triton,
)
from fastgrad.library.schemas import infer_schema
from fastgrad.module_names import getattr_of as _getattr_of
from fastgrad.ops.vocabulary import c, m

__all__ = [
    "CustomOpDef",
    "ElementwiseOp",
    "Library",
    "c",
    "custom_op",
    "define",
    "elementwise",
    "get_ctx",
    "impl",
    "infer_schema",
    "m",
    "op",
    "opcheck",
    "register_autocast",
    "register_autograd",
    "register_fake",
    "register_kernel",
    "register_vmap",
    "triton_op",
    "wrap_triton",
]

__getattr__ = _getattr_of(__name__, {"opcheck": "checking"})
